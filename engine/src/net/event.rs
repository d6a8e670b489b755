//! Netlink messages as events.
//!
//! Owns the reading of what the kernel sends (rtnetlink(7), linux/rtnetlink.h). Takes
//! the attributes that it needs and passes over the rest, so that a newer kernel's
//! additions never cost a message. Never trusts a length.

use super::group::Membership;
use super::interface::{Interface, InterfaceAddress, LinkKind};
use super::neighbor::NeighborState;
use crate::error::Errno;
use netlink_packet_core::{NLA_HEADER_SIZE, NetlinkBuffer, NlasIterator};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::address::AddressHeader;
use netlink_packet_route::link::{LinkFlags, LinkHeader, LinkLayerType};
use netlink_packet_route::neighbour::{NeighbourFlags, NeighbourHeader};
use std::net::Ipv4Addr;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSG_OVERRUN: u16 = 4;
const NLM_F_DUMP_INTR: u16 = 0x10;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
pub(super) const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_NEWNEIGH: u16 = 28;
const RTM_DELNEIGH: u16 = 29;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_NEWMULTICAST: u16 = 56;
const RTM_DELMULTICAST: u16 = 57;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;

const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const NEIGHBOR_HEADER: usize = 12;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_MASTER: u16 = 10;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_BROADCAST: u16 = 4;
const IFA_MULTICAST: u16 = 7;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;

/// A change of the kernel's state, or one entry of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An interface is there or has changed. Its addresses are not told.
    Link(Interface),
    /// An interface is gone.
    LinkGone(u32),
    /// An interface has an address.
    Address(u32, InterfaceAddress),
    /// An interface lost an address: index, address, prefix.
    AddressGone(u32, Ipv4Addr, u8),
    /// A neighbour: index, address, state, link-layer address if known.
    Neighbor(u32, Ipv4Addr, NeighborState, Option<[u8; 6]>),
    /// A neighbour is forgotten.
    NeighborGone(u32, Ipv4Addr),
    /// The host joined a group.
    Joined(Membership),
    /// The host left a group.
    Left(Membership),
    /// A route, a rule or a next-hop object came, went or changed.
    Routes,
}

/// One message of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    Event(Event),
    /// An answer about a route: its header and attributes.
    Route(&'a [u8]),
    /// The end of an answer: `Ok`, or why not.
    Done(Result<(), Errno>),
    /// Something was lost on the way here.
    Overrun,
    /// Nothing of interest.
    Ignored,
}

/// What comes with every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    pub(super) sequence: u32,
    /// The state changed while it was dumped: the dump must be repeated.
    pub(super) inconsistent: bool,
}

/// The messages of a datagram. A broken length ends it.
pub(super) fn messages(datagram: &[u8]) -> impl Iterator<Item = (Envelope, Message<'_>)> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let buffer = NetlinkBuffer::new_checked(rest).ok()?;
        let length = (buffer.length() as usize).next_multiple_of(4);
        rest = rest.get(length..).unwrap_or(&[]);
        let envelope = Envelope {
            sequence: buffer.sequence_number(),
            inconsistent: buffer.flags() & NLM_F_DUMP_INTR != 0,
        };
        Some((envelope, message(buffer.message_type(), buffer.payload())))
    })
}

fn message(kind: u16, body: &[u8]) -> Message<'_> {
    let event = match kind {
        NLMSG_ERROR | NLMSG_DONE => return Message::Done(verdict(body)),
        NLMSG_OVERRUN => return Message::Overrun,
        RTM_NEWROUTE => return Message::Route(body),
        RTM_DELROUTE | RTM_NEWRULE | RTM_DELRULE | RTM_NEWNEXTHOP | RTM_DELNEXTHOP => {
            Some(Event::Routes)
        }
        RTM_NEWLINK => link(body).map(Event::Link),
        RTM_DELLINK => link(body).map(|link| Event::LinkGone(link.index)),
        RTM_NEWADDR => address(body).map(|(index, address)| Event::Address(index, address)),
        RTM_DELADDR => address(body)
            .map(|(index, address)| Event::AddressGone(index, address.addr, address.prefix)),
        RTM_NEWNEIGH => neighbor(body),
        RTM_DELNEIGH => match neighbor(body) {
            Some(Event::Neighbor(index, addr, ..) | Event::NeighborGone(index, addr)) => {
                Some(Event::NeighborGone(index, addr))
            }
            _ => None,
        },
        RTM_NEWMULTICAST => membership(body).map(Event::Joined),
        RTM_DELMULTICAST => membership(body).map(Event::Left),
        _ => None,
    };
    event.map_or(Message::Ignored, Message::Event)
}

/// NLMSG_ERROR and NLMSG_DONE begin with a negative error number, or zero. DONE may be
/// empty.
fn verdict(body: &[u8]) -> Result<(), Errno> {
    match body
        .first_chunk::<4>()
        .map_or(0, |code| i32::from_ne_bytes(*code))
    {
        0 => Ok(()),
        code => Err(Errno(code.checked_neg().unwrap_or(libc::EIO))),
    }
}

fn link(body: &[u8]) -> Option<Interface> {
    let header = LinkHeader::parse(body).ok()?;
    // With AF_BRIDGE the message is about a bridge port: gone then means gone from the
    // bridge.
    if header.interface_family != AddressFamily::Unspec {
        return None;
    }
    let has = |flag| header.flags.contains(flag);
    let mut interface = Interface {
        index: header.index,
        name: String::new(),
        mac: [0; 6],
        mtu: 0,
        up: has(LinkFlags::Up),
        running: has(LinkFlags::Running),
        loopback: has(LinkFlags::Loopback),
        multicast: has(LinkFlags::Multicast),
        no_arp: has(LinkFlags::Noarp),
        kind: match header.link_layer_type {
            LinkLayerType::Ether => LinkKind::Ethernet,
            LinkLayerType::Loopback => LinkKind::Loopback,
            _ => LinkKind::Other,
        },
        driver: String::new(),
        master: None,
        addresses: Vec::new(),
    };
    for (kind, value) in attributes(body, LINK_HEADER) {
        match kind {
            IFLA_ADDRESS => interface.mac = value.try_into().unwrap_or_default(),
            IFLA_IFNAME => interface.name = text(value),
            IFLA_MTU => interface.mtu = number(value)?,
            IFLA_MASTER => interface.master = number(value),
            IFLA_LINKINFO => {
                let kind = attributes(value, 0).find(|(kind, _)| *kind == IFLA_INFO_KIND);
                interface.driver = kind.map(|(_, value)| text(value)).unwrap_or_default();
            }
            _ => {}
        }
    }
    Some(interface)
}

fn address(body: &[u8]) -> Option<(u32, InterfaceAddress)> {
    let header = AddressHeader::parse(body).ok()?;
    if header.family != AddressFamily::Inet {
        return None;
    }
    let (mut local, mut peer, mut broadcast) = (None, None, None);
    for (kind, value) in attributes(body, ADDRESS_HEADER) {
        match kind {
            IFA_LOCAL => local = ipv4(value),
            IFA_ADDRESS => peer = ipv4(value),
            IFA_BROADCAST => broadcast = ipv4(value),
            _ => {}
        }
    }
    // On a point-to-point link IFA_ADDRESS is the other end; elsewhere they are equal.
    let addr = local.or(peer)?;
    Some((
        header.index,
        InterfaceAddress {
            addr,
            prefix: header.prefix_len,
            broadcast,
        },
    ))
}

fn neighbor(body: &[u8]) -> Option<Event> {
    let header = NeighbourHeader::parse(body).ok()?;
    // AF_BRIDGE: forwarding entries. NTF_PROXY: whom the host answers for.
    if header.family != AddressFamily::Inet || header.flags.contains(NeighbourFlags::Proxy) {
        return None;
    }
    let (mut addr, mut mac) = (None, None);
    for (kind, value) in attributes(body, NEIGHBOR_HEADER) {
        match kind {
            NDA_DST => addr = ipv4(value),
            NDA_LLADDR => mac = value.try_into().ok(),
            _ => {}
        }
    }
    let addr = addr?;
    Some(match NeighborState::from_nud(header.state.into()) {
        Some(state) => Event::Neighbor(header.ifindex, addr, state, mac),
        None => Event::NeighborGone(header.ifindex, addr),
    })
}

/// Group messages have the address messages' header.
fn membership(body: &[u8]) -> Option<Membership> {
    let header = AddressHeader::parse(body).ok()?;
    if header.family != AddressFamily::Inet {
        return None;
    }
    let (_, value) = attributes(body, ADDRESS_HEADER).find(|(kind, _)| *kind == IFA_MULTICAST)?;
    Some(Membership {
        ifindex: header.index,
        group: ipv4(value)?,
    })
}

/// The attributes behind a header: kind, value. A broken one ends them.
pub(super) fn attributes(body: &[u8], header: usize) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(body.get(header..).unwrap_or(&[]))
        .map_while(Result::ok)
        .map(|attribute| {
            let (kind, length) = (attribute.kind(), attribute.value_length());
            let bytes: &[u8] = attribute.into_inner();
            (
                kind,
                bytes
                    .get(NLA_HEADER_SIZE..NLA_HEADER_SIZE + length)
                    .unwrap_or(&[]),
            )
        })
}

pub(super) fn number(value: &[u8]) -> Option<u32> {
    value
        .first_chunk::<4>()
        .map(|bytes| u32::from_ne_bytes(*bytes))
}

pub(super) fn ipv4(value: &[u8]) -> Option<Ipv4Addr> {
    <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from)
}

fn text(value: &[u8]) -> String {
    let end = memchr::memchr(0, value).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

#[cfg(test)]
pub(super) mod tests;
