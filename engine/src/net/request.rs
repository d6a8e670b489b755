//! Questions to the kernel, and the wait for their answers.
//!
//! Owns sequence numbers and the encoding of requests (rtnetlink(7)). Answers come
//! within the call that asks, so a wait ends at once or by the socket's time-out.

use super::event::{Message, messages};
use crate::error::Errno;
use crate::sys::netlink::{DATAGRAM_MAX, Socket};
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkMessage};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourFlags, NeighbourMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::Ipv4Addr;

/// RTM_GETMULTICAST, which netlink-packet-route does not name.
const RTM_GETMULTICAST: u16 = 58;

/// How a request is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// One entry.
    Get,
    /// All entries.
    Dump,
    /// A change, of an entry that may have to be made.
    Change,
}

/// A socket for questions.
#[derive(Debug)]
pub(super) struct Requests {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Why a dump did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The state changed under it: ask again.
    Inconsistent,
    Errno(Errno),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl Requests {
    pub(super) fn open() -> Result<Self, Errno> {
        Ok(Self {
            socket: Socket::open()?,
            sequence: 0,
            buffer: vec![0; DATAGRAM_MAX],
        })
    }

    /// Asks, and hands every message of the answer to `each`.
    pub(super) fn ask(
        &mut self,
        request: RouteNetlinkMessage,
        mode: Mode,
        each: impl FnMut(Message<'_>),
    ) -> Result<(), Failure> {
        self.ask_as(None, request, mode, each)
    }

    /// Dumps the groups of the host (Linux 6.15 and later).
    pub(super) fn ask_groups(&mut self, each: impl FnMut(Message<'_>)) -> Result<(), Failure> {
        let request = RouteNetlinkMessage::GetAddress(ipv4_addresses());
        self.ask_as(Some(RTM_GETMULTICAST), request, Mode::Dump, each)
    }

    fn ask_as(
        &mut self,
        kind: Option<u16>,
        request: RouteNetlinkMessage,
        mode: Mode,
        mut each: impl FnMut(Message<'_>),
    ) -> Result<(), Failure> {
        self.sequence = self.sequence.wrapping_add(1);
        let request = encode(kind, request, mode, self.sequence);
        self.socket.send(&request)?;
        let mut inconsistent = false;
        loop {
            let received = self.socket.receive(&mut self.buffer, true)?;
            if received.truncated {
                return Err(Errno::MSGSIZE.into());
            }
            if !received.from_kernel {
                continue;
            }
            for (envelope, message) in messages(&self.buffer[..received.len]) {
                // The rest of an answer that was given up.
                if envelope.sequence != self.sequence {
                    continue;
                }
                inconsistent |= envelope.inconsistent;
                match message {
                    Message::Done(Err(errno)) => return Err(errno.into()),
                    Message::Done(Ok(())) if inconsistent => return Err(Failure::Inconsistent),
                    Message::Done(Ok(())) => return Ok(()),
                    Message::Overrun => return Err(Errno(libc::ENOBUFS).into()),
                    message => {
                        each(message);
                        // A single entry is its own end, errors apart.
                        if mode == Mode::Get {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }
}

fn encode(kind: Option<u16>, request: RouteNetlinkMessage, mode: Mode, sequence: u32) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.sequence_number = sequence;
    header.flags = NLM_F_REQUEST
        | match mode {
            Mode::Get => 0,
            Mode::Dump => NLM_F_DUMP,
            Mode::Change => NLM_F_ACK | NLM_F_CREATE,
        };
    let mut message = NetlinkMessage::new(header, request.into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    if let Some(kind) = kind {
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    }
    bytes
}

/// All interfaces, without their statistics.
pub(super) fn links() -> RouteNetlinkMessage {
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats])];
    RouteNetlinkMessage::GetLink(message)
}

/// All IPv4 addresses.
pub(super) fn addresses() -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetAddress(ipv4_addresses())
}

/// All IPv4 neighbours.
pub(super) fn neighbors() -> RouteNetlinkMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    RouteNetlinkMessage::GetNeighbour(message)
}

/// One neighbour.
pub(super) fn neighbor(ifindex: u32, addr: Ipv4Addr) -> RouteNetlinkMessage {
    RouteNetlinkMessage::GetNeighbour(neighbor_message(ifindex, addr))
}

/// Tells the kernel that a neighbour is used.
pub(super) fn use_neighbor(ifindex: u32, addr: Ipv4Addr) -> RouteNetlinkMessage {
    let mut message = neighbor_message(ifindex, addr);
    message.header.flags = NeighbourFlags::Use;
    RouteNetlinkMessage::NewNeighbour(message)
}

fn neighbor_message(ifindex: u32, addr: Ipv4Addr) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.ifindex = ifindex;
    message.attributes = vec![NeighbourAttribute::Destination(addr.into())];
    message
}

fn ipv4_addresses() -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message
}
