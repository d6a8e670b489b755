//! The shortcut of a ring: where its last datagram went.

use crate::device::RxFrame;
use crate::wire::{Ends, Plain};
use std::net::{Ipv4Addr, SocketAddrV4};

/// The way that the last ordinary datagram went. One with the same ends goes there, too,
/// without being looked up, until the control plane comes in ([`super::path::Ring::with`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct Beaten {
    pub(super) ends: Ends,
    /// The socket's address, and the port under which the picture has it.
    pub(super) target: usize,
    pub(super) port: u16,
    pub(super) source: SocketAddrV4,
    pub(super) destination: SocketAddrV4,
    /// Only frames from then on are the engine's ([`super::demux::Wants::since`]).
    pub(super) since: u64,
}

impl Beaten {
    /// Nothing goes there: no frame is that young.
    pub(super) const NONE: Self = Self {
        ends: Ends::NONE,
        target: 0,
        port: 0,
        source: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
        destination: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
        since: u64::MAX,
    };

    /// The payload of a frame, if this is its way and leads to `target`. A function of its
    /// own: it gets by with the registers that its caller does not keep.
    #[inline(never)]
    pub(super) fn leads<'a>(&self, frame: &RxFrame<'a>, target: usize) -> Option<&'a [u8]> {
        let plain = Plain::new(frame.data)?;
        let same = plain.ends() == self.ends && target == self.target;
        if !same || frame.timestamp < self.since || frame.segment != 0 {
            return None;
        }
        (frame.trusted || plain.checksum_holds()).then(|| plain.payload())
    }
}
