//! From a ring's picture of its sockets to the flows that its device is to bring.
//!
//! Pure: what a device brings by these flows and the demultiplexer gives away is what it
//! would give away of everything that comes to the interface's addresses and groups.

use super::demux::{Entry, Place, Wants};
use crate::device::Flow;
use crate::steering::{self, Scope, Wanted};
use std::net::Ipv4Addr;

/// The flows of some sockets of a ring on interface `ifindex`.
pub(super) fn flows<'a, T: 'a>(
    entries: impl Iterator<Item = &'a Entry<T>>,
    ifindex: u32,
    scope: &Scope<'_>,
    shared: &dyn Fn(Ipv4Addr, u16) -> bool,
) -> Vec<Flow> {
    let here: Vec<(&Wants, Vec<Ipv4Addr>)> = entries
        .filter(|entry| entry.place != Place::Elsewhere)
        .map(|entry| &*entry.wants)
        .filter(|wants| wants.device == 0 || wants.device == ifindex)
        .map(|wants| {
            let members = wants.groups.members().iter();
            let joined = members.filter(|m| m.ifindex == ifindex).map(|m| m.group);
            (wants, joined.collect())
        })
        .collect();
    let wanted = here.iter().map(|(wants, groups)| Wanted {
        port: wants.port,
        local: wants.local,
        peer: wants.peer,
        unicast: wants.unicast,
        multicast_all: wants.multicast_all,
        groups,
    });
    steering::plan(wanted, scope, shared)
}

/// What a tap is told: it goes by port alone, and hears nothing of groups that come and go.
pub(super) fn ports<'a, T: 'a>(entries: impl Iterator<Item = &'a Entry<T>>) -> Vec<Flow> {
    let mut ports: Vec<u16> = entries.map(|entry| entry.wants.port).collect();
    ports.sort_unstable();
    ports.dedup();
    let any = |port| Flow {
        destination: Ipv4Addr::UNSPECIFIED,
        port,
        peer: None,
        shared: false,
    };
    ports.into_iter().map(any).collect()
}

#[cfg(test)]
mod tests {
    use super::super::demux::Demux;
    use super::super::groups::{Change, Groups, Via};
    use super::*;
    use crate::device::Delivery;
    use crate::ring::Record;
    use proptest::prelude::*;
    use std::net::SocketAddrV4;
    use std::sync::Arc;

    const IFINDEX: u32 = 2;

    fn address(n: u8) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, n)
    }

    fn group(n: u8) -> Ipv4Addr {
        Ipv4Addr::new(239, 0, 0, n)
    }

    fn peer(n: u8) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 100 + n), 1000)
    }

    fn local() -> impl Strategy<Value = Ipv4Addr> {
        prop_oneof![
            Just(Ipv4Addr::UNSPECIFIED),
            (1..3u8).prop_map(address),
            (1..4u8).prop_map(group)
        ]
    }

    fn wants() -> impl Strategy<Value = Wants> {
        (
            (
                1..4u16,
                local(),
                proptest::option::of((1..3u8).prop_map(peer)),
            ),
            (0..2u32, any::<bool>(), any::<bool>()),
            proptest::collection::vec((1..4u8, 2..4u32), 0..3),
        )
            .prop_map(|((port, local, peer), (device, unicast, all), joins)| {
                let mut groups = Groups::default();
                for (n, ifindex) in joins {
                    let via = Via {
                        ifindex,
                        address: Ipv4Addr::UNSPECIFIED,
                    };
                    groups.apply(&Change::Join(group(n), via));
                }
                Wants {
                    port,
                    local,
                    peer,
                    // None, this interface, or another one.
                    device: [0, IFINDEX, IFINDEX + 1][device as usize],
                    family_v4: true,
                    unicast,
                    multicast_all: all,
                    groups,
                    since: 0,
                }
            })
    }

    /// What a device with these rules would bring.
    fn brought(flows: &[Flow], key: &Record) -> bool {
        flows.iter().any(|f| {
            f.destination == *key.destination.ip()
                && f.port == key.destination.port()
                && f.peer.is_none_or(|p| p == key.source)
        })
    }

    fn takers(demux: &Demux<usize>, key: &Record, joined: bool) -> Vec<usize> {
        if key.destination.ip().is_multicast() {
            let joined = || joined;
            demux
                .each_multicast(key, &joined)
                .map(|e| e.target)
                .collect()
        } else {
            demux.best(key).map(|e| e.target).into_iter().collect()
        }
    }

    proptest! {
        /// Whatever somebody would take is brought; whatever is brought somebody wants,
        /// from this sender or (rules by three values) from another.
        #[test]
        fn flows_bring_what_sockets_take(
            list in proptest::collection::vec(wants(), 0..6),
            host in proptest::collection::btree_set(1..4u8, 0..3),
            any_peer in any::<bool>(),
        ) {
            let mut demux = Demux::default();
            for (target, w) in list.iter().enumerate() {
                let wants = Arc::new(w.clone());
                let place = Place::Here;
                let _ = demux.put(Entry { target, wants, place }, |t| *t == target);
            }
            let groups: Vec<_> = host.iter().copied().map(group).collect();
            let addresses = [address(1), address(2)];
            let scope = Scope {
                addresses: &addresses,
                groups: &groups,
                delivery: Delivery::Steered,
                any_peer,
            };
            let flows = flows(demux.entries(), IFINDEX, &scope, &|_, _| false);
            let mut sorted = flows.clone();
            sorted.sort_unstable();
            sorted.dedup();
            prop_assert_eq!(&flows, &sorted);
            let destinations = addresses.into_iter().chain((1..4).map(group));
            for destination in destinations {
                let member = groups.contains(&destination);
                for port in 1..4u16 {
                    let mut wanted_by_any = false;
                    let mut brought_by_any = false;
                    for from in 1..4u8 {
                        let key = Record {
                            source: peer(from),
                            destination: SocketAddrV4::new(destination, port),
                            ifindex: IFINDEX,
                            ttl: 1,
                            tos: 0,
                            timestamp: 1,
                            asked: 0,
                            drops: 0,
                        };
                        let taken = !takers(&demux, &key, member).is_empty();
                        let brings = brought(&flows, &key);
                        prop_assert!(brings || !taken, "{key:?} is not brought");
                        if !any_peer && !destination.is_multicast() {
                            prop_assert_eq!(brings, taken, "{:?}", key);
                        }
                        wanted_by_any |= taken;
                        brought_by_any |= brings;
                    }
                    prop_assert_eq!(wanted_by_any, brought_by_any, "{}:{}", destination, port);
                }
            }
        }
    }
}
