//! What all sockets of a process share: rings, routes, counters, the directory of who
//! is attached to what.
//!
//! Lock order: a socket's control lock, the directory, a ring, a socket's queue.

use super::control::Control;
use super::directory::Sockets;
use super::fault::Failures;
use super::groups::{HostGroups, Member};
use super::io::Left;
use super::migrate::Migrations;
use super::moving::Arrivals;
use super::path::{QueueAll, Ring, WHOLE_RING};
use super::rings::{Allocation, RINGS, RingTable};
use super::route::patient;
use super::share::Mixed;
use super::told::Told;
use super::udp::{Family, UdpSocket};
use crate::config::{Config, Opt, Rules, TraceLevel};
use crate::device::{self, Candidates, Delivery};
use crate::error::Reason;
use crate::net::{self, InterfaceAddress, Membership, Monitor, RouteClient, Tables};
use crate::ring::Record;
use crate::stats::layout::IomuxBlock;
use crate::stats::{IomuxKind, Publisher};
use crate::sys::event::Event;
use crate::sys::file::Text;
use crate::sys::icmp::PathWatch;
use crate::sys::mutex::{Mutex, RwLock};
use crate::sys::sock;
use once_cell::sync::OnceCell;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Frames handled by a poll on behalf of poll, select and epoll: what lies behind more than
/// these may come one call later, if something else is ready.
const POLL_BURST: usize = 256;

/// Numbers that the data path reads, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Tuning {
    /// VMA_RX_POLL: turns, -1 for ever.
    pub rx_poll: i64,
    /// Turns between looks at the kernel socket (VMA_RX_UDP_POLL_OS_RATIO); 0: it tells.
    pub rx_kernel_every: u32,
    /// VMA_SELECT_POLL: microseconds, -1 for ever.
    pub select_poll: i64,
    /// VMA_SELECT_POLL_OS_RATIO, for sets with descriptors that nobody watches.
    pub select_kernel_every: u32,
    /// VMA_SELECT_SKIP_OS.
    pub select_skip: u32,
    /// VMA_MTU, 0: the interface's.
    pub mtu: u32,
    /// VMA_RX_WRE.
    pub rx_slots: u32,
    /// VMA_TX_MC_LOOPBACK.
    pub multicast_loop: bool,
    /// Cores this process may run on.
    pub cores: u32,
}

/// A line for a person: the announcer decides whether it is heard, and where it goes.
pub type Announce = fn(TraceLevel, &str);

/// What refers to sockets and has to let go of one that is closed: epoll instances.
pub trait Follower: Send + Sync + std::fmt::Debug {
    /// No number names this socket any more.
    fn closed(&self, socket: &UdpSocket);
    /// Before fork: holds what the child is to find whole; false: somebody is at work on it.
    fn hold_for_fork(&self) -> bool;
    /// After it.
    fn end_hold(&self, child: bool);
}

/// Who is attached, and which interfaces are open.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(super) sockets: Sockets,
    /// By interface index: it has been opened, or why it cannot be.
    pub(super) interfaces: HashMap<u32, Result<(), Reason>>,
    pub(super) rings: RingTable,
    pub(super) migrating: Migrations,
    /// Interfaces whose device has failed.
    pub(super) failures: Failures,
    pub(super) mtu_warned: bool,
    /// Who else on the host wants our groups.
    pub(super) mixed: Mixed,
    /// While all sockets are looked at anew: inodes of those that may come, and rings are
    /// steered at the end.
    pub(super) coming: Option<Vec<u64>>,
}

/// The engine's shared part; one per process, never freed.
#[derive(Debug)]
pub struct Core {
    /// Hot numbers.
    pub tuning: Tuning,
    /// All options.
    pub config: Arc<Config>,
    /// The rules file, and the program that it is asked about.
    pub(super) rules: (Rules, String),
    /// Counters.
    pub publisher: Publisher,
    announce: Announce,
    pub(super) backend: Result<Candidates, Reason>,
    /// By number; never taken back, so that a stale number finds a ring still.
    rings: [AtomicPtr<Ring>; RINGS],
    /// Bits of those in use.
    listed: AtomicU64,
    pub(super) allocation: Allocation,
    pub(super) directory: Mutex<Directory>,
    /// It is the parent's: this process was forked, and has neither its rings nor its threads.
    pub(super) forked: AtomicBool,
    /// What netlink told.
    pub tables: RwLock<Tables>,
    /// Members of groups that all members filter by source; see [`HostGroups`].
    filtered: Mutex<Vec<Member>>,
    /// Netlink has told of groups that the rings have not been shown. Written under `tables`.
    pub(crate) groups_pending: AtomicBool,
    /// Held from reading the host's groups to keeping them: no older reading comes last.
    regrouping: Mutex<()>,
    pub(super) routes: Mutex<Option<RouteClient>>,
    monitor: Mutex<Option<Monitor>>,
    /// Rises when a route, address or neighbour changed.
    generation: AtomicU64,
    /// Rises when a socket or a readiness set gets its datagrams by other rings.
    rings_epoch: AtomicU32,
    /// Rises with every datagram that the process gives to the kernel.
    kernel_epoch: AtomicU64,
    wakers: Mutex<Vec<Arc<Event>>>,
    /// Tells the control thread that there is a new ring.
    ring_opened: Option<Event>,
    /// Network namespace of the interfaces that the engine knows.
    namespace: OnceCell<Option<u64>>,
    /// Hears of path MTUs, which netlink does not tell.
    pub(crate) paths: Option<PathWatch>,
    /// Kernel sockets that the control thread watches.
    pub(super) told: Told,
    /// Sockets that have just come from the kernel.
    pub(super) arrivals: Arrivals,
    /// A forked child signals it when it has taken a socket.
    pub(super) claimed: OnceCell<Option<Event>>,
    /// The UDP sockets of the host, as /proc lists them.
    pub(super) host_sockets: OnceCell<[Option<Text>; 2]>,
    /// The control thread is to look for others on our groups.
    pub(super) look_soon: AtomicBool,
    /// Held for a whole look: no older one comes last. Nothing else is held before it.
    pub(super) reviewing: Mutex<()>,
    readiness_calls: AtomicU32,
    poll_stats: &'static IomuxBlock,
    select_stats: &'static IomuxBlock,
    /// Not taken by forked children, whose sockets are another core's.
    followers: Mutex<Vec<Weak<dyn Follower>>>,
    /// Next hops in use, to keep their entries fresh.
    pub(super) neighbors: Mutex<Vec<(u32, Ipv4Addr)>>,
}

impl Core {
    /// Puts the shared part together; opens no device. `room`: descriptors may be taken.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        tuning: Tuning,
        publisher: Publisher,
        tables: Tables,
        routes: Option<RouteClient>,
        room: bool,
        announce: Announce,
    ) -> Self {
        Self {
            backend: if !room {
                Err(Reason::NoResources)
            } else if !config.flag(Opt::OffloadedSockets) {
                Err(Reason::SwitchedOff)
            } else {
                device::candidates(config.backend())
            },
            readiness_calls: AtomicU32::new(0),
            poll_stats: publisher.iomux(IomuxKind::Poll, -1),
            select_stats: publisher.iomux(IomuxKind::Select, -1),
            tuning,
            allocation: Allocation::of(&config),
            config,
            rules: (Rules::default(), String::new()),
            publisher,
            announce,
            rings: [const { AtomicPtr::new(std::ptr::null_mut()) }; RINGS],
            listed: AtomicU64::new(0),
            directory: Mutex::new(Directory::default()),
            forked: AtomicBool::new(false),
            tables: RwLock::new(tables),
            filtered: Mutex::new(Vec::new()),
            groups_pending: AtomicBool::new(false),
            regrouping: Mutex::new(()),
            routes: Mutex::new(routes),
            monitor: Mutex::new(None),
            generation: AtomicU64::new(1),
            rings_epoch: AtomicU32::new(1),
            kernel_epoch: AtomicU64::new(0),
            wakers: Mutex::new(Vec::new()),
            ring_opened: room.then(|| Event::open().ok()).flatten(),
            namespace: OnceCell::new(),
            paths: room.then(|| PathWatch::open().ok()).flatten(),
            told: Told::open(room),
            followers: Mutex::new(Vec::new()),
            arrivals: Arrivals::default(),
            claimed: OnceCell::new(),
            host_sockets: OnceCell::new(),
            look_soon: AtomicBool::new(false),
            reviewing: Mutex::default(),
            neighbors: Mutex::new(Vec::new()),
        }
    }

    /// Keeps the event socket until the control thread takes it.
    pub fn set_monitor(&self, monitor: Option<Monitor>) {
        *self.monitor.lock() = monitor;
    }

    /// The event socket, once.
    pub fn take_monitor(&self) -> Option<Monitor> {
        self.monitor.lock().take()
    }

    /// From now on it hears of every socket that is closed.
    pub fn follow(&self, follower: Weak<dyn Follower>) {
        let mut list = self.followers.lock();
        list.retain(|f| f.strong_count() > 0);
        list.push(follower);
    }

    /// Those who are left.
    pub(super) fn followers(&self) -> Vec<Arc<dyn Follower>> {
        let list = self.followers.lock();
        list.iter().filter_map(Weak::upgrade).collect()
    }

    /// A socket has no number left.
    pub(super) fn closed(&self, socket: &UdpSocket) {
        for follower in self.followers.lock().iter().filter_map(Weak::upgrade) {
            follower.closed(socket);
        }
    }

    /// Says what is so.
    pub fn say(&self, line: &str) {
        (self.announce)(TraceLevel::Info, line);
    }

    /// Says what is not as it was asked for, or has failed.
    pub fn warn(&self, line: &str) {
        (self.announce)(TraceLevel::Warn, line);
    }

    /// A ring by its number.
    #[inline]
    #[must_use]
    pub fn ring(&self, index: u32) -> &'static Ring {
        self.ring_at(index).expect("a mask names opened rings only")
    }

    #[inline]
    pub(super) fn ring_at(&self, index: u32) -> Option<&'static Ring> {
        crate::sys::leaked(&self.rings[index as usize % RINGS])
    }

    /// Puts a ring under a number; it is never freed.
    pub(super) fn set_ring(&self, index: u32, ring: &'static Ring) {
        let ring = std::ptr::from_ref(ring).cast_mut();
        self.rings[index as usize % RINGS].store(ring, Ordering::Release);
        self.listed.fetch_or(1 << index, Ordering::AcqRel);
    }

    /// Nobody uses a number any more.
    pub(super) fn unlist(&self, index: u32) {
        self.listed.fetch_and(!(1 << index), Ordering::AcqRel);
    }

    /// Bits of the rings in use.
    #[must_use]
    pub fn open_mask(&self) -> u64 {
        self.listed.load(Ordering::Acquire)
    }

    /// All rings in use.
    pub fn open_rings(&self) -> impl Iterator<Item = &'static Ring> {
        self.rings_of(self.open_mask())
    }

    /// Wakes the control thread: what it sleeps on is not the same any more.
    pub(super) fn ring_changed(&self) {
        if let Some(event) = &self.ring_opened {
            event.signal();
        }
    }

    /// For forked children, where a device needs it.
    pub(super) fn claim_event(&self) {
        self.claimed.get_or_init(|| Event::open_for_kin().ok());
    }

    /// Polls the rings of a mask for poll, select and epoll.
    #[inline]
    pub fn poll_mask(&self, mask: u64) {
        self.poll_each(mask);
    }

    #[inline]
    fn poll_each(&self, mut mask: u64) -> Left {
        let mut left = Left::default();
        while mask != 0 {
            let ring = self.ring(mask.trailing_zeros());
            mask &= mask - 1;
            left.note(ring.poll(&mut QueueAll, POLL_BURST), POLL_BURST);
        }
        left
    }

    /// For a call that will not look again: goes on until it `has` something or the rings are
    /// empty. What another thread is taking just now is in its socket's queue afterwards.
    #[inline]
    pub fn poll_mask_whole(&self, mask: u64, mut has: impl FnMut() -> bool) {
        for _ in 0..WHOLE_RING / POLL_BURST {
            let left = self.poll_each(mask);
            if left.busy {
                self.wait_rings(mask);
            }
            if has() || !left.more {
                break;
            }
        }
    }

    /// Waits until whoever polls these rings has left them.
    #[cold]
    pub(super) fn wait_rings(&self, mask: u64) {
        for index in bits(mask) {
            self.ring(index).wait_idle();
        }
    }

    /// First address of an interface that has a ring.
    #[must_use]
    pub fn primary_address(&self, ifindex: u32) -> Option<Ipv4Addr> {
        self.open_rings()
            .find(|r| r.ifindex == ifindex)
            .map(|r| r.primary)
    }

    /// Whether a datagram that a ring has brought carries the time of a card: those are odd
    /// ([`crate::device::CARD_TIME`]), and other devices have none.
    pub(super) fn is_card_time(&self, record: &Record) -> bool {
        record.timestamp & device::CARD_TIME != 0 && self.steers(record.ifindex)
    }

    /// The control thread sleeps on it, and clears it.
    #[must_use]
    pub fn ring_opened(&self) -> Option<&Event> {
        self.ring_opened.as_ref()
    }

    /// Whether anything can be accelerated at all.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn backend_available(&self) -> Result<(), Reason> {
        self.backend.map(drop)
    }

    /// Whether a readiness call is to look at the kernel although the engine has
    /// something (VMA_SELECT_SKIP_OS). A set without foreign descriptors needs it less.
    #[inline]
    pub fn skip_due(&self, foreign: bool) -> bool {
        let every = if foreign {
            self.tuning.select_skip
        } else {
            self.tuning.rx_kernel_every
        };
        if every == 0 {
            return false;
        }
        // Two threads may count as one: the ratio is of no such exactness.
        let n = self.readiness_calls.load(Ordering::Relaxed) + 1;
        let due = n >= every;
        let next = if due { 0 } else { n };
        self.readiness_calls.store(next, Ordering::Relaxed);
        due
    }

    /// Counters of poll.
    #[must_use]
    pub fn poll_stats(&self) -> &'static IomuxBlock {
        self.poll_stats
    }

    /// Counters of select.
    #[must_use]
    pub fn select_stats(&self) -> &'static IomuxBlock {
        self.select_stats
    }

    /// See the field.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Makes every cached route be looked up again.
    pub fn routes_changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// See the field.
    #[inline]
    pub(crate) fn rings_epoch(&self) -> u32 {
        self.rings_epoch.load(Ordering::Acquire)
    }

    /// After a change of somebody's rings: masks that were put together are put together anew.
    pub(crate) fn rings_changed(&self) {
        self.rings_epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// See the field.
    #[inline]
    #[must_use]
    pub fn kernel_epoch(&self) -> u64 {
        self.kernel_epoch.load(Ordering::Relaxed)
    }

    /// A datagram goes out through the kernel: it may come back by loopback at once.
    #[inline]
    pub fn kernel_traffic(&self) {
        self.kernel_epoch.fetch_add(1, Ordering::Relaxed);
    }

    /// An event to sleep on; None when no descriptor can be had.
    #[must_use]
    pub fn waker(&self) -> Option<Arc<Event>> {
        let spare = self.wakers.lock().pop();
        spare.or_else(|| Event::open().ok().map(Arc::new))
    }

    /// Gives it back.
    pub fn return_waker(&self, waker: Arc<Event>) {
        waker.clear();
        self.wakers.lock().push(waker);
    }

    /// The descriptors that a sleep for these rings watches.
    pub fn sleep_set(
        &self,
        mut mask: u64,
        waker: Option<&Event>,
        mut push: impl FnMut(libc::pollfd),
    ) {
        let mut add = |fd: RawFd| {
            push(libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            })
        };
        while mask != 0 {
            if let Some(fd) = self.ring(mask.trailing_zeros()).sleep_fd() {
                add(fd);
            }
            mask &= mask - 1;
        }
        if let Some(event) = waker {
            add(event.raw());
        }
    }

    /// Whether every ring of a mask can wake a sleeper.
    #[must_use]
    pub fn can_sleep(&self, mask: u64) -> bool {
        (0..RINGS as u32)
            .filter(|i| mask & 1 << i != 0)
            .all(|i| self.ring(i).sleep_fd().is_some())
    }

    /// Before a sleep on [`Self::sleep_set`]: false when a frame waits already.
    #[must_use]
    pub fn arm(&self, mask: u64) -> bool {
        (0..RINGS as u32)
            .filter(|i| mask & 1 << i != 0)
            .all(|i| self.ring(i).arm())
    }

    /// No attached socket uses this port.
    pub(super) fn port_is_free(&self, port: u16) -> bool {
        self.directory.lock().sockets.port(port).is_empty()
    }

    /// Bytes of a receive queue when SO_RCVBUF is `kernel`: Linux's, unless VMA_RX_BYTES_MIN
    /// was asked for.
    pub(super) fn receive_limit(&self, kernel: usize) -> usize {
        if self.config.is_default(Opt::RxBytesMin) {
            return kernel;
        }
        kernel.max(usize::try_from(self.config.int(Opt::RxBytesMin)).unwrap_or(0))
    }

    /// The shadow of a new kernel socket.
    pub fn open_udp(&'static self, fd: RawFd, family: Family, nonblocking: bool) -> Arc<UdpSocket> {
        let stats = self.publisher.socket(fd);
        stats.set_inode(sock::inode(fd).unwrap_or(0));
        let mut control = Control::of_new(fd, family);
        control.receive_limit = self.receive_limit(control.receive_limit);
        let namespace = sock::namespace(fd);
        // The first socket is what the engine was started for.
        if *self.namespace.get_or_init(|| namespace) != namespace {
            control.stays = Some(Reason::OtherNamespace);
            stats.set_reason(control.stays);
        }
        if self.never_udp() {
            control.stays = Some(Reason::Rule);
            stats.set_reason(Some(Reason::Rule));
        }
        if !self.tuning.multicast_loop {
            let (level, name) = match family {
                Family::V4 => (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP),
                Family::V6 => (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP),
            };
            let off = sock::set(fd, level, name, &0i32);
            control.multicast_loop = off.is_err();
        }
        stats.queue.limit_bytes.set(control.receive_limit as u64);
        let looped = control.multicast_loop;
        let socket = UdpSocket::new(self, fd, family, control, stats);
        socket.nonblocking.store(nonblocking, Ordering::Relaxed);
        stats.set_family(if family == Family::V4 {
            libc::AF_INET
        } else {
            libc::AF_INET6
        });
        stats.set_blocking(!nonblocking);
        stats.set_mc_loop(looped);
        self.directory.lock().sockets.add(&socket);
        socket
    }

    pub(super) fn refresh_ring(&self, ring: &Ring, tables: &Tables) {
        let locals = tables
            .interfaces()
            .flat_map(|i| i.addresses.iter().map(|a| (a.addr, i.index)))
            .collect();
        let broadcasts = tables
            .interfaces()
            .flat_map(|i| i.addresses.iter().flat_map(InterfaceAddress::broadcasts))
            .collect();
        let filtered = self.filtered.lock().clone();
        let open = |m: &Membership| {
            let same = |f: &Member| f.ifindex == m.ifindex && f.group == m.group;
            m.ifindex == ring.ifindex && !filtered.iter().any(same)
        };
        let open = tables.memberships().filter(open).map(|m| m.group).collect();
        let filtered = filtered.into_iter().filter(|m| m.ifindex == ring.ifindex);
        let groups = HostGroups {
            open,
            filtered: filtered.collect(),
        };
        let addresses = tables
            .interface(ring.ifindex)
            .map(|i| i.addresses.iter().map(|a| a.addr).collect());
        let down = tables.interface(ring.ifindex).is_none_or(|i| !i.up);
        Self::set_dead(ring, down);
        ring.with(|state| {
            if state.groups != groups {
                // What came before is given by the groups of before, as the kernel did.
                ring.drain_locked(state);
            }
            state.locals = locals;
            state.broadcasts = broadcasts;
            state.groups = groups;
            state.addresses = addresses.unwrap_or_default();
            ring.forget_source();
        });
    }

    /// Memberships of this process have changed. The call returns when the host's groups
    /// are known again: the event that tells them may come after the next datagram.
    pub(super) fn groups_changed(&self) {
        if self.open_rings().next().is_none() {
            return;
        }
        let one = self.regrouping.lock();
        let Ok(users) = net::read_memberships() else {
            return;
        };
        let filtered = self.filtered_groups(&users);
        let filters_changed = {
            let mut before = self.filtered.lock();
            std::mem::replace(&mut *before, filtered) != *before
        };
        let groups = users.into_iter().map(|(membership, _)| membership);
        let changes = self.tables.write().set_memberships(groups);
        drop(one);
        // The control thread may know it already, and not have come to the rings yet.
        let pending = self.groups_pending.load(Ordering::Acquire);
        if filters_changed || !changes.is_empty() || pending {
            self.routes_changed();
            self.refresh_rings();
        }
    }

    /// The members of the groups that nobody on the host wants all of. Of another process's
    /// filter nothing can be known.
    fn filtered_groups(&self, users: &[(Membership, u32)]) -> Vec<Member> {
        let sockets: Vec<_> = self.directory.lock().sockets.all().collect();
        let mut own = Vec::new();
        for socket in sockets {
            if let Some(control) = patient(&socket.control) {
                own.extend_from_slice(control.groups.members());
            }
        }
        let all = own.clone();
        own.retain(|member| {
            let is = |m: &&Member| m.ifindex == member.ifindex && m.group == member.group;
            let same = || all.iter().filter(is);
            let count = users
                .iter()
                .find(|(m, _)| m.ifindex == member.ifindex && m.group == member.group)
                .map_or(0, |(_, count)| *count as usize);
            same().count() >= count && same().all(Member::filters)
        });
        own
    }

    /// Gives every ring what netlink has told about addresses and groups.
    pub fn refresh_rings(&self) {
        let tables = self.tables.read();
        for ring in self.open_rings() {
            self.refresh_ring(ring, &tables);
        }
        self.groups_pending.store(false, Ordering::Release);
        drop(tables);
        self.refilter_all();
        let directory = self.directory.lock();
        for ring in self.open_rings() {
            ring.resteer(&directory.mixed.now);
        }
    }

    /// An interface that goes leaves an error on its socket, and whoever sleeps on that
    /// would be woken for ever. The sockets are told by what netlink says.
    pub fn forget_ring_errors(&self) {
        for fd in self.open_rings().filter_map(Ring::sleep_fd) {
            let _ = crate::sys::sock::get_int(fd, libc::SOL_SOCKET, libc::SO_ERROR);
        }
    }

    /// The kernel does not get what the rings of an interface bring.
    pub(super) fn steers(&self, ifindex: u32) -> bool {
        self.open_rings()
            .find(|r| r.ifindex == ifindex && !r.has_failed())
            .or_else(|| self.open_rings().find(|r| r.ifindex == ifindex))
            .is_some_and(|r| r.delivery == Delivery::Steered)
    }
}

/// The set bits of a mask.
pub(super) fn bits(mut mask: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.checked_sub(1)?;
        Some(bit)
    })
}
