//! One question about a route, one answer, both the kernel's (RTM_GETROUTE).
//!
//! Owns the question's and the answer's form. Never decides: policy rules, multipath,
//! and the choice of the source address are asked for with everything that they may
//! look at. What no answer tells: IPsec policies and netfilter; and there is no event when
//! the kernel learns a path's MTU (`sys::icmp` listens).

use super::event::{Event, Message, attributes, ipv4, number};
use super::neighbor::NeighborState;
use super::request::{Failure, Mode, Requests, neighbor, use_neighbor};
use crate::error::Errno;
use netlink_packet_route::route::{RouteAttribute, RouteHeader, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::net::Ipv4Addr;

const ROUTE_HEADER: usize = 12;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_VIA: u16 = 18;
const RTA_ENCAP: u16 = 22;
const RTAX_LOCK: u16 = 1;
const RTAX_MTU: u16 = 2;
const RTAX_HOPLIMIT: u16 = 10;

/// What decides a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteQuery {
    /// Destination.
    pub dst: Ipv4Addr,
    /// Source, where the socket is bound to one.
    pub src: Option<Ipv4Addr>,
    /// Interface, where the socket is bound to one (SO_BINDTODEVICE, IP_MULTICAST_IF).
    pub oif: Option<u32>,
    /// Type of service.
    pub tos: u8,
    /// SO_MARK.
    pub mark: u32,
    /// The socket's owner; the caller's if `None`.
    pub uid: Option<u32>,
    /// Source port; 0 for none yet.
    pub sport: u16,
    /// Destination port.
    pub dport: u16,
}

impl RouteQuery {
    /// A question about nothing but a destination.
    #[must_use]
    pub fn to(dst: Ipv4Addr) -> Self {
        Self {
            dst,
            src: None,
            oif: None,
            tos: 0,
            mark: 0,
            uid: None,
            sport: 0,
            dport: 0,
        }
    }
}

/// What kind of destination it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// One host, by one interface.
    Unicast,
    /// This host.
    Local,
    /// All hosts of a network.
    Broadcast,
    /// A group.
    Multicast,
    /// What only the kernel can do: encapsulation, an IPv6 next hop, and the like.
    Other,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// What kind of destination.
    pub kind: RouteKind,
    /// Interface by which datagrams leave.
    pub oif: u32,
    /// Next hop, if it is not the destination itself.
    pub gateway: Option<Ipv4Addr>,
    /// Source address to send from: the one asked for, else the kernel's choice.
    pub prefsrc: Option<Ipv4Addr>,
    /// MTU of the route or the path, where it differs from the interface's.
    pub mtu: Option<u32>,
    /// The MTU is not to be discovered: DF stays off unless the socket insists.
    pub mtu_locked: bool,
    /// Time to live for sockets that have not set one.
    pub hop_limit: Option<u8>,
}

/// A socket for questions about routes.
#[derive(Debug)]
pub struct RouteClient {
    requests: Requests,
}

impl RouteClient {
    /// Opens it.
    ///
    /// # Errors
    /// The kernel's, EMFILE for instance.
    pub fn open() -> Result<Self, Errno> {
        Ok(Self {
            requests: Requests::open()?,
        })
    }

    /// Asks the kernel.
    ///
    /// # Errors
    /// What a send would fail with: ENETUNREACH without a route, EHOSTUNREACH, EACCES
    /// and EINVAL for unreachable, prohibit and blackhole routes, EINVAL or ENETUNREACH
    /// for a source that is not the host's, ENODEV.
    pub fn resolve(&mut self, query: &RouteQuery) -> Result<Route, Errno> {
        let mut route = None;
        let answer = self.requests.ask(question(query), Mode::Get, |message| {
            if let Message::Route(body) = message {
                route = answer(body, query);
            }
        });
        match answer {
            Err(Failure::Errno(errno)) => Err(errno),
            Ok(()) | Err(Failure::Inconsistent) => route.ok_or(Errno(libc::ENETUNREACH)),
        }
    }

    /// Tells the kernel that a neighbour is being sent to, of which it sees nothing, so
    /// that a stale entry is confirmed and a missing one resolved. Answers whether
    /// anything was to be done.
    ///
    /// Entries set by hand are left alone: NTF_USE takes NUD_PERMANENT away from an entry
    /// and with it the address (`__neigh_update`; seen on Linux 6.18).
    ///
    /// # Errors
    /// EPERM without CAP_NET_ADMIN: then only a datagram through a kernel socket does it.
    pub fn refresh_neighbor(&mut self, ifindex: u32, addr: Ipv4Addr) -> Result<bool, Errno> {
        let mut state = None;
        let known = self
            .requests
            .ask(neighbor(ifindex, addr), Mode::Get, |message| {
                if let Message::Event(Event::Neighbor(_, _, now, _)) = message {
                    state = Some(now);
                }
            });
        match known {
            Ok(()) | Err(Failure::Inconsistent) => {}
            Err(Failure::Errno(Errno(libc::ENOENT))) => state = None,
            Err(Failure::Errno(errno)) => return Err(errno),
        }
        if !state.is_none_or(NeighborState::wants_refresh) {
            return Ok(false);
        }
        match self
            .requests
            .ask(use_neighbor(ifindex, addr), Mode::Change, |_| {})
        {
            Err(Failure::Errno(errno)) => Err(errno),
            Ok(()) | Err(Failure::Inconsistent) => Ok(true),
        }
    }
}

fn question(query: &RouteQuery) -> RouteNetlinkMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = AddressFamily::Inet;
    message.header.destination_prefix_length = 32;
    message.header.tos = query.tos;
    let attributes = &mut message.attributes;
    attributes.push(RouteAttribute::Destination(query.dst.into()));
    if let Some(src) = query.src {
        message.header.source_prefix_length = 32;
        attributes.push(RouteAttribute::Source(src.into()));
    }
    attributes.extend(query.oif.map(RouteAttribute::Oif));
    attributes.extend(query.uid.map(RouteAttribute::Uid));
    if query.mark != 0 {
        attributes.push(RouteAttribute::Mark(query.mark));
    }
    attributes.push(RouteAttribute::IpProto(libc::IPPROTO_UDP as u8));
    if query.sport != 0 {
        attributes.push(RouteAttribute::Sport(query.sport));
    }
    if query.dport != 0 {
        attributes.push(RouteAttribute::Dport(query.dport));
    }
    RouteNetlinkMessage::GetRoute(message)
}

/// `rt_fill_info`. The source is told only where the kernel chose it.
fn answer(body: &[u8], query: &RouteQuery) -> Option<Route> {
    let header = RouteHeader::parse(body).ok()?;
    if header.address_family != AddressFamily::Inet {
        return None;
    }
    let mut route = Route {
        kind: match header.kind {
            RouteType::Unicast => RouteKind::Unicast,
            RouteType::Local => RouteKind::Local,
            RouteType::Broadcast => RouteKind::Broadcast,
            RouteType::Multicast => RouteKind::Multicast,
            _ => RouteKind::Other,
        },
        oif: 0,
        gateway: None,
        prefsrc: query.src,
        mtu: None,
        mtu_locked: false,
        hop_limit: None,
    };
    for (kind, value) in attributes(body, ROUTE_HEADER) {
        match kind {
            RTA_OIF => route.oif = number(value)?,
            RTA_GATEWAY => route.gateway = Some(ipv4(value)?),
            RTA_PREFSRC => route.prefsrc = Some(ipv4(value)?),
            RTA_METRICS => route.set_metrics(value),
            RTA_VIA | RTA_ENCAP | RTA_MULTIPATH => route.kind = RouteKind::Other,
            _ => {}
        }
    }
    Some(route)
}

impl Route {
    fn set_metrics(&mut self, metrics: &[u8]) {
        for (kind, value) in attributes(metrics, 0) {
            let value = number(value);
            match kind {
                RTAX_MTU => self.mtu = value.filter(|mtu| *mtu != 0),
                RTAX_LOCK => self.mtu_locked = value.is_some_and(|bits| bits & 1 << RTAX_MTU != 0),
                RTAX_HOPLIMIT => {
                    self.hop_limit = value.and_then(|hops| u8::try_from(hops).ok());
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
