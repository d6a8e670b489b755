//! epoll(7): the shadow of one kernel epoll instance.
//!
//! The application's epfd stays the kernel's, with every descriptor in it. Entries that
//! are the engine's carry our own data there, so that what the kernel reports of them
//! can be told from the rest and merged with what the engine knows: one event per entry.
//!
//! Level: an entry is reported while it is readable. Edge: once per arrival. One-shot:
//! disarmed on both sides by the first report.

mod handed;
mod set;

use self::set::EpollSet;
use super::kick::Kick;
use super::wait::{How, Set, SleepSet, wait};
use super::{Object, Timeout};
use crate::error::Errno;
use crate::ring::Lock;
use crate::socket::{Calls, Core, Follower, UdpSocket};
use crate::stats::layout::IomuxBlock;
use crate::sys::event::{self, Event};
use crate::sys::mutex::Mutex;
use smallvec::SmallVec;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

pub(super) const EPOLLIN: u32 = libc::EPOLLIN as u32;
pub(super) const EPOLLRDNORM: u32 = libc::EPOLLRDNORM as u32;
/// Interest that the engine cannot answer by itself.
const KERNEL_BITS: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
const EPOLLET: u32 = libc::EPOLLET as u32;
pub(super) const EPOLLONESHOT: u32 = libc::EPOLLONESHOT as u32;
const EPOLLEXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// Upper half of the data that the kernel holds for an entry of ours. Not a canonical
/// address, so it collides with no pointer, and not a small number.
const COOKIE: u64 = 0xd35c_1e77 << 32;
const COOKIE_MASK: u64 = 0xffff_ffff << 32;
const ORPHANS: usize = 64;

/// An entry that is the engine's.
#[derive(Debug)]
struct Member {
    fd: RawFd,
    /// Never used again in this instance: the lower half of the cookie.
    id: u32,
    object: Object,
    events: u32,
    data: u64,
    /// False after a one-shot report.
    armed: bool,
    /// Arrivals at the last report of an edge-triggered entry; None: report if readable.
    seen: Option<u64>,
    /// The round in which it was last reported.
    reported: u64,
}

impl Member {
    /// What sets an edge-triggered entry off: arrivals, and where writing is of interest
    /// each datagram that has left.
    fn edges(&self) -> u64 {
        let reads = self.events & (EPOLLIN | EPOLLRDNORM) != 0;
        let writes = self.events & KERNEL_BITS != 0;
        let mut sum = 0u64;
        self.object.each_socket(0, &mut |s| {
            let arrived = if reads { s.arrivals() } else { 0 };
            let left = if writes { s.departures() } else { 0 };
            sum = sum.wrapping_add(arrived).wrapping_add(left);
        });
        sum
    }

    /// Not readable, but set off since its last report: then Linux looks at all of it.
    #[cold]
    fn set_off(&self) -> bool {
        self.armed && self.events & KERNEL_BITS != 0 && self.seen.is_some_and(|s| s != self.edges())
    }

    /// As [`Self::engine_bits`], with what else Linux would report.
    #[inline]
    fn due_bits(&self) -> u32 {
        match self.engine_bits() {
            0 if self.events & EPOLLET != 0 && self.set_off() => self.kernel_bits(),
            0 => 0,
            bits => bits | self.kernel_bits(),
        }
    }

    /// Bits that only the kernel socket knows: looked at when the engine reports an entry
    /// that wants them too, for Linux reports all of an entry at once.
    #[inline]
    fn kernel_bits(&self) -> u32 {
        match self.events & KERNEL_BITS {
            0 => 0,
            wanted => self.ask_kernel(wanted),
        }
    }

    #[inline(never)]
    fn ask_kernel(&self, wanted: u32) -> u32 {
        let mut one = [libc::pollfd {
            fd: self.fd,
            events: wanted as i16,
            revents: 0,
        }];
        match event::ppoll(&mut one, Some(0), None) {
            Ok(1) => u32::from(one[0].revents as u16) & (wanted | libc::EPOLLERR as u32),
            _ => 0,
        }
    }

    /// Takes note of a report; true: a one-shot entry, disarmed by it.
    #[inline]
    fn report(&mut self, round: u64) -> bool {
        self.reported = round;
        if self.events & EPOLLET != 0 {
            self.seen = Some(self.edges());
        }
        let once = self.events & EPOLLONESHOT != 0;
        if once {
            self.armed = false;
        }
        once
    }

    /// The bits that the engine reports now.
    #[inline(always)]
    fn engine_bits(&self) -> u32 {
        let bits = self.events & (EPOLLIN | EPOLLRDNORM);
        if bits == 0 || !self.armed || !self.object.readable(0) {
            return 0;
        }
        if self.events & EPOLLET != 0 && self.seen.is_some_and(|seen| seen == self.edges()) {
            return 0;
        }
        bits
    }
}

#[derive(Debug, Default)]
struct Members {
    list: Vec<Member>,
    next_id: u32,
    /// Where the next report begins, so that a full array starves nobody.
    turn: usize,
    /// Counts collections, so that an entry is in one of them once.
    round: u64,
    /// Id and data of entries whose socket is closed here and, as far as one can know, held by
    /// another process: the kernel still reports them. The last ones.
    orphans: Vec<(u32, u64)>,
}

/// Shadow of one kernel epoll instance.
#[derive(Debug)]
pub struct Epoll {
    core: &'static Core,
    members: Lock<Members>,
    count: AtomicUsize,
    /// See [`Self::known_mask`].
    mask: AtomicU64,
    /// Found with the mask: an entry is untold.
    untold: AtomicBool,
    /// [`Core::kernel_news`] of which the kernel had nothing for the set.
    quiet_at: AtomicU64,
    calls: Calls,
    mask_epoch: AtomicU32,
    /// There are, or may be, descriptors in the set that only the kernel knows.
    foreign: AtomicBool,
    /// An entry wants to know about writing: the kernel's part is not to be kept back.
    writable: AtomicBool,
    /// Wakes a call that waits in the kernel since before the first entry of ours.
    kick: Mutex<Option<Kick>>,
    kicking: AtomicBool,
    /// The kernel's events filled the array: the engine's turn, until each entry had its.
    engine_turn: AtomicBool,
    fds: Mutex<Vec<RawFd>>,
    /// Entries have the program's data in the kernel, as of the last change.
    handed: AtomicBool,
    sleepers: AtomicU32,
    watchers: Mutex<Vec<Arc<Event>>>,
    stats: &'static IomuxBlock,
}

impl Epoll {
    /// The shadow of a kernel instance. `used`: there may be descriptors in it already.
    pub(crate) fn new(
        core: &'static Core,
        epfd: RawFd,
        used: bool,
        stats: &'static IomuxBlock,
    ) -> Self {
        Self {
            core,
            members: Lock::new(Members::default()),
            count: AtomicUsize::new(0),
            mask: AtomicU64::new(0),
            untold: AtomicBool::new(true),
            quiet_at: AtomicU64::new(u64::MAX),
            calls: Calls::default(),
            mask_epoch: AtomicU32::new(0),
            foreign: AtomicBool::new(used),
            writable: AtomicBool::new(false),
            kick: Mutex::new(None),
            kicking: AtomicBool::new(false),
            engine_turn: AtomicBool::new(false),
            fds: Mutex::new(vec![epfd]),
            handed: AtomicBool::new(false),
            sleepers: AtomicU32::new(0),
            watchers: Mutex::new(Vec::new()),
            stats,
        }
    }

    /// What [`Self::ring_mask`] found last, and the epoch of the rings before it: 32 bits each.
    #[inline]
    fn known_mask(&self) -> Option<u64> {
        let before = self.mask_epoch.load(Ordering::Acquire);
        let mask = self.mask.load(Ordering::Acquire);
        let after = self.mask_epoch.load(Ordering::Relaxed);
        (before == self.core.rings_epoch() && after == before).then_some(mask)
    }

    /// No member needs the engine: the kernel's epoll_wait alone is right.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// A call that knows of the engine looks at the set: the kick has done its work.
    #[inline]
    fn end_kick(&self) {
        if self.kicking.load(Ordering::Relaxed) {
            self.drop_kick();
        }
    }

    #[cold]
    fn drop_kick(&self) {
        self.kicking.store(false, Ordering::Relaxed);
        *self.kick.lock() = None;
    }

    /// Whether the kick stands for such an entry.
    fn kicks_for(&self, is: impl Fn(&Kick) -> bool) -> bool {
        self.kicking.load(Ordering::Relaxed) && self.kick.lock().as_ref().is_some_and(is)
    }

    #[inline]
    pub(super) fn ring_mask(&self, depth: u32) -> u64 {
        self.end_kick();
        self.known_mask().unwrap_or_else(|| self.find_mask(depth))
    }

    #[inline(never)]
    fn find_mask(&self, depth: u32) -> u64 {
        // Read before the members: a change meanwhile makes the mask stale, not wrong.
        let epoch = self.core.rings_epoch();
        let Some(members) = self.members.lock() else {
            return 0;
        };
        let masks = members.list.iter().map(|m| m.object.ring_mask(depth));
        let mask = masks.fold(0, |all, mask| all | mask);
        let untold = members.list.iter().any(|m| m.object.untold(depth));
        self.untold.store(untold, Ordering::Relaxed);
        // Under the lock, so that no older one comes after a newer. Of a set inside a set
        // that is too deep the mask is cut off, and not to be remembered.
        if depth == 0 {
            // No epoch is 0: who reads meanwhile takes neither mask for the other's.
            self.mask_epoch.store(0, Ordering::Relaxed);
            self.mask.store(mask, Ordering::Release);
            self.mask_epoch.store(epoch, Ordering::Release);
        }
        mask
    }

    pub(super) fn any_ready(&self, depth: u32) -> bool {
        let due = |e: &Member| match e.events & EPOLLET {
            0 => e.armed && e.events & EPOLLIN != 0 && e.object.readable(depth),
            _ => e.due_bits() != 0,
        };
        self.members.lock().is_some_and(|m| m.list.iter().any(due))
    }

    /// Holds what nobody tells of, as of the last look for its rings.
    pub(super) fn untold(&self, depth: u32) -> bool {
        self.ring_mask(depth);
        self.foreign.load(Ordering::Relaxed) || self.untold.load(Ordering::Relaxed)
    }

    pub(super) fn each_socket(&self, depth: u32, visit: &mut dyn FnMut(&Arc<UdpSocket>)) {
        let objects: SmallVec<[Object; 8]> = self.members.lock().map_or_else(SmallVec::new, |m| {
            m.list.iter().map(|e| e.object.clone()).collect()
        });
        for object in objects {
            object.each_socket(depth, visit);
        }
    }

    /// Registers a sleeper that a change of the set has to wake.
    pub(super) fn watch(&self, event: &Arc<Event>, on: bool) {
        let mut watchers = self.watchers.lock();
        if on {
            watchers.push(Arc::clone(event));
            self.sleepers.fetch_add(1, Ordering::SeqCst);
        } else if let Some(at) = watchers.iter().position(|w| Arc::ptr_eq(w, event)) {
            watchers.swap_remove(at);
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn changed(&self) {
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            for event in self.watchers.lock().iter() {
                event.signal();
            }
        }
    }

    /// Makes the kernel's epoll_ctl and follows it. `event` is the caller's pointer.
    ///
    /// # Errors
    /// The kernel's.
    pub fn ctl(
        &self,
        epfd: RawFd,
        op: i32,
        fd: RawFd,
        target: Option<&Object>,
        event: usize,
    ) -> Result<usize, Errno> {
        let Some(target) = target else {
            let result = event::epoll_ctl(epfd, op, fd, event)?;
            if op == libc::EPOLL_CTL_ADD {
                self.foreign.store(true, Ordering::Relaxed);
            }
            return Ok(result);
        };
        if op == libc::EPOLL_CTL_DEL {
            let result = event::epoll_ctl(epfd, op, fd, event)?;
            self.remove(|m| m.fd == fd);
            if self.kicks_for(|k| k.fd == fd) {
                self.end_kick();
            }
            return Ok(result);
        }
        let id = self.id_for(op, fd);
        // The kernel reads the caller's event first: a bad pointer is its EFAULT, a bad
        // combination its EINVAL; then the data is replaced by ours.
        let result = event::epoll_ctl(epfd, op, fd, event)?;
        let Some(wanted) = event::user_event(event) else {
            return Ok(result);
        };
        let kernel = libc::epoll_event {
            events: wanted.events & !EPOLLEXCLUSIVE,
            u64: COOKIE | u64::from(id),
        };
        if wanted.events & EPOLLEXCLUSIVE == 0 {
            let at = std::ptr::from_ref(&kernel) as usize;
            event::epoll_ctl(epfd, libc::EPOLL_CTL_MOD, fd, at)?;
        } else {
            // An exclusive entry cannot be modified: out and in again.
            let ours = libc::epoll_event {
                events: wanted.events,
                ..kernel
            };
            let at = std::ptr::from_ref(&ours) as usize;
            event::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, fd, 0)?;
            event::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, fd, at)?;
        }
        self.handed.store(false, Ordering::Relaxed);
        let mut first = false;
        if let Some(mut members) = self.members.lock() {
            first = members.list.is_empty();
            members.list.retain(|m| m.fd != fd);
            members.list.push(Member {
                fd,
                id,
                object: target.clone(),
                events: wanted.events,
                data: wanted.u64,
                armed: true,
                seen: None,
                reported: 0,
            });
            self.note(&members);
        }
        let renew = first || self.kicks_for(|k| k.fd == fd);
        if renew && let Object::Udp(socket) = target {
            *self.kick.lock() = Kick::install(epfd, fd, socket, wanted);
            self.kicking.store(true, Ordering::Relaxed);
        }
        self.changed();
        Ok(result)
    }

    fn id_for(&self, op: i32, fd: RawFd) -> u32 {
        let Some(mut members) = self.members.lock() else {
            return 0;
        };
        if op == libc::EPOLL_CTL_MOD
            && let Some(member) = members.list.iter().find(|m| m.fd == fd)
        {
            return member.id;
        }
        members.next_id = members.next_id.wrapping_add(1);
        members.next_id
    }

    /// What is read without the lock.
    fn note(&self, members: &Members) {
        let writable = members.list.iter().any(|m| m.events & KERNEL_BITS != 0);
        self.writable.store(writable, Ordering::Relaxed);
        self.core.rings_changed();
        let count = members.list.len() + members.orphans.len();
        self.count.store(count, Ordering::Release);
    }

    fn remove(&self, gone: impl Fn(&Member) -> bool) {
        if let Some(mut members) = self.members.lock() {
            members.list.retain(|m| !gone(m));
            self.note(&members);
        }
    }

    /// The kernel has taken these out, unless another process holds their files.
    fn abandon(&self, gone: impl Fn(&Member) -> bool) {
        if crate::socket::held_elsewhere()
            && let Some(mut members) = self.members.lock()
        {
            let Members { list, orphans, .. } = &mut *members;
            for member in list.iter().filter(|m| gone(m)) {
                if orphans.len() == ORPHANS {
                    orphans.remove(0);
                }
                orphans.push((member.id, member.data));
                self.foreign.store(true, Ordering::Relaxed);
            }
        }
        self.remove(gone);
    }

    /// epoll_wait and its kin; `mask` as in [`super::poll()`].
    ///
    /// # Errors
    /// As epoll_wait(2).
    pub fn wait(
        &self,
        epfd: RawFd,
        out: &mut [libc::epoll_event],
        timeout: Timeout,
        mask: Option<u64>,
    ) -> Result<usize, Errno> {
        self.end_kick();
        if crate::socket::in_forked_child() {
            self.each_socket(0, &mut |socket| socket.settle());
        }
        let mut set = EpollSet {
            epoll: self,
            epfd,
            out,
            filled: 0,
            engine: 0,
            passed: false,
        };
        let result = wait(self.core, &mut set, How { timeout, mask });
        let engine = set.engine as u64;
        let events = &self.stats.events;
        match result {
            // Counted one by one: a locked addition of nothing costs as much as any.
            Ok(n) if engine > 0 => {
                events.offload_ready.add_shared(engine);
                events.poll_hit.add_shared(1);
                if n as u64 > engine {
                    events.os_ready.add(n as u64 - engine);
                }
            }
            result => self.count_rest(result),
        }
        result
    }

    #[inline(never)]
    fn count_rest(&self, result: Result<usize, Errno>) {
        let events = &self.stats.events;
        match result {
            Ok(0) => events.timeouts.add(1),
            Ok(n) => {
                events.os_ready.add(n as u64);
                events.poll_miss.add(1);
            }
            Err(_) => events.errors.add(1),
        }
    }

    /// A descriptor number now names this instance.
    pub fn fd_added(&self, fd: RawFd) {
        self.fds.lock().push(fd);
    }

    /// A number is about to be closed.
    pub fn fd_removed(&self, fd: RawFd) {
        let mut fds = self.fds.lock();
        fds.retain(|f| *f != fd);
        let last = fds.is_empty();
        drop(fds);
        if last {
            self.remove(|_| true);
            self.end_kick();
            self.core.publisher.release_iomux(self.stats);
        }
    }
}

impl Follower for Epoll {
    fn hold_for_fork(&self) -> bool {
        if self.kicking.load(Ordering::Relaxed)
            && let Some(kick) = &*self.kick.lock()
        {
            kick.renew();
        }
        self.members.hold_for_fork()
    }

    fn end_hold(&self, child: bool) {
        self.members.release_after_fork();
        if child {
            self.sleepers.store(0, Ordering::Relaxed);
            self.watchers.lock().clear();
        }
    }

    fn closed(&self, socket: &UdpSocket) {
        self.abandon(|m| matches!(&m.object, Object::Udp(s) if std::ptr::eq(&**s, socket)));
        if self.kicks_for(|k| std::ptr::eq(&*k.socket, socket)) {
            self.end_kick();
        }
    }
}
