//! The data path: rings, and what happens to a frame between a ring and a socket.
//!
//! A ring is polled by one thread at a time, under its lock; who finds it locked knows
//! that somebody polls for everybody. Neither poll nor delivery allocates, logs or
//! makes a system call, but for waking a sleeper.

use super::demux::Demux;
use super::share::Sharing;
use super::udp::UdpSocket;
use crate::device::{Delivery, Fault, Flow, Opened, Queue, RxFrame, Transmit, Watch};
use crate::net::Interface;
use crate::ring::{Lock, Record};
use crate::stats::layout::RingBlock;
use crate::wire::{Checksum, Parsed, Reassembler, UdpFrame, parse};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Unfinished datagrams: Linux's ipfrag_high_thresh, 4 MiB.
const REASSEMBLY_BYTES: usize = 4 << 20;
const REASSEMBLY_DATAGRAMS: usize = 1024;

/// A budget that empties any ring: more frames than it has slots.
pub(super) const WHOLE_RING: usize = 1 << 16;

/// A receive call that takes a datagram straight from the ring.
pub trait Direct {
    /// Offers a datagram for `socket`; true: taken, it must not be queued.
    fn offer(&mut self, socket: &UdpSocket, record: &Record, payload: &[u8]) -> bool;
    /// Whether the call has what it came for.
    fn done(&self) -> bool;
}

/// Takes nothing: every datagram is queued.
#[derive(Debug)]
pub(super) struct QueueAll;

impl Direct for QueueAll {
    #[inline]
    fn offer(&mut self, _: &UdpSocket, _: &Record, _: &[u8]) -> bool {
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
    /// Addresses of this host.
    pub locals: Vec<Ipv4Addr>,
    /// Groups that anybody on this host has joined on this interface.
    pub groups: Vec<Ipv4Addr>,
    /// Addresses of this interface.
    pub addresses: Vec<Ipv4Addr>,
    reassembler: Reassembler,
    pub(super) ifindex: u32,
    pub(super) delivery: Delivery,
    /// VMA_UDP_3T_RULES.
    pub(super) any_peer: bool,
    /// Which groups others on this host want too.
    pub(super) sharing: Sharing,
    pub(super) steered: Vec<Flow>,
    /// The device was told to take every port.
    pub(super) every_port: bool,
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
    state: Lock<RingState>,
    sleep_fd: Option<RawFd>,
    watch: Option<Watch>,
    /// Rises with every poll: tells the control thread that somebody is at work.
    polls: AtomicU64,
    /// A source known not to be ours; 0: none. Written under the lock.
    foreign: AtomicU32,
    /// The interface is gone or down.
    pub dead: AtomicBool,
    /// Largest IP packet when it was opened, bytes.
    pub mtu: u32,
    event_fd: Option<RawFd>,
    health: AtomicU8,
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
        let event_fd = opened.queue.event_fd();
        Self {
            ifindex: interface.index,
            name: interface.name.clone(),
            primary,
            transmit: opened.transmit,
            delivery,
            stats,
            sleep_fd: opened.queue.sleep_fd(),
            watch: opened.queue.watch(),
            state: Lock::new(RingState {
                queue: opened.queue,
                demux: Demux::default(),
                locals: Vec::new(),
                groups: Vec::new(),
                reassembler: Reassembler::new(REASSEMBLY_BYTES, REASSEMBLY_DATAGRAMS),
                addresses: Vec::new(),
                ifindex: interface.index,
                delivery,
                any_peer,
                sharing: Sharing::default(),
                steered: Vec::new(),
                every_port: false,
            }),
            polls: AtomicU64::new(0),
            foreign: AtomicU32::new(0),
            dead: AtomicBool::new(false),
            mtu: interface.mtu,
            event_fd,
            health: AtomicU8::new(Health::Good as u8),
        }
    }

    /// Polls readable while the device has something to report.
    #[must_use]
    pub fn event_fd(&self) -> Option<RawFd> {
        self.event_fd
    }

    /// What the device has reported of itself.
    #[must_use]
    pub fn health(&self) -> Health {
        match self.health.load(Ordering::Relaxed) {
            0 => Health::Good,
            1 => Health::NoLink,
            _ => Health::Failed,
        }
    }

    pub(super) fn set_health(&self, health: Health) {
        self.health.store(health as u8, Ordering::Relaxed);
    }

    /// It is of no more use.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.health() == Health::Failed
    }

    /// The next report of the device; None also while another thread polls the ring.
    pub(super) fn take_fault(&self) -> Option<Fault> {
        self.state.try_lock()?.queue.take_fault()
    }

    /// Addresses have changed: see [`Self::is_own`].
    pub fn forget_source(&self) {
        self.foreign.store(0, Ordering::Relaxed);
    }

    /// Polls readable while a frame waits.
    #[must_use]
    pub fn sleep_fd(&self) -> Option<RawFd> {
        self.sleep_fd
    }

    /// A look without the lock: false only if no frame waits.
    #[inline]
    #[must_use]
    pub fn may_be_ready(&self) -> bool {
        self.watch.as_ref().is_none_or(Watch::ready)
    }

    /// Rises while the ring is polled.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    /// Waits until the thread that polls the ring has left it.
    #[cold]
    pub fn wait_idle(&self) {
        let _ = self.state.lock();
    }

    /// Waits for the ring and works on its state (control plane). None: this thread is
    /// inside it already, in a signal handler.
    pub fn with<R>(&self, work: impl FnOnce(&mut RingState) -> R) -> Option<R> {
        self.state.lock().map(|mut state| work(&mut state))
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
    #[inline(always)]
    pub fn poll<D: Direct>(&self, direct: &mut D, budget: usize) -> Polled {
        let Some(mut state) = self.state.try_lock() else {
            return Polled::Busy;
        };
        Polled::Frames(self.poll_locked(&mut state, direct, budget))
    }

    #[inline(always)]
    pub(super) fn poll_locked<D: Direct>(
        &self,
        state: &mut RingState,
        direct: &mut D,
        budget: usize,
    ) -> usize {
        self.polls
            .store(self.polls.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let mut handled = 0;
        let RingState {
            queue,
            demux,
            locals,
            groups,
            reassembler,
            ..
        } = state;
        let picture = Picture {
            demux,
            locals,
            groups,
        };
        while handled < budget {
            let Some(frame) = queue.next() else { break };
            self.handle(&frame, picture, reassembler, direct);
            queue.release();
            handled += 1;
            if direct.done() {
                break;
            }
        }
        handled
    }

    /// Empties the ring into the sockets' queues; frames handled.
    pub fn drain(&self, most: usize) -> usize {
        self.with(|state| self.poll_locked(state, &mut QueueAll, most))
            .unwrap_or(0)
    }

    #[inline(always)]
    fn handle<D: Direct>(
        &self,
        frame: &RxFrame<'_>,
        picture: Picture<'_>,
        reassembler: &mut Reassembler,
        direct: &mut D,
    ) {
        let rx = &self.stats.rx;
        rx.frames.add_exclusive(1);
        rx.frame_bytes.add_exclusive(frame.data.len() as u64);
        let checksum = if frame.trusted {
            Checksum::Trusted
        } else {
            Checksum::Verify
        };
        match parse(frame.data, checksum) {
            Parsed::Udp(udp) if frame.segment == 0 => {
                self.datagram(&udp, frame.timestamp, picture, direct);
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
            Parsed::Udp(udp) => {
                // A super-frame: each piece is a datagram, the last may be shorter.
                for piece in udp.payload.chunks(usize::from(frame.segment)) {
                    let one = UdpFrame {
                        payload: piece,
                        ..*udp
                    };
                    self.datagram(&one, frame.timestamp, picture, direct);
                }
            }
            Parsed::Fragment(fragment) => {
                if !picture.is_local(fragment.dst) && !fragment.dst.is_multicast() {
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
                    Parsed::Udp(udp) => self.datagram(&udp, frame.timestamp, picture, direct),
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
        let own = picture.is_local(*source.ip());
        if !own {
            self.foreign.store(number, Ordering::Relaxed);
        }
        own
    }

    #[inline(always)]
    fn datagram<D: Direct>(
        &self,
        udp: &UdpFrame<'_>,
        timestamp: u64,
        picture: Picture<'_>,
        direct: &mut D,
    ) {
        let record = Record {
            source: udp.src,
            destination: udp.dst,
            ifindex: self.ifindex,
            ttl: udp.ttl,
            tos: udp.tos,
            timestamp,
        };
        if self.is_own(udp.src, picture) {
            // As `ip_route_input` of Linux: nobody else may use an address of ours.
        } else if udp.dst.ip().is_multicast() {
            let joined = || picture.groups.contains(udp.dst.ip());
            let mut any = false;
            for entry in picture.demux.each_multicast(&record, &joined) {
                any = true;
                entry.target.accept(&record, udp.payload, direct);
            }
            if any {
                return;
            }
        } else if let Some(entry) = picture.demux.best(&record)
            // A bound address is local, or the kernel would not have bound it.
            && (!entry.wants.local.is_unspecified() || picture.is_local(*udp.dst.ip()))
        {
            entry.target.accept(&record, udp.payload, direct);
            return;
        }
        self.stats.rx.not_ours.add_exclusive(1);
    }
}

/// What a poll needs to know about the host.
#[derive(Clone, Copy)]
struct Picture<'a> {
    demux: &'a Demux<Arc<UdpSocket>>,
    locals: &'a [Ipv4Addr],
    groups: &'a [Ipv4Addr],
}

impl Picture<'_> {
    #[inline]
    fn is_local(&self, address: Ipv4Addr) -> bool {
        self.locals.contains(&address)
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
