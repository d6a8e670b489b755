//! Sending: destination cache, finished headers, one frame to the device.
//!
//! What the engine cannot send exactly as Linux would is answered with
//! [`Sent::Kernel`]: the caller makes the call on the kernel socket.

use super::control::tx_kernel;
use super::core::Core;
use super::io::{Destination, Peer, SendControl, Sent};
use super::path::Ring;
use super::udp::{Mode, UdpSocket};
use crate::error::Errno;
use crate::ring::is_single;
use crate::sys::{defer, event, signal};
use crate::wire::{ETHERNET_LEN, HEADERS_LEN, HeaderTemplate, MAX_PAYLOAD};
use smallvec::SmallVec;
use std::io::IoSlice;
use std::net::SocketAddrV4;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

/// Send flags that change nothing on the fast path.
const HARMLESS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_CONFIRM;
/// Frames up to this size are built in a small buffer, which costs less to clear.
const SMALL: usize = 128;
const MEDIUM: usize = 512;
const LARGE: usize = 2048;
/// Destinations that one socket remembers.
const REMEMBERED: usize = 64;

/// How to reach a destination.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// Ring that sends; None: the kernel.
    pub(super) ring: Option<&'static Ring>,
    pub(super) template: HeaderTemplate,
    /// Largest IP packet.
    pub(super) mtu: usize,
    /// The kernel counts the identification of a connected socket, and of fragments.
    pub(super) ip_id: u16,
}

/// What identifies a cached route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RouteKey {
    pub(super) destination: SocketAddrV4,
    /// None: the socket's options decide everything.
    pub(super) control: Option<SendControl>,
}

/// The destinations a socket has sent to.
#[derive(Debug, Default)]
pub(super) struct TxCache {
    generation: u64,
    last: usize,
    /// Destination of the last one ([`Peer`]), and the ring that sends there if no control
    /// message was asked for.
    last_peer: u64,
    last_ring: Option<&'static Ring>,
    routes: Vec<(RouteKey, Route)>,
}

impl TxCache {
    #[inline]
    fn find(&mut self, key: &RouteKey, generation: u64) -> Option<&mut Route> {
        if self.generation != generation {
            self.clear();
            self.generation = generation;
            return None;
        }
        if self.routes.get(self.last).is_none_or(|r| r.0 != *key) {
            let at = self.routes.iter().position(|r| r.0 == *key)?;
            self.choose(at);
        }
        self.routes.get_mut(self.last).map(|r| &mut r.1)
    }

    /// The last one, if that is where a plain call goes.
    #[inline(always)]
    fn find_last(&mut self, peer: u64, generation: u64) -> Option<(&'static Ring, &mut Route)> {
        if self.generation != generation || self.last_peer != peer {
            return None;
        }
        Some((self.last_ring?, &mut self.routes.get_mut(self.last)?.1))
    }

    fn choose(&mut self, at: usize) {
        self.last = at;
        let (key, route) = &self.routes[at];
        let peer = Peer::new(*key.destination.ip(), key.destination.port());
        self.last_peer = peer.map_or(0, |p| p.0);
        let plain = key.control.is_none() && self.last_peer != 0;
        self.last_ring = route.ring.filter(|_| plain);
    }

    /// Other rings send from now on, one an interface.
    pub(super) fn send_by(&mut self, rings: &[&'static Ring]) {
        for ring in self.routes.iter_mut().filter_map(|r| r.1.ring.as_mut()) {
            if let Some(other) = rings.iter().find(|r| r.ifindex == ring.ifindex) {
                *ring = other;
            }
        }
        if self.last < self.routes.len() {
            self.choose(self.last);
        }
    }

    /// Forgets everything: an option that goes into the headers has changed.
    pub(super) fn clear(&mut self) {
        self.routes.clear();
        self.last_ring = None;
    }

    fn remember(&mut self, key: RouteKey, route: Route) {
        if self.routes.len() >= REMEMBERED {
            self.routes.clear();
        }
        self.routes.push((key, route));
        self.choose(self.routes.len() - 1);
    }
}

/// What became of looking a destination up and building the frame.
enum Built {
    Frame(&'static Ring, usize),
    Unknown,
    Kernel,
}

impl Ring {
    /// The device took a frame.
    #[inline(always)]
    fn taken(&self, frame: usize) {
        let tx = &self.stats.tx;
        // Any thread may send.
        if is_single() {
            tx.frames.add_exclusive(1);
            tx.frame_bytes.add_exclusive(frame as u64);
        } else {
            tx.frames.add(1);
            tx.frame_bytes.add(frame as u64);
        }
    }
}

impl UdpSocket {
    /// The usual call: one small buffer to where the last one went. None: not so, nothing
    /// was done, see [`Self::send`]. Leaves `errno` alone.
    #[inline(always)]
    pub fn send_again(&self, to: Peer, payload: &[u8], flags: i32) -> Option<usize> {
        let peer = if to == Peer::CONNECTED {
            self.peer.load(Ordering::Relaxed)
        } else {
            to.0
        };
        if self.tx_kernel.load(Ordering::Relaxed) != 0
            || flags & !HARMLESS != 0
            || payload.len() > SMALL - HEADERS_LEN
            || self.habits.watch_sends()
        {
            return None;
        }
        let mut frame = [0; SMALL];
        let (ring, length) = self.build_known(&mut frame, peer, payload)?;
        if ring.transmit.send(&frame[..length]).is_err() {
            self.take_back(payload.len());
            return None;
        }
        ring.taken(length);
        Some(payload.len())
    }

    /// A small frame to where the last one went; None: not so.
    #[inline(always)]
    fn build_known(
        &self,
        frame: &mut [u8; SMALL],
        peer: u64,
        payload: &[u8],
    ) -> Option<(&'static Ring, usize)> {
        let generation = self.core.generation();
        let mut cache = self.tx.try_lock()?;
        let (ring, route) = cache.find_last(peer, generation)?;
        if payload.len() + HEADERS_LEN - ETHERNET_LEN > route.mtu {
            return None;
        }
        route.ip_id = route.ip_id.wrapping_add(1);
        let length = route.template.build(frame, &[payload], route.ip_id)?;
        self.count_sent(payload.len());
        Some((ring, length))
    }

    /// Under the lock of the cache; taken back if the device refuses.
    #[inline(always)]
    fn count_sent(&self, length: usize) {
        let tx = &self.stats.tx;
        tx.packets.add_exclusive(1);
        tx.bytes.add_exclusive(length as u64);
    }

    /// A send call of any kind.
    #[inline(never)]
    pub fn send(
        &self,
        _fd: RawFd,
        dest: Destination,
        payload: &[IoSlice<'_>],
        control: Option<&SendControl>,
        flags: i32,
    ) -> Sent {
        if self.tx_kernel.load(Ordering::Relaxed) != 0
            || flags & !HARMLESS != 0
            || control.is_some_and(|c| c.segment.is_some())
        {
            return self.send_aside(dest, flags);
        }
        if self.habits.watch_sends() {
            self.count_send();
        }
        let destination = match dest {
            Destination::V4(address) => address,
            Destination::Connected => match self.peer.load(Ordering::Relaxed) {
                0 => return self.to_kernel(),
                peer => match Peer(peer).destination() {
                    Destination::V4(address) => address,
                    Destination::Connected | Destination::Other => return self.to_kernel(),
                },
            },
            Destination::Other => return self.to_kernel(),
        };
        let length = match payload {
            [one] => one.len(),
            many => many
                .iter()
                .fold(0, |sum: usize, p| sum.saturating_add(p.len())),
        };
        if length > MAX_PAYLOAD {
            return self.to_kernel(); // EMSGSIZE
        }
        let key = RouteKey {
            destination,
            control: control.copied(),
        };
        if HEADERS_LEN + length <= SMALL {
            self.send_in(&mut [0; SMALL], &key, payload, length, flags)
        } else if HEADERS_LEN + length <= MEDIUM {
            self.send_in(&mut [0; MEDIUM], &key, payload, length, flags)
        } else if HEADERS_LEN + length <= LARGE {
            self.send_in(&mut [0; LARGE], &key, payload, length, flags)
        } else {
            let mut buffer = vec![0; HEADERS_LEN + length];
            self.send_in(&mut buffer, &key, payload, length, flags)
        }
    }

    #[inline]
    fn to_kernel(&self) -> Sent {
        self.core.kernel_traffic();
        Sent::Kernel
    }

    /// A socket that no ring sends for, or not yet: an unbound one gets its port now, as
    /// the kernel would give it, so that the answer finds the engine.
    #[cold]
    fn send_aside(&self, dest: Destination, flags: i32) -> Sent {
        if flags & libc::MSG_MORE != 0 {
            self.kernel_holds_more();
        } else {
            // This call ends the datagram, or brings the error back.
            let once = tx_kernel::MORE | tx_kernel::ERROR;
            self.tx_kernel.fetch_and(!once, Ordering::Relaxed);
        }
        match self.mode() {
            Mode::Inherited => self.claim(),
            Mode::Kernel if !self.sends_by_ring() => match dest {
                Destination::V4(_) => self.begin_sending(true),
                Destination::Connected => self.begin_sending(false),
                Destination::Other => {}
            },
            Mode::Kernel | Mode::Engine | Mode::CatchingUp => {}
        }
        self.to_kernel()
    }

    #[inline]
    fn send_in(
        &self,
        buffer: &mut [u8],
        key: &RouteKey,
        payload: &[IoSlice<'_>],
        length: usize,
        flags: i32,
    ) -> Sent {
        let (ring, frame) = match self.build(buffer, key, payload, length) {
            Built::Frame(ring, frame) => (ring, frame),
            Built::Kernel => return self.to_kernel(),
            Built::Unknown => {
                self.learn(key);
                match self.build(buffer, key, payload, length) {
                    Built::Frame(ring, frame) => (ring, frame),
                    Built::Kernel | Built::Unknown => return self.to_kernel(),
                }
            }
        };
        self.transmit(ring, &buffer[..frame], length, flags)
    }

    #[inline]
    fn build(
        &self,
        buffer: &mut [u8],
        key: &RouteKey,
        payload: &[IoSlice<'_>],
        length: usize,
    ) -> Built {
        let generation = self.core.generation();
        let Some(mut cache) = self.tx.lock() else {
            return Built::Kernel;
        };
        let Some(route) = cache.find(key, generation) else {
            return Built::Unknown;
        };
        let Some(ring) = route.ring else {
            return Built::Kernel;
        };
        // Larger ones are the kernel's to fragment, or to refuse (IP_MTU_DISCOVER).
        if length + HEADERS_LEN - ETHERNET_LEN > route.mtu {
            return Built::Kernel;
        }
        route.ip_id = route.ip_id.wrapping_add(1);
        match route.template.build(buffer, payload, route.ip_id) {
            Some(frame) => {
                self.count_sent(length);
                Built::Frame(ring, frame)
            }
            None => Built::Kernel,
        }
    }

    #[cold]
    fn learn(&self, key: &RouteKey) {
        // Read before resolving: a change meanwhile makes the entry stale, not wrong.
        let generation = self.core.generation();
        let Some(route) = self.core.resolve(self, key) else {
            return;
        };
        if let Some(mut cache) = self.tx.lock()
            && cache.find(key, generation).is_none()
            && cache.generation == generation
        {
            cache.remember(*key, route);
        }
    }

    fn transmit(&self, ring: &Ring, frame: &[u8], length: usize, flags: i32) -> Sent {
        let mut result = ring.transmit.send(frame);
        if result == Err(Errno::AGAIN) {
            ring.stats.tx.full.add(1);
            if flags & libc::MSG_DONTWAIT == 0 && !self.nonblocking.load(Ordering::Relaxed) {
                result = self.core.wait_transmit(self.fd(), ring, frame);
            } else if !ring.has_carrier(self.fd()) {
                result = Err(Errno(libc::ENETDOWN));
            }
        }
        if result == Ok(()) {
            ring.taken(frame.len());
            return Sent::Done(length);
        }
        self.refused(ring, length, result)
    }

    /// What was counted as sent was not.
    #[cold]
    fn take_back(&self, length: usize) {
        let lock = self.tx.lock();
        self.stats.tx.packets.add_exclusive(1u64.wrapping_neg());
        self.stats
            .tx
            .bytes
            .add_exclusive((length as u64).wrapping_neg());
        drop(lock);
    }

    /// The device did not take the frame.
    #[cold]
    fn refused(&self, ring: &Ring, length: usize, result: Result<(), Errno>) -> Sent {
        self.take_back(length);
        match result {
            Err(Errno::AGAIN) => {
                self.stats.tx.eagain.add(1);
                Sent::Failed(Errno::AGAIN)
            }
            Err(Errno::INTR) => Sent::Failed(Errno::INTR),
            _ => {
                // Link down, gone, or too long after an MTU change: Linux has the answer.
                ring.stats.tx.failed.add(1);
                self.stats.tx.errors.add(1);
                self.to_kernel()
            }
        }
    }

    /// The kernel socket has an error (ICMP): the next call of the program fetches it.
    pub(super) fn kernel_error(&self) {
        self.tx_kernel.fetch_or(tx_kernel::ERROR, Ordering::Relaxed);
        self.expect_error();
        self.hint_kernel();
    }

    /// The kernel socket holds the beginning of a datagram: what is sent next joins it.
    pub fn kernel_holds_more(&self) {
        self.tx_kernel.fetch_or(tx_kernel::MORE, Ordering::Relaxed);
    }

    /// Counts a send that the kernel made for this socket.
    pub fn kernel_sent(&self, result: Result<usize, Errno>) {
        let os = &self.stats.tx_os;
        match result {
            Ok(n) => {
                os.packets.add(1);
                os.bytes.add(n as u64);
            }
            Err(Errno::AGAIN) => os.eagain.add(1),
            Err(_) => os.errors.add(1),
        }
    }
}

impl Core {
    /// Waits until the device takes a frame. `fd` is any socket.
    ///
    /// # Errors
    /// EINTR, ENETDOWN without a carrier, or the device's.
    pub(super) fn wait_transmit(&self, fd: RawFd, ring: &Ring, frame: &[u8]) -> Result<(), Errno> {
        // Readiness of a packet socket does not speak for the device behind it.
        let mut set: SmallVec<[_; 1]> = ring
            .transmit
            .ready_fd()
            .map(|fd| libc::pollfd {
                fd,
                events: libc::POLLOUT,
                revents: 0,
            })
            .into_iter()
            .collect();
        let before = signal::counts().interrupting;
        loop {
            if let Err(errno) = event::ppoll(&mut set, Some(20_000), None)
                && errno != Errno::INTR
            {
                return Err(errno);
            }
            // Most that come here do not come in the sleep.
            defer::breathe();
            if signal::counts().interrupting != before {
                return Err(Errno::INTR);
            }
            match ring.transmit.send(frame) {
                // Without a carrier nothing ever makes room; Linux drops without a word.
                Err(Errno::AGAIN) if !ring.has_carrier(fd) => {
                    return Err(Errno(libc::ENETDOWN));
                }
                Err(Errno::AGAIN) => event::yield_now(),
                other => return other,
            }
        }
    }
}
