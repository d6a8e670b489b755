//! The shortcut of a ring: where its last datagram went.

use crate::device::RxFrame;
use crate::ring::Record;
use crate::wire::Ends;
use std::net::{Ipv4Addr, SocketAddrV4};

const NOBODY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);

/// The way that the last ordinary datagram went. One with the same ends goes there, too,
/// without being looked up, until the control plane comes in ([`super::path::Ring::with`]).
#[derive(Clone, Copy, Debug)]
pub(super) struct Beaten {
    pub(super) ends: Ends,
    /// The socket's address, and the port under which the picture has it.
    pub(super) target: usize,
    pub(super) port: u16,
    /// The last datagram's; of a call without control messages only the addresses count.
    pub(super) record: Record,
    /// Only frames from then on are the engine's ([`super::demux::Wants::since`]).
    pub(super) since: u64,
}

impl Beaten {
    /// Nothing goes there: no frame is that young.
    pub(super) const NONE: Self = Self {
        ends: Ends::NONE,
        target: 0,
        port: 0,
        record: Record {
            source: NOBODY,
            destination: NOBODY,
            ifindex: 0,
            ttl: 0,
            tos: 0,
            timestamp: 0,
            drops: 0,
            asked: 0,
        },
        since: u64::MAX,
    };

    /// The payload of a frame, if this is its way and leads to `target`.
    #[inline(always)]
    pub(super) fn leads<'a>(&self, frame: &RxFrame<'a>, target: usize) -> Option<&'a [u8]> {
        if target != self.target || frame.timestamp < self.since || frame.segment != 0 {
            return None;
        }
        self.ends.payload(frame.data, frame.trusted)
    }
}
