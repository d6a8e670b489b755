//! From what sockets want of an interface to the exact flows that its device is to bring.
//!
//! Pure. A plan is a set, so a flow stays while any socket wants it. Every flow names its
//! destination: rules of a card that overlap without being the same do not each get a
//! copy. What no flow names is the kernel's to deliver (a device that steers) or brought
//! by its port alone (a tap).

mod subscribers;

pub use subscribers::{Bound, Subscribers, parse as parse_bound};

use crate::device::{Delivery, Flow};
use std::net::{Ipv4Addr, SocketAddrV4};

/// RoCE v2: the card's own traffic.
pub const ROCE_PORT: u16 = 4791;

/// What one socket wants of one interface.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Bound port.
    pub port: u16,
    /// Bound address, which may be a group; 0.0.0.0: any.
    pub local: Ipv4Addr,
    /// Connected peer.
    pub peer: Option<SocketAddrV4>,
    /// Unicast is to come by the device.
    pub unicast: bool,
    /// IP_MULTICAST_ALL: every group that the host has joined on the interface.
    pub multicast_all: bool,
    /// Groups that the socket itself has joined on the interface.
    pub groups: &'a [Ipv4Addr],
}

/// What the interface is like.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Its addresses.
    pub addresses: &'a [Ipv4Addr],
    /// Groups that anybody on the host has joined on it.
    pub groups: &'a [Ipv4Addr],
    /// What the device does with a frame that no flow names.
    pub delivery: Delivery,
    /// VMA_UDP_3T_RULES: a flow for each destination, whatever the sender.
    pub any_peer: bool,
}

/// The flows for these sockets, sorted, each once. `shared` says whether others on the
/// host want a group's datagrams to a port.
pub fn plan<'a>(
    wanted: impl Iterator<Item = Wanted<'a>>,
    scope: &Scope<'_>,
    shared: &dyn Fn(Ipv4Addr, u16) -> bool,
) -> Vec<Flow> {
    let mut flows = Vec::new();
    for socket in wanted {
        let reserved = scope.delivery == Delivery::Steered && socket.port == ROCE_PORT;
        if socket.port != 0 && !reserved {
            unicast(&socket, scope, &mut flows);
            multicast(&socket, scope, shared, &mut flows);
        }
    }
    flows.sort_unstable();
    flows.dedup();
    drop_covered(flows)
}

fn unicast(socket: &Wanted<'_>, scope: &Scope<'_>, flows: &mut Vec<Flow>) {
    if !socket.unicast || socket.local.is_multicast() {
        return;
    }
    let any = socket.local.is_unspecified();
    let bound = [socket.local];
    let destinations = if any { scope.addresses } else { &bound };
    flows.extend(destinations.iter().map(|destination| Flow {
        destination: *destination,
        port: socket.port,
        peer: socket.peer.filter(|_| !scope.any_peer),
        shared: false,
    }));
}

/// Never by peer: the same group is other sockets' and other processes' too, and a rule
/// for one sender would keep its datagrams from theirs.
fn multicast(
    socket: &Wanted<'_>,
    scope: &Scope<'_>,
    shared: &dyn Fn(Ipv4Addr, u16) -> bool,
    flows: &mut Vec<Flow>,
) {
    let joined = if socket.multicast_all {
        scope.groups
    } else {
        &[]
    };
    flows.extend(
        socket
            .groups
            .iter()
            .chain(joined)
            .filter(|group| socket.local.is_unspecified() || socket.local == **group)
            .map(|group| Flow {
                destination: *group,
                port: socket.port,
                peer: None,
                shared: shared(*group, socket.port),
            }),
    );
}

/// Leaves out a peer's flow where one from any peer has the same destination: they sort
/// right behind it.
fn drop_covered(flows: Vec<Flow>) -> Vec<Flow> {
    let mut kept: Vec<Flow> = Vec::with_capacity(flows.len());
    let mut open = None;
    for flow in flows {
        let place = (flow.destination, flow.port);
        if flow.peer.is_none() {
            open = Some(place);
        } else if open == Some(place) {
            continue;
        }
        kept.push(flow);
    }
    kept
}

#[cfg(test)]
mod tests;
