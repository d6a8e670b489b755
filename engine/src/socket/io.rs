//! What passes between a socket call and the engine.

use super::path::Polled;
use crate::error::Errno;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;

/// A datagram as the engine hands it to a receive call.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// Sender. Where it lies: copies of six bytes are costly.
    pub source: &'a SocketAddrV4,
    /// Destination address of the IP header.
    pub destination: Ipv4Addr,
    /// Destination port.
    pub port: u16,
    /// Interface it came in by.
    pub ifindex: u32,
    /// Time to live of the IP header.
    pub ttl: u8,
    /// Type of service of the IP header.
    pub tos: u8,
    /// Receive time, CLOCK_REALTIME nanoseconds.
    pub timestamp: u64,
    /// It was stamped on its way: somebody had asked for that.
    pub stamped: bool,
    /// UDP payload.
    pub payload: &'a [u8],
}

/// Bits of [`Delivery::wanted`]: control messages that the socket's options ask for.
pub mod wanted {
    /// IP_PKTINFO.
    pub const PKTINFO: u32 = 1;
    /// IP_RECVTTL.
    pub const TTL: u32 = 1 << 1;
    /// IP_RECVTOS.
    pub const TOS: u32 = 1 << 2;
    /// SO_TIMESTAMP.
    pub const TIMESTAMP: u32 = 1 << 3;
    /// SO_TIMESTAMPNS.
    pub const TIMESTAMPNS: u32 = 1 << 4;
    /// SO_TIMESTAMPING with SOF_TIMESTAMPING_RX_SOFTWARE and SOF_TIMESTAMPING_SOFTWARE.
    pub const TIMESTAMPING: u32 = 1 << 5;
    /// IPV6_RECVPKTINFO (address as ::ffff:a.b.c.d).
    pub const PKTINFO6: u32 = 1 << 6;
    /// IP_RECVORIGDSTADDR.
    pub const ORIGDSTADDR: u32 = 1 << 7;
    /// SO_TIMESTAMPING with SOF_TIMESTAMPING_RX_HARDWARE and SOF_TIMESTAMPING_RAW_HARDWARE; in a
    /// [`super::Delivery`]: and the datagram's time is its card's.
    pub const HARDWARE: u32 = 1 << 15;
    /// SO_RXQ_OVFL.
    pub const RXQ_OVFL: u32 = 1 << 8;
    /// Time stamps by the names of 64-bit time (SO_TIMESTAMP_NEW and its kin).
    pub const STAMP_NEW: u32 = 1 << 9;
}

/// What the receiving socket's options say about a delivery.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    /// AF_INET6: addresses are given as ::ffff:a.b.c.d.
    pub mapped: bool,
    /// Bits of [`wanted`].
    pub wanted: u32,
    /// Datagrams dropped by this socket so far (SO_RXQ_OVFL).
    pub drops: u32,
    /// `ipi_spec_dst` of IP_PKTINFO: the local address for an answer.
    pub local: Ipv4Addr,
}

/// One receive call with its arguments.
pub trait Receive {
    /// Control messages have a place to go, so that [`Delivery`] is to be filled in.
    const CONTROL: bool;

    /// Copies a datagram and its control messages to the caller; returns the call's result.
    ///
    /// # Errors
    /// The call's error, e.g. EFAULT.
    fn deliver(&mut self, datagram: &Datagram<'_>, how: &Delivery) -> Result<usize, Errno>;

    /// Makes the same call on the kernel socket, with `extra` flags (MSG_DONTWAIT) added.
    ///
    /// # Errors
    /// The kernel's.
    fn kernel(&mut self, fd: RawFd, extra: i32) -> Result<usize, Errno>;

    /// SO_RXQ_OVFL of what [`Self::kernel`] has just received is this number, if anything.
    fn correct_drops(&mut self, _drops: u32) {}
}

/// What a quick look for a receive call leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// Taken, and the call fails.
    Failed(Errno),
    /// The ring holds no frame.
    Nothing,
    /// The same to a call that does not wait: it is to look at the kernel's side.
    Due,
    /// It takes a closer look.
    Unknown,
}

/// What the control messages of a sendmsg ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendControl {
    /// IP_PKTINFO `ipi_spec_dst`.
    pub source: Option<Ipv4Addr>,
    /// IP_PKTINFO `ipi_ifindex`.
    pub ifindex: Option<u32>,
    /// IP_TTL.
    pub ttl: Option<u8>,
    /// IP_TOS.
    pub tos: Option<u8>,
    /// UDP_SEGMENT, bytes.
    pub segment: Option<u16>,
}

/// Where a send call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// No address given: the connected peer.
    Connected,
    /// An IPv4 address (also given as ::ffff:a.b.c.d on an AF_INET6 socket).
    V4(SocketAddrV4),
    /// Anything else: the kernel answers.
    Other,
}

/// Where a plain send call goes, in one word: address and port, in network order both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub(super) u64);

impl Peer {
    /// No address given.
    pub const CONNECTED: Self = Self(0);

    /// None: nobody, and not to be mistaken for [`Self::CONNECTED`].
    #[inline(always)]
    #[must_use]
    pub const fn new(address: Ipv4Addr, port: u16) -> Option<Self> {
        let address = u32::from_ne_bytes(address.octets());
        match (address as u64) << 16 | port.to_be() as u64 {
            0 => None,
            word => Some(Self(word)),
        }
    }

    /// The long form.
    #[must_use]
    pub const fn destination(self) -> Destination {
        match self.0 {
            0 => Destination::Connected,
            word => Destination::V4(SocketAddrV4::new(
                Ipv4Addr::from_octets(((word >> 16) as u32).to_ne_bytes()),
                u16::from_be(word as u16),
            )),
        }
    }
}

/// The engine's answer to a send call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Sent; the call's result.
    Done(usize),
    /// The kernel has to make this call; nothing was sent.
    Kernel,
    /// The call fails.
    Failed(Errno),
}

/// What a look at rings left there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Left {
    /// Some were in another thread's hands.
    pub(super) busy: bool,
    /// Some had as many frames as a look takes, or more.
    pub(super) more: bool,
}

impl Left {
    #[inline]
    pub(super) fn note(&mut self, polled: Polled, budget: usize) {
        match polled {
            Polled::Busy => self.busy = true,
            Polled::Frames(count) => self.more |= count >= budget,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_in_one_word() {
        let address: SocketAddrV4 = "192.0.2.1:65535".parse().unwrap();
        let peer = Peer::new(*address.ip(), address.port()).unwrap();
        assert_eq!(peer.destination(), Destination::V4(address));
        // Nobody is not the same as no address.
        assert_eq!(Peer::new(Ipv4Addr::UNSPECIFIED, 0), None);
        assert_ne!(Peer::new(Ipv4Addr::UNSPECIFIED, 1), Some(Peer::CONNECTED));
        assert_eq!(Peer::CONNECTED.destination(), Destination::Connected);
    }
}
