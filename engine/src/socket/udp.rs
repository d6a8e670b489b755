//! The shadow of one kernel UDP socket: what every call on it needs.
//!
//! One per open file description. The data path reads atomics; what the control plane
//! knows stands behind the core's directory lock ([`super::core`]).

use super::control::{Control, tx_kernel};
use super::core::Core;
use super::io::{Datagram, Delivery, Receive, wanted};
use super::migrate::Habits;
use super::moving::Moving;
use super::path::{Direct, Ring, record};
use super::route::patient;
use super::send::TxCache;
use super::told::KernelLook;
use crate::error::{Errno, Reason};
use crate::ring::{Lock, Queue, Record};
use crate::stats::layout::SocketBlock;
use crate::sys::bpf::Shared;
use crate::sys::cell::Cell;
use crate::sys::event::Event;
use crate::sys::mutex::Mutex;
use crate::wire::Plain;
use std::hint::cold_path;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use std::sync::{Arc, Weak};

/// Address family of an application's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// AF_INET.
    V4,
    /// AF_INET6, carrying IPv4 as ::ffff:a.b.c.d.
    V6,
}

/// A sockaddr as the caller gave it: the kernel sees the original, the engine the parsed form.
#[derive(Clone, Copy, Debug)]
pub struct SockAddrArg {
    /// Address of the caller's structure.
    pub ptr: usize,
    /// Its length as given.
    pub len: u32,
    /// AF_INET or AF_INET6 and long enough, else None (also AF_UNSPEC).
    pub parsed: Option<SocketAddr>,
}

/// Who serves a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// The kernel alone.
    Kernel = 0,
    /// The engine, and the kernel for what does not come by its rings.
    Engine = 1,
    /// The engine of the parent process; this is a forked child.
    Inherited = 2,
    /// The engine, but first what the kernel socket holds from before.
    CatchingUp = 3,
}

impl Mode {
    /// The engine serves it.
    #[must_use]
    pub const fn is_engine(self) -> bool {
        matches!(self, Self::Engine | Self::CatchingUp)
    }
}

/// Shadow of one kernel UDP socket.
pub struct UdpSocket {
    pub(super) core: &'static Core,
    pub(super) me: Weak<UdpSocket>,
    pub(super) family: Family,
    /// One of its numbers, or a duplicate kept by a blocked call.
    pub(super) fd: AtomicI32,
    pub(super) fds: Mutex<Vec<RawFd>>,
    mode: AtomicU8,
    pub(super) nonblocking: AtomicBool,
    /// Bits of the rings that it is attached to.
    pub(super) rings: AtomicU64,
    /// The one of them, if it is only one.
    only_ring: AtomicPtr<Ring>,
    pub(super) queue: Lock<Queue>,
    pub(super) queued: AtomicUsize,
    /// Datagrams below this number were queued at a fork and are shared; 0: none.
    shared_until: AtomicU64,
    /// Datagrams that ever arrived, for edge-triggered readiness.
    arrivals: AtomicU64,
    drops: AtomicU32,
    /// Bits of [`super::io::wanted`].
    pub(super) wanted: AtomicU32,
    /// SO_RCVTIMEO in ns, 0: none.
    pub(super) receive_timeout: AtomicU64,
    /// Calls blocked in the kernel's receive: they would not see the engine's datagrams.
    pub(super) kernel_readers: AtomicU32,
    /// Only such a call keeps it from the engine.
    pub(super) waiting: AtomicBool,
    /// Its device is out of order for a while.
    pub(super) parked: AtomicBool,
    /// It has no port yet.
    pub(super) unbound: AtomicBool,
    /// Calls that wait in user space or in a ppoll.
    pub(super) blocked: AtomicU32,
    /// Closed by the program while a call waits; `fd` is our own duplicate.
    pub(super) orphan: AtomicBool,
    /// SHUT_RD: a receive that would wait returns 0 instead, by the kernel.
    pub(super) shut: AtomicBool,
    pub(super) kernel_look: KernelLook,
    pub(super) moving: Moving,
    /// Connected peer ([`super::io::Peer`]); 0: none.
    pub(super) peer: AtomicU64,
    pub(super) tx: Lock<TxCache>,
    /// Reasons for sending through the kernel; 0: none.
    pub(super) tx_kernel: AtomicU32,
    sleepers: AtomicU32,
    pub(super) waiters: Mutex<Vec<Arc<Event>>>,
    /// Since when the kernel has it again (forked children, hand-back).
    pub(super) cutoff: Cell,
    /// What its kernel socket refuses of what a device that steers lets through.
    pub(super) shared: Mutex<Vec<Shared>>,
    pub(super) control: Mutex<Control>,
    pub(super) habits: Habits,
    /// Counters.
    pub stats: &'static SocketBlock,
}

impl std::fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UdpSocket")
            .field("fd", &self.fd)
            .field("mode", &self.mode())
            .finish_non_exhaustive()
    }
}

impl UdpSocket {
    pub(super) fn new(
        core: &'static Core,
        fd: RawFd,
        family: Family,
        control: Control,
        stats: &'static SocketBlock,
    ) -> Arc<Self> {
        let limit = control.receive_limit;
        Arc::new_cyclic(|me| Self {
            core,
            me: me.clone(),
            family,
            fd: AtomicI32::new(fd),
            fds: Mutex::new(vec![fd]),
            mode: AtomicU8::new(Mode::Kernel as u8),
            nonblocking: AtomicBool::new(false),
            rings: AtomicU64::new(0),
            only_ring: AtomicPtr::default(),
            queue: Lock::new(Queue::new(limit)),
            queued: AtomicUsize::new(0),
            shared_until: AtomicU64::new(0),
            arrivals: AtomicU64::new(0),
            drops: AtomicU32::new(0),
            wanted: AtomicU32::new(0),
            receive_timeout: AtomicU64::new(0),
            kernel_readers: AtomicU32::new(0),
            waiting: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            unbound: AtomicBool::new(true),
            blocked: AtomicU32::new(0),
            orphan: AtomicBool::new(false),
            shut: AtomicBool::new(false),
            kernel_look: KernelLook::default(),
            moving: Moving::default(),
            peer: AtomicU64::new(0),
            tx: Lock::new(TxCache::default()),
            tx_kernel: AtomicU32::new(tx_kernel::UNSERVED),
            sleepers: AtomicU32::new(0),
            waiters: Mutex::new(Vec::new()),
            cutoff: Cell::new(),
            shared: Mutex::new(Vec::new()),
            control: Mutex::new(control),
            habits: core.allocation.habits(),
            stats,
        })
    }

    /// Who serves it now.
    #[inline]
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.mode.load(Ordering::Acquire) {
            0 => Mode::Kernel,
            1 => Mode::Engine,
            2 => Mode::Inherited,
            _ => Mode::CatchingUp,
        }
    }

    pub(super) fn set_mode(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::Release);
        self.with_tx(tx_kernel::UNSERVED, !mode.is_engine());
    }

    /// The kernel socket has nothing left of what came before.
    pub(super) fn caught_up(&self) {
        let (from, to) = (Mode::CatchingUp as u8, Mode::Engine as u8);
        let _ = self
            .mode
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Rings send for it, whoever receives.
    pub(super) fn sends_by_ring(&self) -> bool {
        self.tx_kernel.load(Ordering::Relaxed) & tx_kernel::UNSERVED == 0
    }

    /// The engine may have it soon, without any call of one that waits.
    pub(super) fn awaits_engine(&self) -> bool {
        self.unbound.load(Ordering::Acquire) || self.parked.load(Ordering::Acquire)
    }

    /// A number that names the kernel socket.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.fd.load(Ordering::Relaxed)
    }

    /// Other rings bring its datagrams from now on.
    pub(super) fn set_rings(&self, mask: u64) {
        self.rings.store(mask, Ordering::Release);
        let only = Some(mask)
            .filter(|m| m.is_power_of_two())
            .and_then(|m| self.core.ring_at(m.trailing_zeros()));
        let only = only.map_or(std::ptr::null_mut(), |r| std::ptr::from_ref(r).cast_mut());
        self.only_ring.store(only, Ordering::Release);
        self.core.rings_changed();
    }

    /// The ring that brings all its datagrams; None: there are several, or none.
    #[inline(always)]
    pub(super) fn only_ring(&self) -> Option<&'static Ring> {
        crate::sys::leaked(&self.only_ring)
    }

    /// Bits of the rings that bring its datagrams.
    #[inline]
    #[must_use]
    pub fn ring_mask(&self) -> u64 {
        self.rings.load(Ordering::Relaxed)
    }

    /// The process's engine.
    #[must_use]
    pub fn core(&self) -> &'static Core {
        self.core
    }

    /// True when the engine holds a datagram for it.
    #[inline]
    #[must_use]
    pub fn readable(&self) -> bool {
        self.queued.load(Ordering::Acquire) != 0
            && (self.shared_until.load(Ordering::Relaxed) == 0 || self.readable_shared())
    }

    /// As [`Self::readable`], where a forked relative may have taken what is queued.
    #[cold]
    fn readable_shared(&self) -> bool {
        self.queue
            .lock()
            .is_some_and(|mut queue| self.sift(&mut queue, true))
    }

    /// Drops from the front what another process has taken; true: the front is there and,
    /// unless `peek`, now this process's.
    fn sift(&self, queue: &mut Queue, peek: bool) -> bool {
        loop {
            let number = queue.front_number();
            if number >= self.shared_until.load(Ordering::Relaxed) {
                self.shared_until.store(0, Ordering::Relaxed);
                return !queue.is_empty();
            }
            if self.cutoff.unclaimed() > number {
                queue.pop();
                self.queued.store(queue.len(), Ordering::Release);
            } else if peek || self.cutoff.claim(number) {
                return true;
            }
        }
    }

    /// Before fork: holds what the child is to find whole. What is queued now is parent's and
    /// child's, for whoever takes it first. False: somebody is at work on it.
    pub(super) fn hold_for_fork(&self) -> bool {
        if !self.tx.hold_for_fork() {
            return false;
        }
        let Some(queue) = self.queue.try_lock() else {
            self.tx.release_after_fork();
            return false;
        };
        let front = queue.front_number();
        if front >= self.shared_until.load(Ordering::Relaxed) {
            self.cutoff.share_from(front);
        }
        let until = if queue.is_empty() {
            0
        } else {
            front + queue.len() as u64
        };
        self.shared_until.store(until, Ordering::Relaxed);
        queue.hold_for_fork();
        true
    }

    /// After fork: ends [`Self::hold_for_fork`]. In the child of a process with too many
    /// sockets for the shared page the parent keeps what is queued.
    pub(super) fn end_hold(&self, child: bool) {
        self.queue.release_after_fork();
        self.tx.release_after_fork();
        if child && !self.cutoff.shared() {
            self.disown_queue();
        }
    }

    /// In a forked child: the calls of the parent's other threads do not go on here.
    pub(super) fn forget_calls(&self) {
        self.blocked.store(0, Ordering::Relaxed);
        self.kernel_readers.store(0, Ordering::Relaxed);
        self.sleepers.store(0, Ordering::Relaxed);
        self.waiting.store(false, Ordering::Relaxed);
        // Their events are closed, and the numbers may become anything.
        self.waiters.lock().clear();
    }

    /// Datagrams that ever arrived by the engine.
    #[must_use]
    pub fn arrivals(&self) -> u64 {
        self.arrivals.load(Ordering::Acquire)
    }

    /// A call has taken a datagram from the engine.
    pub(super) fn has_received(&self) -> bool {
        self.arrivals() > self.queued.load(Ordering::Acquire) as u64
    }

    /// Datagrams that left by a ring.
    #[must_use]
    pub fn departures(&self) -> u64 {
        self.stats.tx.packets.get()
    }

    /// A datagram for this socket, from a ring, under the ring's lock.
    #[inline(always)]
    pub(super) fn accept<D: Direct>(&self, record: &Record, payload: &[u8], direct: &mut D) {
        if !self.is_kernels(record.timestamp, || *record) && !direct.offer(self, *record, payload) {
            self.enqueue(record, payload);
        }
    }

    /// As [`Self::accept`], and no more of the headers is read than is asked for.
    #[inline(always)]
    pub(super) fn accept_plain<D: Direct>(
        &self,
        plain: Plain<'_>,
        ifindex: u32,
        timestamp: u64,
        direct: &mut D,
    ) {
        let udp = plain.datagram();
        if !self.is_kernels(timestamp, || record(&udp, ifindex, timestamp))
            && !direct.offer(self, record(&udp, ifindex, timestamp), udp.payload)
        {
            self.enqueue_plain(plain, ifindex, timestamp);
        }
    }

    /// For [`super::path::Ring::take_first`]: the engine's, with nothing older queued. Asked
    /// when the frame is there: whoever takes the socket away stores its time first.
    #[inline(always)]
    pub(super) fn takes_now(&self) -> bool {
        self.cutoff.get() == 0 && self.queued.load(Ordering::Acquire) == 0
    }

    /// Gives a call a datagram straight from the ring.
    #[inline(always)]
    pub(super) fn hand_over<R: Receive>(
        &self,
        call: &mut R,
        record: &Record,
        payload: &[u8],
    ) -> Result<usize, Errno> {
        let how = if R::CONTROL {
            Delivery {
                drops: self.drops(),
                ..self.delivery(record)
            }
        } else {
            self.plain_delivery()
        };
        // First: what became of the call is not kept meanwhile.
        self.count_direct(payload.len());
        call.deliver(&datagram(record, payload), &how)
    }

    /// The kernel socket got what came at that time.
    #[inline(always)]
    fn is_kernels(&self, timestamp: u64, record: impl FnOnce() -> Record) -> bool {
        let cutoff = self.cutoff.get();
        cutoff != 0 && timestamp >= cutoff && self.kernel_has(&record())
    }

    /// The kernel socket, which refuses nothing any more, got this datagram as well.
    #[cold]
    fn kernel_has(&self, record: &Record) -> bool {
        !self.core.steers(record.ifindex) || self.is_shared(record)
    }

    /// A device that steers lets a copy through.
    pub(super) fn is_shared(&self, record: &Record) -> bool {
        let group = *record.destination.ip();
        // Held elsewhere only while the list is replaced.
        group.is_multicast()
            && patient(&self.shared).is_some_and(|list| {
                list.iter()
                    .any(|s| s.ifindex == record.ifindex && s.group == group)
            })
    }

    /// Datagrams that found its queue full.
    #[inline]
    pub(super) fn drops(&self) -> u32 {
        self.drops.load(Ordering::Relaxed)
    }

    /// What Linux prepares for a datagram before it queues it: what is asked for then.
    #[inline]
    pub(super) fn asked(&self) -> u8 {
        const STAMPS: u32 = wanted::TIMESTAMP | wanted::TIMESTAMPNS | wanted::TIMESTAMPING;
        let wanted = self.wanted.load(Ordering::Relaxed);
        let bit = |asked: bool, bit| if asked { bit } else { 0 };
        let pktinfo = wanted & (wanted::PKTINFO | wanted::PKTINFO6) != 0;
        bit(pktinfo, Record::PKTINFO) | bit(wanted & STAMPS != 0, Record::STAMP)
    }

    #[inline(never)]
    fn enqueue_plain(&self, plain: Plain<'_>, ifindex: u32, timestamp: u64) {
        let udp = plain.datagram();
        self.enqueue(&record(&udp, ifindex, timestamp), udp.payload);
    }

    #[inline]
    fn enqueue(&self, record: &Record, payload: &[u8]) {
        if self.moving.remembers() {
            self.remember(record, payload);
        }
        let record = &Record {
            asked: self.asked(),
            drops: self.drops(),
            ..*record
        };
        let Some(mut queue) = self.queue.lock() else {
            return; // a signal handler inside this very lock: the datagram is lost
        };
        let counters = &self.stats.queue;
        if queue.push(record, payload) {
            let (count, bytes) = (queue.len() as u64, queue.payload_bytes() as u64);
            self.queued.store(queue.len(), Ordering::Release);
            counters.packets.set(count);
            counters.bytes.set(bytes);
            counters.max_packets.max_exclusive(count);
            counters.max_bytes.max_exclusive(bytes);
        } else {
            counters.drop_packets.add_exclusive(1);
            counters.drop_bytes.add_exclusive(payload.len() as u64);
            self.drops
                .store(self.drops().wrapping_add(1), Ordering::Relaxed);
        }
        // Under the lock, for rings of several threads may bring something.
        let arrivals = self.arrivals.load(Ordering::Relaxed);
        self.arrivals.store(arrivals + 1, Ordering::Release);
        drop(queue);
        // Pairs with the fence of a sleeper between registering and its last look.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
    }

    /// Counts a datagram that a call took straight from the ring.
    #[inline]
    pub(super) fn count_direct(&self, payload: usize) {
        let arrivals = self.arrivals.load(Ordering::Relaxed);
        self.arrivals.store(arrivals + 1, Ordering::Release);
        let rx = &self.stats.rx;
        rx.packets.add_exclusive(1);
        rx.bytes.add_exclusive(payload as u64);
    }

    /// How a datagram is shown to the program.
    #[inline]
    pub(super) fn delivery(&self, record: &Record) -> Delivery {
        let mut wanted = self.wanted.load(Ordering::Relaxed);
        if wanted & wanted::HARDWARE != 0 && !self.core.is_card_time(record) {
            cold_path();
            wanted &= !wanted::HARDWARE;
        }
        let destination = *record.destination.ip();
        let local = if record.asked & Record::PKTINFO == 0 {
            Ipv4Addr::UNSPECIFIED
        } else if wanted == 0 || !destination.is_multicast() {
            destination
        } else {
            self.core
                .primary_address(record.ifindex)
                .unwrap_or(Ipv4Addr::UNSPECIFIED)
        };
        Delivery {
            mapped: self.family == Family::V6,
            wanted,
            drops: record.drops,
            local,
        }
    }

    /// As [`Self::delivery`], to a call without control messages.
    #[inline(always)]
    pub(super) fn plain_delivery(&self) -> Delivery {
        Delivery {
            mapped: self.family == Family::V6,
            wanted: 0,
            drops: 0,
            local: Ipv4Addr::UNSPECIFIED,
        }
    }

    /// Gives the oldest queued datagram to a call; None: there is none.
    #[inline(never)]
    pub(super) fn pop<R: Receive>(&self, call: &mut R, peek: bool) -> Option<Result<usize, Errno>> {
        let mut queue = self.queue.lock()?;
        if self.shared_until.load(Ordering::Relaxed) != 0 && !self.sift(&mut queue, peek) {
            return None;
        }
        let (record, payload) = queue.front()?;
        let result = call.deliver(&datagram(&record, payload), &self.delivery(&record));
        if peek {
            queue.look();
        } else {
            self.stats.rx.packets.add_exclusive(1);
            self.stats.rx.bytes.add_exclusive(payload.len() as u64);
            queue.pop();
            self.queued.store(queue.len(), Ordering::Release);
            self.stats.queue.packets.set(queue.len() as u64);
            self.stats.queue.bytes.set(queue.payload_bytes() as u64);
        }
        Some(result)
    }

    /// Number of the datagram that is queued next.
    pub(super) fn queue_end(&self) -> u64 {
        let queue = self.queue.lock();
        queue.map_or(0, |q| q.front_number() + q.len() as u64)
    }

    /// Puts datagrams before the one with this number.
    pub(super) fn insert_queued(&self, number: u64, others: Queue) {
        if let Some(mut queue) = self.queue.lock() {
            queue.insert(number, others);
            self.queued.store(queue.len(), Ordering::Release);
        }
    }

    /// Puts datagrams where they belong by their times; behind all where a forked relative
    /// counts those before them.
    pub(super) fn merge_queued(&self, others: Queue) {
        if let Some(mut queue) = self.queue.lock() {
            if self.shared_until.load(Ordering::Relaxed) == 0 {
                queue.merge(others);
            } else {
                queue.insert(u64::MAX, others);
            }
            self.queued.store(queue.len(), Ordering::Release);
        }
    }

    /// There is a queued datagram, with a number below this.
    pub(super) fn front_is_before(&self, number: u64) -> bool {
        self.readable()
            && self
                .queue
                .lock()
                .is_some_and(|queue| queue.front_number() < number)
    }

    /// When the oldest queued datagram came.
    pub(super) fn front_timestamp(&self) -> Option<u64> {
        if !self.readable() {
            return None;
        }
        self.queue
            .lock()?
            .front()
            .map(|(record, _)| record.timestamp)
    }

    /// Payload bytes of the oldest queued datagram.
    pub(super) fn front_length(&self) -> Option<usize> {
        let mut queue = self.queue.lock()?;
        queue.look();
        queue.front().map(|(_, payload)| payload.len())
    }

    pub(super) fn set_receive_limit(&self, limit: usize) {
        if let Some(mut queue) = self.queue.lock() {
            queue.set_limit(limit);
        }
        self.stats.queue.limit_bytes.set(limit as u64);
    }

    /// Drops what is queued: it came for a port that the kernel then refused.
    pub(super) fn clear_queue(&self) {
        if let Some(mut queue) = self.queue.lock() {
            queue.clear();
            self.queued.store(0, Ordering::Release);
            self.stats.queue.packets.set(0);
            self.stats.queue.bytes.set(0);
        }
    }

    /// Forgets what is queued: a forked child, whose parent has it.
    pub(super) fn disown_queue(&self) {
        self.queued.store(0, Ordering::Release);
    }

    /// Wakes every call that sleeps for this socket.
    pub fn wake(&self) {
        for event in self.waiters.lock().iter() {
            event.signal();
        }
    }

    /// Registers a sleeper; the caller looks once more after this, then sleeps.
    pub fn add_waiter(&self, event: &Arc<Event>) {
        self.waiters.lock().push(Arc::clone(event));
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Ends what [`Self::add_waiter`] began.
    pub fn remove_waiter(&self, event: &Arc<Event>) {
        let mut waiters = self.waiters.lock();
        if let Some(at) = waiters.iter().position(|w| Arc::ptr_eq(w, event)) {
            waiters.swap_remove(at);
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// After a successful F_SETFL or FIONBIO.
    pub fn flags_changed(&self, flags: i32) {
        let nonblocking = flags & libc::O_NONBLOCK != 0;
        self.nonblocking.store(nonblocking, Ordering::Relaxed);
        self.stats.set_blocking(!nonblocking);
        if flags & libc::O_ASYNC != 0 {
            // SIGIO is the kernel's to send, for what it receives.
            self.hand_back(Reason::Option);
        }
    }

    /// A descriptor number now names this socket (socket, dup, F_DUPFD).
    pub fn fd_added(&self, fd: RawFd) {
        if self.core.forked.load(Ordering::Relaxed) {
            return;
        }
        let mut fds = self.fds.lock();
        if !fds.contains(&fd) {
            fds.push(fd);
        }
    }
}

/// The form in which a call gets a queued datagram.
#[inline]
pub(super) fn datagram<'a>(record: &'a Record, payload: &'a [u8]) -> Datagram<'a> {
    Datagram {
        source: &record.source,
        destination: *record.destination.ip(),
        port: record.destination.port(),
        ifindex: if record.asked & Record::PKTINFO == 0 {
            0
        } else {
            record.ifindex
        },
        ttl: record.ttl,
        tos: record.tos,
        timestamp: record.timestamp,
        stamped: record.asked & Record::STAMP != 0,
        payload,
    }
}
