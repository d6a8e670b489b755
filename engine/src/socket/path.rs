//! The data path: rings, and what happens to a frame between a ring and a socket.
//!
//! A ring is polled by one thread at a time, under its lock; who finds it locked knows
//! that somebody polls for everybody. Neither poll nor delivery allocates, logs or
//! makes a system call, but for waking a sleeper.

use super::beaten::Beaten;
use super::demux::{Demux, Entry, Place};
use super::groups::HostGroups;
use super::io::{Late, Receive};
use super::share::Sharing;
use super::udp::UdpSocket;
use super::unwanted::give_back;
use crate::clock;
use crate::device::{Closed, Delivery, Flow, Opened, Queue, RxFrame, Transmit, Watch};
use crate::net::Interface;
use crate::ring::{Lock, Record};
use crate::stats::layout::RingBlock;
use crate::sys::mutex::Mutex;
use crate::sys::sock;
use crate::wire::{Checksum, ETHERNET_LEN, Parsed, Plain, Reassembler, UdpFrame, parse};
use std::hint::cold_path;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering,
};

/// Where the fields stand in a frame without tag.
const TOS: usize = ETHERNET_LEN + 1;
const TTL: usize = ETHERNET_LEN + 8;
/// Unfinished datagrams: Linux's ipfrag_high_thresh, 4 MiB.
pub(super) const REASSEMBLY_BYTES: usize = 4 << 20;
pub(super) const REASSEMBLY_DATAGRAMS: usize = 1024;

/// A carrier is believed in for so long, ns.
const CARRIER_HOLDS: u64 = 1_000_000;

/// A budget that empties any ring: more frames than it has slots.
pub(super) const WHOLE_RING: usize = 1 << 16;

/// A receive call that takes a datagram straight from the ring.
pub trait Direct {
    /// Offers a datagram for `socket`; true: taken, it must not be queued.
    fn offer(&mut self, socket: &UdpSocket, record: Record, payload: &[u8]) -> bool;
    /// Whether the call has what it came for.
    fn done(&self) -> bool;
}

/// Takes nothing: every datagram is queued.
#[derive(Debug)]
pub(super) struct QueueAll;

impl Direct for QueueAll {
    #[inline]
    fn offer(&mut self, _: &UdpSocket, _: Record, _: &[u8]) -> bool {
        false
    }

    #[inline]
    fn done(&self) -> bool {
        false
    }
}

/// What is behind a ring's lock.
#[derive(Debug)]
pub struct RingState {
    pub(super) queue: Box<dyn Queue>,
    /// Sockets attached to this ring.
    pub demux: Demux<Arc<UdpSocket>>,
    /// Addresses of this host, and the interfaces that have them.
    pub locals: Vec<(Ipv4Addr, u32)>,
    /// Broadcast addresses of this host.
    pub broadcasts: Vec<Ipv4Addr>,
    /// Groups that anybody on this host has joined on this interface.
    pub groups: HostGroups,
    /// Addresses of this interface.
    pub addresses: Vec<Ipv4Addr>,
    pub(super) reassembler: Reassembler,
    pub(super) ifindex: u32,
    pub(super) delivery: Delivery,
    /// VMA_UDP_3T_RULES.
    pub(super) any_peer: bool,
    /// Which groups others on this host want too.
    pub(super) sharing: Sharing,
    pub(super) steered: Vec<Flow>,
    /// The device was told to take every port.
    pub(super) every_port: bool,
    /// Its device stays as it is for the moment.
    pub(super) held: bool,
    beaten: Beaten,
}

/// An interface's queue, opened for this process.
#[derive(Debug)]
pub struct Ring {
    /// Interface index.
    pub ifindex: u32,
    /// Interface name.
    pub name: String,
    /// First address of the interface, for IP_PKTINFO of multicast.
    pub primary: Ipv4Addr,
    /// Sends on this interface.
    pub transmit: Box<dyn Transmit>,
    /// Whether the kernel gets its frames as well.
    pub delivery: Delivery,
    /// Counters.
    pub stats: &'static RingBlock,
    pub(super) state: Lock<RingState>,
    pub(super) sleep_fd: AtomicI32,
    /// Not null: what a spinning call may look at.
    pub(super) watch: AtomicPtr<Watch>,
    /// All that it has had; a queue that is opened again brings one of before, mostly.
    pub(super) watches: Mutex<Vec<&'static Watch>>,
    /// It has a queue.
    pub(super) receives: AtomicBool,
    /// Rises with every poll: tells the control thread that somebody is at work.
    polls: AtomicU64,
    /// A source known not to be ours; 0: none. Written under the lock.
    foreign: AtomicU32,
    /// The interface is gone or down.
    pub dead: AtomicBool,
    /// Largest IP packet when it was opened, bytes.
    pub mtu: u32,
    /// This host talks to itself here: each source is its own, each destination, too.
    loopback: bool,
    pub(super) event_fd: AtomicI32,
    pub(super) health: AtomicU8,
    /// When the kernel last said that there is a carrier, by the monotonic clock.
    carrier_at: AtomicU64,
}

/// How a ring's device is, by its own reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Health {
    /// Nothing is wrong.
    Good = 0,
    /// Its port has no link.
    NoLink = 1,
    /// For good.
    Failed = 2,
}

/// Result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Frames handled.
    Frames(usize),
    /// Another thread polls this ring now.
    Busy,
}

impl Ring {
    /// Wraps an opened interface.
    #[must_use]
    pub fn new(
        interface: &Interface,
        opened: Opened,
        delivery: Delivery,
        any_peer: bool,
        stats: &'static RingBlock,
    ) -> Self {
        let primary = interface
            .addresses
            .first()
            .map_or(Ipv4Addr::UNSPECIFIED, |a| a.addr);
        let receives = opened.slots != 0;
        let ring = Self {
            ifindex: interface.index,
            name: interface.name.clone(),
            primary,
            transmit: opened.transmit,
            delivery,
            stats,
            sleep_fd: AtomicI32::new(-1),
            watch: AtomicPtr::new(std::ptr::null_mut()),
            watches: Mutex::default(),
            receives: AtomicBool::new(false),
            state: Lock::new(RingState {
                queue: Box::new(Closed),
                demux: Demux::default(),
                locals: Vec::new(),
                broadcasts: Vec::new(),
                groups: HostGroups::default(),
                reassembler: Reassembler::new(REASSEMBLY_BYTES, REASSEMBLY_DATAGRAMS),
                addresses: Vec::new(),
                ifindex: interface.index,
                delivery,
                any_peer,
                sharing: Sharing::default(),
                steered: Vec::new(),
                every_port: false,
                held: false,
                beaten: Beaten::NONE,
            }),
            polls: AtomicU64::new(0),
            foreign: AtomicU32::new(0),
            dead: AtomicBool::new(false),
            mtu: interface.mtu,
            loopback: interface.loopback,
            event_fd: AtomicI32::new(-1),
            health: AtomicU8::new(Health::Good as u8),
            carrier_at: AtomicU64::new(0),
        };
        if receives {
            ring.open_queue(opened.queue, opened.slots);
        } else {
            let events = ring.transmit.event_fd().unwrap_or(-1);
            ring.event_fd.store(events, Ordering::Relaxed);
        }
        ring
    }

    /// Whether the interface has a carrier; `fd` is any socket. To ask takes the kernel's
    /// lock for all interfaces, so not each frame that finds no room does.
    #[cold]
    pub(super) fn has_carrier(&self, fd: RawFd) -> bool {
        let now = clock::monotonic();
        if now.saturating_sub(self.carrier_at.load(Ordering::Relaxed)) < CARRIER_HOLDS {
            return true;
        }
        let has = sock::has_carrier(fd, &self.name);
        if has {
            self.carrier_at.store(now, Ordering::Relaxed);
        }
        has
    }

    /// Polls readable while the device has something to report.
    #[must_use]
    pub fn event_fd(&self) -> Option<RawFd> {
        Some(self.event_fd.load(Ordering::Relaxed)).filter(|fd| *fd >= 0)
    }

    /// Addresses have changed: see [`Self::is_own`].
    pub fn forget_source(&self) {
        self.foreign.store(0, Ordering::Relaxed);
    }

    /// Polls readable while a frame waits.
    #[must_use]
    pub fn sleep_fd(&self) -> Option<RawFd> {
        Some(self.sleep_fd.load(Ordering::Relaxed)).filter(|fd| *fd >= 0)
    }

    /// A look without the lock: false only if no frame waits.
    #[inline]
    #[must_use]
    pub fn may_be_ready(&self) -> bool {
        crate::sys::leaked(&self.watch).is_none_or(Watch::ready)
    }

    /// Rises while the ring is polled.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Before fork; false: another thread is in it.
    pub(super) fn hold_for_fork(&self) -> bool {
        self.state.hold_for_fork()
    }

    /// After it.
    pub(super) fn end_hold(&self) {
        self.state.release_after_fork();
    }

    /// Waits until the thread that polls the ring has left it.
    #[cold]
    pub fn wait_idle(&self) {
        let _ = self.state.lock();
    }

    /// Waits for the ring and works on its state (control plane). None: this thread is
    /// inside it already, in a signal handler.
    pub fn with<R>(&self, work: impl FnOnce(&mut RingState) -> R) -> Option<R> {
        self.state.lock().map(|mut state| {
            // Also before: it may change something, and then poll.
            state.beaten = Beaten::NONE;
            let result = work(&mut state);
            state.beaten = Beaten::NONE;
            result
        })
    }

    /// Before a sleep: asks the device for a notification and looks once more. False: a
    /// frame waits. A ring that is locked counts as that: its poller may be about to leave.
    #[must_use]
    pub fn arm(&self) -> bool {
        self.state
            .try_lock()
            .is_some_and(|mut state| state.queue.arm())
    }

    /// Handles up to `budget` frames, or until `direct` has what it wants.
    #[inline]
    pub fn poll<D: Direct>(&self, direct: &mut D, budget: usize) -> Polled {
        let Some(mut state) = self.state.try_lock() else {
            return Polled::Busy;
        };
        Polled::Frames(self.poll_locked(&mut state, direct, budget))
    }

    /// Gives the frame at the head to `socket`'s call, if it is one more of what came to
    /// it before; else leaves it there. `socket` has nothing older in its queue.
    #[inline(always)]
    pub(super) fn take_first<R: Receive>(
        &self,
        socket: &UdpSocket,
        call: &mut R,
    ) -> Result<usize, Late> {
        let Some(mut guard) = self.state.try_lock() else {
            return Err(Late::Unknown);
        };
        let state = &mut *guard;
        self.polls
            .store(self.polls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let next = state.queue.next();
        let Some(frame) = &next else {
            return Err(Late::Nothing);
        };
        let target = std::ptr::from_ref(socket).addr();
        let Some(payload) = state.beaten.leads(frame, target) else {
            return Err(Late::Unknown);
        };
        if !socket.takes_now() {
            return Err(Late::Unknown);
        }
        let rx = &self.stats.rx;
        rx.frames.add_exclusive(1);
        rx.frame_bytes.add_exclusive(frame.data.len() as u64);
        let record = &mut state.beaten.record;
        if R::CONTROL {
            record.ttl = frame.data.get(TTL).copied().unwrap_or(0);
            record.tos = frame.data.get(TOS).copied().unwrap_or(0);
            record.timestamp = frame.timestamp;
        }
        match socket.hand_over(call, record, payload) {
            Ok(count) => {
                state.queue.release();
                drop(guard);
                Ok(count)
            }
            Err(errno) => {
                cold_path();
                state.queue.release();
                Err(Late::Failed(errno))
            }
        }
    }

    #[inline]
    pub(super) fn poll_locked<D: Direct>(
        &self,
        state: &mut RingState,
        direct: &mut D,
        budget: usize,
    ) -> usize {
        self.polls
            .store(self.polls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let mut handled = 0;
        while handled < budget {
            let RingState {
                queue,
                demux,
                locals,
                broadcasts,
                groups,
                reassembler,
                beaten,
                ..
            } = &mut *state;
            let Some(frame) = queue.next() else { break };
            let rx = &self.stats.rx;
            rx.frames.add_exclusive(1);
            rx.frame_bytes.add_exclusive(frame.data.len() as u64);
            let plain = Plain::new(frame.data).filter(|_| frame.segment == 0);
            let known = plain.is_some_and(|p| self.follow(p, &frame, demux, beaten, direct));
            if !known {
                let picture = Picture {
                    demux,
                    locals,
                    broadcasts,
                    groups,
                };
                self.handle(&frame, plain, picture, reassembler, beaten, direct);
            }
            queue.release();
            handled += 1;
            if direct.done() {
                break;
            }
        }
        handled
    }

    /// As [`Self::drain`], the whole ring, within [`Self::with`].
    pub(super) fn drain_locked(&self, state: &mut RingState) {
        self.poll_locked(state, &mut QueueAll, WHOLE_RING);
    }

    /// The same unless another thread is in the ring; false: one is.
    pub(super) fn try_drain(&self) -> bool {
        let state = self.state.try_lock();
        state.is_some_and(|mut state| {
            self.drain_locked(&mut state);
            true
        })
    }

    /// Empties the ring into the sockets' queues; frames handled.
    pub fn drain(&self, most: usize) -> usize {
        self.state.lock().map_or(0, |mut state| {
            self.poll_locked(&mut state, &mut QueueAll, most)
        })
    }

    /// Gives a datagram the way of the one before, if that is its own.
    #[inline(always)]
    fn follow<D: Direct>(
        &self,
        plain: Plain<'_>,
        frame: &RxFrame<'_>,
        demux: &Demux<Arc<UdpSocket>>,
        beaten: &Beaten,
        direct: &mut D,
    ) -> bool {
        if plain.ends() != beaten.ends
            || frame.timestamp < beaten.since
            || !(frame.trusted || plain.checksum_holds())
        {
            return false;
        }
        let is = |socket: &Arc<UdpSocket>| std::ptr::from_ref(&**socket).addr() == beaten.target;
        let Some(entry) = demux.find(beaten.port, is) else {
            return false;
        };
        entry
            .target
            .accept_plain(plain, self.ifindex, frame.timestamp, direct);
        true
    }

    /// Looks a frame's sockets up.
    #[inline(never)]
    fn handle<D: Direct>(
        &self,
        frame: &RxFrame<'_>,
        plain: Option<Plain<'_>>,
        picture: Picture<'_>,
        reassembler: &mut Reassembler,
        beaten: &mut Beaten,
        direct: &mut D,
    ) {
        let checksum = if frame.trusted {
            Checksum::Trusted
        } else {
            Checksum::Verify
        };
        let Some(plain) = plain else {
            let parsed = parse(frame.data, checksum);
            return self.handle_rare(frame, &parsed, picture, reassembler, direct);
        };
        match plain.judge(checksum) {
            Parsed::Udp(udp) => {
                if let Some(entry) =
                    self.datagram(&udp, (frame.timestamp, frame.timestamp), picture, direct)
                    && !self.loopback
                {
                    *beaten = picture.way(plain, entry, self.ifindex, frame.timestamp);
                }
            }
            other => self.handle_rare(frame, &other, picture, reassembler, direct),
        }
    }

    /// Super-frames, fragments, and what is dropped.
    #[cold]
    #[inline(never)]
    fn handle_rare<D: Direct>(
        &self,
        frame: &RxFrame<'_>,
        parsed: &Parsed<'_>,
        picture: Picture<'_>,
        reassembler: &mut Reassembler,
        direct: &mut D,
    ) {
        let rx = &self.stats.rx;
        match parsed {
            Parsed::Udp(udp) if frame.segment == 0 => {
                let _ = self.datagram(udp, (frame.timestamp, frame.timestamp), picture, direct);
            }
            Parsed::Udp(udp) => {
                // A super-frame: each piece is a datagram, the last may be shorter.
                for piece in udp.payload.chunks(usize::from(frame.segment)) {
                    let one = UdpFrame {
                        payload: piece,
                        ..*udp
                    };
                    let _ =
                        self.datagram(&one, (frame.timestamp, frame.timestamp), picture, direct);
                }
            }
            Parsed::Fragment(fragment) => {
                if !self.is_here(fragment.dst, picture)
                    && !fragment.dst.is_multicast()
                    && !picture.is_broadcast(fragment.dst)
                {
                    return;
                }
                let Some(whole) = reassembler.push(fragment, frame.timestamp) else {
                    return;
                };
                rx.reassembled.add_exclusive(1);
                let checksum = if frame.trusted {
                    Checksum::Trusted
                } else {
                    Checksum::Verify
                };
                match whole.parse(checksum) {
                    Parsed::Udp(udp) => {
                        let _ =
                            self.datagram(&udp, (frame.timestamp, whole.since), picture, direct);
                    }
                    Parsed::BadChecksum => rx.bad_checksum.add_exclusive(1),
                    _ => rx.malformed.add_exclusive(1),
                }
            }
            Parsed::NotOurs => rx.not_ours.add_exclusive(1),
            Parsed::Malformed => rx.malformed.add_exclusive(1),
            Parsed::BadChecksum => rx.bad_checksum.add_exclusive(1),
        }
    }

    /// Whether a source is an address of this host; the last foreign one is remembered.
    #[inline]
    fn is_own(&self, source: SocketAddrV4, picture: Picture<'_>) -> bool {
        let number = source.ip().to_bits();
        if number == self.foreign.load(Ordering::Relaxed) {
            return false;
        }
        // A loopback address, too, is nobody else's.
        let own = !self.loopback && (source.ip().is_loopback() || picture.is_local(*source.ip()));
        if !own {
            self.foreign.store(number, Ordering::Relaxed);
        }
        own
    }

    /// Whether a unicast destination is an address of this host.
    #[inline]
    fn is_here(&self, destination: Ipv4Addr, picture: Picture<'_>) -> bool {
        self.loopback || picture.is_local(destination)
    }

    /// Answers with the entry that got it, if there is just one.
    #[inline]
    fn datagram<'p, D: Direct>(
        &self,
        udp: &UdpFrame<'_>,
        // Of the frame, and of the first that had a piece of it.
        (timestamp, begun): (u64, u64),
        picture: Picture<'p>,
        direct: &mut D,
    ) -> Option<&'p Entry<Arc<UdpSocket>>> {
        let ifindex = if self.loopback {
            picture.owner(*udp.dst.ip(), self.ifindex)
        } else {
            self.ifindex
        };
        let record = record(udp, ifindex, timestamp);
        if self.is_own(udp.src, picture) {
            // As `ip_route_input` of Linux: nobody else may use an address of ours.
        } else if udp.dst.ip().is_multicast() {
            let joined = || picture.groups.admit(*udp.dst.ip(), *udp.src.ip());
            let mut taken = 0;
            let mut last = None;
            let list = picture.demux.port(udp.dst.port());
            for entry in list.filter(|e| e.wants.takes_multicast(&record, joined)) {
                taken += 1;
                last = Some(entry);
                if entry.place == Place::Here || entry.target.takes_from(entry.place, begun) {
                    entry.target.accept(&record, udp.payload, direct);
                }
            }
            if taken > 0 {
                return last.filter(|e: &&Entry<_>| taken == 1 && e.place == Place::Here);
            }
        } else if let Some(entry) = picture.demux.best(&record)
            // A bound address is local, or the kernel would not have bound it.
            && (!entry.wants.local.is_unspecified() || self.is_here(*udp.dst.ip(), picture))
            && (!udp.dst.ip().is_loopback() || self.loopback)
        {
            if entry.place == Place::Here || entry.target.takes_from(entry.place, begun) {
                entry.target.accept(&record, udp.payload, direct);
            }
            return Some(entry).filter(|e| e.place == Place::Here);
        } else if picture.is_broadcast(*udp.dst.ip()) {
            // In a frame to this host alone; the kernel has those to everybody.
            let list = picture.demux.port(udp.dst.port());
            for entry in list.filter(|e| e.wants.takes_broadcast(&record)) {
                if entry.place == Place::Here || entry.target.takes_from(entry.place, begun) {
                    entry.target.accept(&record, udp.payload, direct);
                }
            }
            return None;
        } else if self.delivery == Delivery::Steered && self.is_here(*udp.dst.ip(), picture) {
            give_back(udp);
        }
        self.stats.rx.not_ours.add_exclusive(1);
        None
    }
}

/// What the socket keeps of a datagram.
#[inline(always)]
pub(super) fn record(udp: &UdpFrame<'_>, ifindex: u32, timestamp: u64) -> Record {
    Record {
        source: udp.src,
        destination: udp.dst,
        ifindex,
        ttl: udp.ttl,
        tos: udp.tos,
        timestamp,
        asked: Record::PKTINFO | Record::STAMP,
        drops: 0,
    }
}

/// What a poll needs to know about the host.
#[derive(Clone, Copy)]
struct Picture<'a> {
    demux: &'a Demux<Arc<UdpSocket>>,
    locals: &'a [(Ipv4Addr, u32)],
    broadcasts: &'a [Ipv4Addr],
    groups: &'a HostGroups,
}

impl Picture<'_> {
    /// The way to the one entry that took a datagram of this time.
    #[inline]
    fn way(
        &self,
        plain: Plain<'_>,
        entry: &Entry<Arc<UdpSocket>>,
        ifindex: u32,
        timestamp: u64,
    ) -> Beaten {
        let port = entry.wants.port;
        // From then on the age of a frame decides nothing.
        let ages = self.demux.port(port).map(|e| e.wants.since);
        let since = ages.max().unwrap_or(u64::MAX);
        if timestamp < since {
            return Beaten::NONE;
        }
        Beaten {
            ends: plain.ends(),
            target: std::ptr::from_ref(&*entry.target).addr(),
            port,
            record: record(&plain.datagram(), ifindex, timestamp),
            since,
        }
    }

    /// What comes by loopback came in, for Linux, by the interface that has the address
    /// (`inet_iif` of a local route); anything else of 127.0.0.0/8 by loopback itself.
    #[cold]
    fn owner(&self, address: Ipv4Addr, loopback: u32) -> u32 {
        let known = self.locals.iter().find(|(own, _)| *own == address);
        known.map_or(loopback, |(_, ifindex)| *ifindex)
    }

    #[inline]
    fn is_local(&self, address: Ipv4Addr) -> bool {
        self.locals.iter().any(|(own, _)| *own == address)
    }

    #[inline]
    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        address.is_broadcast() || self.broadcasts.contains(&address)
    }
}

impl RingState {
    /// Frames lost by the device since the last call.
    pub fn take_drops(&mut self) -> u64 {
        self.queue.take_drops()
    }

    /// Forgets fragments that have waited too long.
    pub fn expire(&mut self, now: u64) {
        self.reassembler.expire(now);
    }
}
