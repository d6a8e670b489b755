//! Wires the layers together: starts the engine, runs its control thread, keeps it
//! right across fork. No protocol code.

use crate::clock;
use crate::config::{Config, Opt, Rules};
use crate::error::Errno;
use crate::net::{Changes, Monitor, RouteClient, Tables};
use crate::ready::Epoll;
use crate::ring;
use crate::socket::{Announce, Core, Family, ForkState, LOOK_EVERY, Tuning, UdpSocket};
use crate::stats::{IomuxKind, Publisher};
use crate::sys::event::Event;
use crate::sys::icmp::PathWatch;
use crate::sys::mutex::Mutex;
use crate::sys::{cell, event, fd, file, signal};
use std::ffi::CString;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Weak};

/// After groups have changed others are looked for this soon, but no more often, ns.
const LOOK_SOON: u64 = 10_000_000;
/// How long a ring may go unpolled before the control thread empties it (design: 10 ms).
const UNPOLLED: u64 = 10_000_000;
/// Neighbour entries in use are kept fresh this often.
const NEIGHBOR_REFRESH: u64 = 5_000_000_000;
/// A kernel without group notifications is asked this often.
const GROUPS_REFRESH: u64 = 200_000_000;
/// By then the kernel has noted a path MTU whose message our raw socket has had, ns.
const PATH_NOTED: u64 = 1_000_000;
/// Messages of path MTUs are looked at no more often, ns: anybody can send them.
const PATHS_APART: u64 = 10_000_000;
/// Pause after sockets have been told what their kernel side has, ns: under a stream they
/// know.
const TELL_AGAIN: u64 = 200_000;
/// Frames emptied from an unpolled ring in one go.
const DRAIN: usize = 1024;
/// Bytes of the rules file that are read.
const RULES_MOST: usize = 256 << 10;
/// A ratio of 0 ("never look at the kernel") in a set with descriptors that nobody watches
/// still looks this seldom: what only the kernel has must not be lost.
const SELDOM: u32 = 4096;

/// The engine of one process, and of its forked children.
#[derive(Debug)]
pub struct Stack {
    config: Arc<Config>,
    program: String,
    announce: Announce,
    /// This process's shared part; null in a forked child until it needs one.
    core: AtomicPtr<Core>,
    starting: Mutex<()>,
    forking: Mutex<Option<ForkState>>,
}

fn tuning(config: &Config) -> Tuning {
    let number = |option| u32::try_from(config.int(option)).unwrap_or(0);
    let seldom = |every| if every == 0 { SELDOM } else { every };
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    Tuning {
        rx_poll: config.int(Opt::RxPoll),
        // The control thread tells, unless a number is asked for.
        rx_kernel_every: if config.is_default(Opt::RxUdpPollOsRatio) {
            0
        } else {
            number(Opt::RxUdpPollOsRatio)
        },
        select_poll: config.int(Opt::SelectPoll),
        select_kernel_every: seldom(number(Opt::SelectPollOsRatio)),
        // Linux reports all that is ready; a ratio of one's own trades that for speed.
        select_skip: if config.is_default(Opt::SelectSkipOs) {
            1
        } else {
            number(Opt::SelectSkipOs)
        },
        mtu: number(Opt::Mtu),
        rx_slots: number(Opt::RxWre),
        multicast_loop: config.flag(Opt::TxMcLoopback),
        cores,
    }
}

impl Stack {
    /// Starts the engine: at the process's first UDP socket, never before. Never fails:
    /// what cannot be had is a reason on the sockets.
    pub fn start(config: Arc<Config>, program: &str, announce: Announce) -> Arc<Stack> {
        ring::set_mode(config.thread_mode());
        ring::set_yield(u32::try_from(config.int(Opt::RxPollYield)).unwrap_or(u32::MAX));
        signal::adopt_all();
        let stack = Arc::new(Stack {
            config,
            program: program.to_owned(),
            announce,
            core: AtomicPtr::new(std::ptr::null_mut()),
            starting: Mutex::new(()),
            forking: Mutex::new(None),
        });
        stack.core();
        stack
    }

    fn current(&self) -> Option<&'static Core> {
        crate::sys::leaked(&self.core)
    }

    fn core(&self) -> &'static Core {
        if let Some(core) = self.current() {
            return core;
        }
        let _one = self.starting.lock();
        if let Some(core) = self.current() {
            return core;
        }
        let core: &'static mut Core = Box::leak(Box::new(self.build()));
        self.core.store(core, Ordering::Release);
        self.current().expect("stored just now")
    }

    fn build(&self) -> Core {
        let (publisher, warning) = Publisher::create(
            self.config.text(Opt::StatsDir),
            event::process_id(),
            &self.program,
            usize::try_from(self.config.int(Opt::StatsFdNum)).unwrap_or(100),
        );
        let mut tables = Tables::new();
        // A program with hardly a descriptor left keeps them all.
        let room = fd::has_room();
        let monitor = if room {
            Monitor::open()
        } else {
            Err(Errno(libc::EMFILE))
        };
        let monitor = monitor.and_then(|mut monitor| {
            monitor.dump(&mut tables)?;
            Ok(monitor)
        });
        let routes = if room {
            RouteClient::open()
        } else {
            Err(Errno(libc::EMFILE))
        };
        let core = Core::new(
            Arc::clone(&self.config),
            tuning(&self.config),
            publisher,
            tables,
            routes.ok(),
            room,
            self.announce,
        );
        let program = std::env::args_os().next().unwrap_or_default();
        let (rules, warnings) = Rules::load(&self.config, event::process_id(), |path| {
            let path = CString::new(path).map_err(|_| Errno::INVAL)?;
            file::read(&path, RULES_MOST)
        });
        for line in &warnings {
            core.publisher.process().totals.warnings.add(1);
            core.warn(&line.0);
        }
        let core = core.with_rules(rules, program.to_string_lossy().into_owned());
        if let Some(line) = warning.filter(|_| !self.config.text(Opt::StatsDir).is_empty()) {
            core.publisher.process().totals.warnings.add(1);
            core.warn(&line);
        }
        match monitor {
            Ok(monitor) => core.set_monitor(Some(monitor)),
            Err(_) if !room => {
                core.warn("hardly a file descriptor left: sockets stay on the kernel")
            }
            Err(e) => core.warn(&format!("no netlink: {e}")),
        }
        core
    }

    /// The shadow of a new kernel UDP socket.
    pub fn open_udp(
        self: &Arc<Self>,
        fd: RawFd,
        family: Family,
        nonblocking: bool,
    ) -> Arc<UdpSocket> {
        let core = self.core();
        let socket = core.open_udp(fd, family, nonblocking);
        self.run_control_thread(core);
        socket
    }

    /// The shadow of a kernel epoll instance. `used`: it is not new, so there may be
    /// descriptors in it.
    pub fn open_epoll(self: &Arc<Self>, epfd: RawFd, used: bool) -> Arc<Epoll> {
        let core = self.core();
        let stats = core.publisher.iomux(IomuxKind::Epoll, epfd);
        let epoll = Arc::new(Epoll::new(core, epfd, used, stats));
        let follower: Weak<Epoll> = Arc::downgrade(&epoll);
        core.follow(follower);
        epoll
    }

    fn run_control_thread(&self, core: &'static Core) {
        let Some(monitor) = core.take_monitor() else {
            return;
        };
        let spawned = event::spawn_quiet("shim-control", move || Control::new(core, monitor).run());
        if spawned.is_err() {
            core.warn("no control thread: changes of routes and addresses go unseen");
        }
    }

    /// Before fork: the engine's directory is consistent while the child is made.
    pub fn fork_prepare(&self) {
        if let Some(core) = self.current() {
            *self.forking.lock() = Some(core.prepare_fork());
        }
    }

    /// After fork, in the parent.
    pub fn fork_parent(&self) {
        let state = self.forking.lock().take();
        if let Some(state) = state {
            state.end_parent();
        }
    }

    /// After fork, in the child: every inherited socket becomes one that is given back at
    /// first use, and the engine starts anew when it is needed.
    pub fn fork_child(&self) {
        let Some(core) = self.current() else { return };
        // No guard of this lock may outlive the count of them, which begins anew.
        let state = self.forking.lock().take();
        if let Some(state) = state {
            state.end_child();
        }
        self.core.store(std::ptr::null_mut(), Ordering::Release);
        let _ = core.publisher.forget_in_child();
        fd::close_owned();
        event::forget_threads();
        cell::renew_in_child();
    }

    /// Process exit (destructor): unpublish statistics.
    pub fn stop(&self) {
        if let Some(core) = self.current() {
            core.publisher.remove();
        }
    }
}

/// The control thread: netlink, rings that nobody polls, upkeep.
#[derive(Debug)]
struct Control {
    core: &'static Core,
    monitor: Monitor,
    /// For each ring: the poll count seen last, and when it last changed.
    seen: Vec<(u64, u64)>,
    neighbors_at: u64,
    groups_at: u64,
    looked_at: u64,
    /// A device may have something to report.
    reports: bool,
    /// When routes are to be forgotten once more.
    paths_at: Option<u64>,
    /// When they were last forgotten for a path's sake.
    paths_seen: u64,
    told_at: u64,
}

impl Control {
    fn new(core: &'static Core, monitor: Monitor) -> Self {
        Self {
            core,
            monitor,
            seen: Vec::new(),
            neighbors_at: 0,
            groups_at: 0,
            looked_at: 0,
            reports: true,
            paths_at: None,
            paths_seen: 0,
            told_at: 0,
        }
    }

    fn run(mut self) {
        let poll = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        loop {
            let now = clock::monotonic();
            let (idle, busy) = self.idle_rings(now);
            // Not more often: what is told stays true while somebody reads.
            let tells = now >= self.told_at + TELL_AGAIN;
            let told = self.core.told_fd().filter(|_| tells).unwrap_or(-1);
            let opened = self.core.ring_opened();
            let opened_fd = opened.map_or(-1, Event::raw);
            let hears = now >= self.paths_seen + PATHS_APART;
            let paths = self.core.paths.as_ref().filter(|_| hears);
            let claimed = self.core.claimed();
            let claimed_fd = claimed.map_or(-1, Event::raw);
            let mut set = vec![
                poll(self.monitor.fd()),
                poll(told),
                poll(opened_fd),
                poll(claimed_fd),
                poll(paths.map_or(-1, PathWatch::raw)),
            ];
            let events_at = set.len();
            set.extend(self.core.event_fds().map(poll));
            let rings_at = set.len();
            set.extend(
                idle.iter()
                    .filter_map(|i| self.core.ring(*i).sleep_fd())
                    .map(poll),
            );
            let armed = idle.is_empty() || {
                // Else a thread without locks that has only lost its core for a while would
                // have a rival for good.
                let _visit = ring::visit();
                idle.iter().all(|i| self.core.ring(*i).arm())
            };
            let timeout = if armed { self.timeout(now, busy) } else { 0 };
            let woken = event::ppoll(&mut set, Some(timeout), None);
            let now = clock::monotonic();
            if woken.is_ok_and(|n| n > 0) {
                if set[0].revents != 0 {
                    self.netlink();
                }
                if set[1].revents != 0 {
                    self.told_at = now;
                    self.core.tell();
                }
                if let Some(event) = opened.filter(|_| set[2].revents != 0) {
                    event.clear();
                    self.reports = true;
                }
                if let Some(event) = claimed.filter(|_| set[3].revents != 0) {
                    event.clear();
                    let _visit = ring::visit();
                    self.core.settle_claimed();
                }
                if set[4].revents != 0 {
                    self.paths(now);
                }
            }
            self.reports |= set[events_at..rings_at].iter().any(|f| f.revents != 0);
            if !armed || set[rings_at..].iter().any(|f| f.revents != 0) {
                self.drain(&idle);
            }
            if self.paths_at.is_some_and(|at| now >= at) {
                self.paths_at = None;
                self.core.routes_changed();
            }
            self.filters();
            self.devices(now);
            self.upkeep(now);
        }
    }

    /// A path may have another MTU. Our raw socket is served a moment before the kernel takes
    /// note of it, so once more a little later.
    fn paths(&mut self, now: u64) {
        if let Some(watch) = &self.core.paths {
            watch.clear();
            self.core.routes_changed();
            self.paths_at = Some(now + PATH_NOTED);
            self.paths_seen = now;
        }
    }

    /// How long to sleep; a ring that could not be asked is busy.
    fn timeout(&self, now: u64, busy: bool) -> u64 {
        // Rings that are being polled are looked at again when they might have stopped.
        let soon = busy || self.reports;
        let mut timeout = if soon { UNPOLLED } else { self.next_upkeep() };
        if let Some(left) = (self.told_at + TELL_AGAIN).checked_sub(now) {
            timeout = timeout.min(left);
        }
        if let Some(left) = (self.paths_seen + PATHS_APART).checked_sub(now) {
            timeout = timeout.min(left);
        }
        if self.core.has_shareable() {
            // On whole multiples of the period, as every other process of the host.
            let regular = LOOK_EVERY - now % LOOK_EVERY;
            timeout = timeout.min(if self.core.looks_soon() {
                LOOK_SOON
            } else {
                regular
            });
        }
        let next = [
            self.core.next_reopening(),
            self.core.next_reclaim(),
            self.core.next_move(),
            self.paths_at,
        ];
        for at in next.into_iter().flatten() {
            timeout = timeout.min(at.saturating_sub(now));
        }
        timeout
    }

    /// Sockets that came from the kernel a moment ago.
    fn filters(&self) {
        if self.core.has_filters_due() {
            let _visit = ring::visit();
            self.core.filter_due();
        }
    }

    /// What devices report, and who else wants what they bring. Only where there is
    /// something: a thread without locks waits while this one is there.
    fn devices(&mut self, now: u64) {
        let next = [
            self.core.next_reopening(),
            self.core.next_reclaim(),
            self.core.next_move(),
        ];
        let due = next.into_iter().flatten().any(|at| at <= now);
        if due || self.reports {
            let _visit = ring::visit();
            self.reports = self.core.follow_faults(now);
            self.core.reopen_due(now);
            self.core.end_moves(now);
            self.core.reclaim_rings(now);
        }
        let soon = self.core.looks_soon() && now - self.looked_at >= LOOK_SOON;
        if soon || now / LOOK_EVERY != self.looked_at / LOOK_EVERY {
            self.looked_at = now;
            let _visit = ring::visit();
            self.core.review_sharing(now);
        }
    }

    /// Rings that nobody has polled for a while, and whether there are others.
    fn idle_rings(&mut self, now: u64) -> (Vec<u32>, bool) {
        let mut idle = Vec::new();
        let mut busy = false;
        let mut left = self.core.open_mask();
        while left != 0 {
            let i = left.trailing_zeros() as usize;
            left &= left - 1;
            let ring = self.core.ring(i as u32);
            if self.seen.len() <= i {
                self.seen.resize(i + 1, (0, now));
            }
            if ring.has_failed() {
                continue;
            }
            let polls = ring.polls();
            if self.seen[i].0 != polls {
                self.seen[i] = (polls, now);
            }
            if now - self.seen[i].1 >= UNPOLLED {
                idle.push(i as u32);
            } else {
                busy = true;
            }
        }
        (idle, busy)
    }

    fn drain(&mut self, idle: &[u32]) {
        let _visit = ring::visit();
        for index in idle {
            let ring = self.core.ring(*index);
            let taken = ring.drain(DRAIN);
            ring.stats.upkeep.drained.add(taken as u64);
            // Our own polls are nobody's.
            if let Some(seen) = self.seen.get_mut(*index as usize) {
                seen.0 = ring.polls();
            }
        }
    }

    fn next_upkeep(&self) -> u64 {
        if self.monitor.has_group_events() {
            NEIGHBOR_REFRESH
        } else {
            GROUPS_REFRESH
        }
    }

    fn netlink(&mut self) {
        let changes = {
            let mut tables = self.core.tables.write();
            let changes = self.monitor.receive(&mut tables);
            if changes.is_ok_and(|c| c.intersects(Changes::GROUPS)) {
                self.core.groups_pending.store(true, Ordering::Release);
            }
            changes
        };
        if let Ok(changes) = changes {
            self.follow(changes);
        }
    }

    fn follow(&self, changes: Changes) {
        if changes.is_empty() {
            return;
        }
        let _visit = ring::visit();
        self.core.routes_changed();
        if changes.intersects(Changes::LINKS) {
            self.core.forget_ring_errors();
            self.core.give_up_outgrown();
        }
        if changes.intersects(Changes::LINKS | Changes::ADDRESSES | Changes::GROUPS) {
            self.core.refresh_rings();
            self.core.look_soon();
        }
        if changes.intersects(Changes::LINKS | Changes::ADDRESSES) {
            self.core.replan();
        }
    }

    fn upkeep(&mut self, now: u64) {
        let totals = &self.core.publisher.process().totals;
        totals.mode_switches.set(ring::switches());
        if !self.monitor.has_group_events() && now - self.groups_at >= GROUPS_REFRESH {
            self.groups_at = now;
            let changes = {
                let mut tables = self.core.tables.write();
                self.monitor.refresh_groups(&mut tables, now)
            };
            if let Ok(changes) = changes {
                self.follow(changes);
            }
        }
        if now - self.neighbors_at >= NEIGHBOR_REFRESH {
            self.neighbors_at = now;
            self.core.refresh_neighbors();
            self.upkeep_rings();
        }
    }

    fn upkeep_rings(&self) {
        let _visit = ring::visit();
        let now = clock::realtime();
        for ring in self.core.open_rings() {
            let lost = ring.with(|state| {
                state.expire(now);
                state.take_drops()
            });
            let lost = lost.unwrap_or(0);
            ring.stats.upkeep.kernel_drops.add(lost);
            ring.stats.upkeep.freezes.add(u64::from(lost > 0));
        }
    }
}
