//! Which sockets get a datagram. Linux's rule (`net/ipv4/udp.c`), not ours:
//! unicast to the best match, multicast to every match.
//!
//! Pure: a [`Demux`] is an immutable picture that the control plane replaces as a whole.

use super::groups::Groups;
use crate::ring::Record;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// What a socket wants.
#[derive(Clone, Debug)]
pub struct Wants {
    /// Bound port.
    pub port: u16,
    /// Bound address; 0.0.0.0 for any.
    pub local: Ipv4Addr,
    /// Connected peer.
    pub peer: Option<SocketAddrV4>,
    /// SO_BINDTODEVICE; 0 for none.
    pub device: u32,
    /// AF_INET: preferred over AF_INET6 at equal rank.
    pub family_v4: bool,
    /// Unicast comes to the engine (else the kernel socket gets it).
    pub unicast: bool,
    /// IP_MULTICAST_ALL.
    pub multicast_all: bool,
    /// Memberships.
    pub groups: Groups,
    /// Frames older than this (CLOCK_REALTIME, ns) went to the kernel socket.
    pub since: u64,
}

/// A socket and what it wants.
#[derive(Clone, Debug)]
pub struct Entry<T> {
    /// The socket.
    pub target: T,
    /// What it wants.
    pub wants: Arc<Wants>,
}

impl Wants {
    #[inline]
    fn peer_and_device_fit(&self, key: &Record) -> bool {
        self.peer.is_none_or(|p| p == key.source)
            && (self.device == 0 || self.device == key.ifindex)
            && key.timestamp >= self.since
    }

    /// `compute_score` of the kernel; None: no match.
    #[inline(always)]
    fn unicast_score(&self, key: &Record) -> Option<u32> {
        if !self.unicast || !self.peer_and_device_fit(key) {
            return None;
        }
        // An exact address is looked for first and beats any wildcard.
        let address = match self.local {
            any if any.is_unspecified() => 0,
            exact if exact == *key.destination.ip() => 32,
            _ => return None,
        };
        let peer = if self.peer.is_some() { 8 } else { 0 };
        let device = if self.device == 0 { 0 } else { 4 };
        Some(address + peer + device + u32::from(self.family_v4) + 1)
    }

    /// `__udp_is_mcast_sock` of the kernel.
    fn takes_multicast(&self, key: &Record, joined: impl FnOnce() -> bool) -> bool {
        let group = *key.destination.ip();
        (self.local.is_unspecified() || self.local == group)
            && self.peer_and_device_fit(key)
            && self.groups.takes(
                group,
                *key.source.ip(),
                key.ifindex,
                self.multicast_all,
                joined,
            )
    }
}

/// A picture of all accelerated sockets, by port.
#[derive(Clone, Debug)]
pub struct Demux<T> {
    /// Open addressing by port; length a power of two, at least twice the ports.
    index: Vec<(u16, u16, u16)>,
    entries: Vec<Entry<T>>,
}

impl<T> Default for Demux<T> {
    fn default() -> Self {
        Self {
            index: vec![(0, 0, 0); 2],
            entries: Vec::new(),
        }
    }
}

#[inline]
fn slot_of(port: u16, mask: usize) -> usize {
    (usize::from(port).wrapping_mul(0x9e37_79b1) >> 8) & mask
}

impl<T> Demux<T> {
    /// Builds the picture; entries of one port keep their order.
    #[must_use]
    pub fn new(mut entries: Vec<Entry<T>>) -> Self {
        entries.sort_by_key(|e| e.wants.port);
        let size = (entries.len() * 2 + 2).next_power_of_two();
        let mut index = vec![(0u16, 0u16, 0u16); size];
        let mut start = 0;
        while start < entries.len() {
            let port = entries[start].wants.port;
            let end = start
                + entries[start..]
                    .iter()
                    .take_while(|e| e.wants.port == port)
                    .count();
            let mut at = slot_of(port, size - 1);
            while index[at].0 != 0 {
                at = (at + 1) & (size - 1);
            }
            index[at] = (port, start as u16, end as u16);
            start = end;
        }
        Self { index, entries }
    }

    /// The sockets of a port.
    #[inline(always)]
    #[must_use]
    pub fn port(&self, port: u16) -> &[Entry<T>] {
        let mask = self.index.len() - 1;
        let mut at = slot_of(port, mask);
        loop {
            let (p, start, end) = self.index[at];
            if p == port {
                return self
                    .entries
                    .get(usize::from(start)..usize::from(end))
                    .unwrap_or(&[]);
            }
            if p == 0 {
                return &[];
            }
            at = (at + 1) & mask;
        }
    }

    /// Every port that somebody wants, each once.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        self.index.iter().map(|i| i.0).filter(|p| *p != 0).collect()
    }

    /// All entries.
    #[must_use]
    pub fn entries(&self) -> &[Entry<T>] {
        &self.entries
    }

    /// The one socket for a unicast datagram; of equals the last.
    #[inline(always)]
    #[must_use]
    pub fn best(&self, key: &Record) -> Option<&Entry<T>> {
        let list = self.port(key.destination.port());
        if let [only] = list {
            return only.wants.unicast_score(key).map(|_| only);
        }
        list.iter()
            .filter_map(|e| e.wants.unicast_score(key).map(|s| (s, e)))
            .max_by_key(|(score, _)| *score)
            .map(|(_, entry)| entry)
    }

    /// Every socket for a multicast datagram. `joined` says whether the host is a member
    /// of the group on the interface.
    #[inline]
    pub fn each_multicast<'a>(
        &'a self,
        key: &'a Record,
        joined: &'a dyn Fn() -> bool,
    ) -> impl Iterator<Item = &'a Entry<T>> {
        self.port(key.destination.port())
            .iter()
            .filter(move |e| e.wants.takes_multicast(key, joined))
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::{Change, Via};
    use super::*;

    const ME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 0, 0, 1);

    fn wants(port: u16) -> Wants {
        Wants {
            port,
            local: Ipv4Addr::UNSPECIFIED,
            peer: None,
            device: 0,
            family_v4: true,
            unicast: true,
            multicast_all: true,
            groups: Groups::default(),
            since: 0,
        }
    }

    fn demux(list: Vec<Wants>) -> Demux<usize> {
        Demux::new(
            list.into_iter()
                .enumerate()
                .map(|(target, w)| Entry {
                    target,
                    wants: Arc::new(w),
                })
                .collect(),
        )
    }

    fn key(destination: Ipv4Addr, port: u16) -> Record {
        Record {
            ttl: 1,
            tos: 0,
            source: SocketAddrV4::new(PEER, 5),
            destination: SocketAddrV4::new(destination, port),
            ifindex: 2,
            timestamp: 10,
        }
    }

    fn best(d: &Demux<usize>, k: Record) -> Option<usize> {
        d.best(&k).map(|e| e.target)
    }

    #[test]
    fn connected_beats_address_beats_wildcard() {
        let any = wants(7);
        let exact = Wants {
            local: ME,
            ..wants(7)
        };
        let connected = Wants {
            local: ME,
            peer: Some(SocketAddrV4::new(PEER, 5)),
            ..wants(7)
        };
        let other = Wants {
            local: ME,
            peer: Some(SocketAddrV4::new(PEER, 6)),
            ..wants(7)
        };
        let d = demux(vec![any.clone(), exact.clone(), connected, other]);
        assert_eq!(best(&d, key(ME, 7)), Some(2));
        assert_eq!(best(&demux(vec![exact, any.clone()]), key(ME, 7)), Some(0));
        assert_eq!(best(&demux(vec![any]), key(ME, 8)), None);
    }

    #[test]
    fn device_and_age_decide() {
        let bound = Wants {
            device: 3,
            ..wants(7)
        };
        assert_eq!(best(&demux(vec![bound]), key(ME, 7)), None);
        let young = Wants {
            since: 11,
            ..wants(7)
        };
        assert_eq!(best(&demux(vec![young]), key(ME, 7)), None);
        let kernel_only = Wants {
            unicast: false,
            ..wants(7)
        };
        assert_eq!(best(&demux(vec![kernel_only]), key(ME, 7)), None);
    }

    #[test]
    fn multicast_reaches_every_member_once() {
        let mut groups = Groups::default();
        let via = Via {
            ifindex: 2,
            by_index: true,
            address: Ipv4Addr::UNSPECIFIED,
        };
        groups.apply(&Change::Join(GROUP, via));
        let member = Wants {
            groups,
            multicast_all: false,
            ..wants(7)
        };
        let stranger = Wants {
            multicast_all: false,
            ..wants(7)
        };
        let any = wants(7);
        let elsewhere = Wants {
            local: ME,
            ..wants(7)
        };
        let d = demux(vec![member.clone(), stranger, any, elsewhere, member]);
        let hit = |joined: bool| -> Vec<usize> {
            d.each_multicast(&key(GROUP, 7), &|| joined)
                .map(|e| e.target)
                .collect()
        };
        assert_eq!(hit(true), [0, 2, 4]);
        assert_eq!(hit(false), [0, 4]);
    }

    #[test]
    fn many_ports_are_all_found() {
        let d = demux((1..=500).map(|p| wants(p * 7)).collect());
        for p in 1..=500 {
            assert_eq!(d.port(p * 7).len(), 1);
            assert_eq!(d.port(p * 7 + 1).len(), 0);
        }
        assert_eq!(d.ports().len(), 500);
    }
}
