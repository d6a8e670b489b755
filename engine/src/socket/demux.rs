//! Which sockets get a datagram. Linux's rule (`net/ipv4/udp.c`), not ours:
//! unicast to the best match, multicast to every match.
//!
//! Pure: what a [`Demux`] says depends on what was put into it alone.

use super::groups::Groups;
use crate::ring::Record;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

/// What a socket wants.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// Which ring of an interface brings a socket its datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This one.
    Here,
    /// Another one; here it is known as a rival of others of its port.
    Elsewhere,
    /// This one, for what was stamped before (CLOCK_REALTIME, ns).
    Until(u64),
    /// This one for the rest; the number of the ring before.
    Since(u64, u32),
}

/// A socket and what it wants.
#[derive(Clone, Debug)]
pub struct Entry<T> {
    /// The socket.
    pub target: T,
    /// What it wants.
    pub wants: Arc<Wants>,
    /// Whether it gets it from this ring.
    pub place: Place,
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

    /// The same for a broadcast, which needs no membership.
    pub(super) fn takes_broadcast(&self, key: &Record) -> bool {
        self.unicast && self.local.is_unspecified() && self.peer_and_device_fit(key)
    }

    /// `__udp_is_mcast_sock` of the kernel.
    pub(super) fn takes_multicast(&self, key: &Record, joined: impl FnOnce() -> bool) -> bool {
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

/// The sockets of a port; the first, mostly the only one, needs no second look-up.
#[derive(Clone, Debug)]
struct Bucket<T> {
    first: Entry<T>,
    rest: Vec<Entry<T>>,
}

impl<T> Bucket<T> {
    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

/// All sockets that a ring may have something for, by port. Changed in place, so that one
/// more socket costs the same however many there are.
#[derive(Clone, Debug)]
pub struct Demux<T> {
    /// By port: its bucket's number and one; 0: nobody wants it. Memory that is never
    /// touched is never there.
    index: Box<[u16]>,
    buckets: Vec<Option<Bucket<T>>>,
    free: Vec<u16>,
}

impl<T> Default for Demux<T> {
    fn default() -> Self {
        Self {
            index: vec![0; 1 << 16].into_boxed_slice(),
            buckets: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Demux<T> {
    #[inline(always)]
    fn bucket(&self, port: u16) -> Option<&Bucket<T>> {
        let number = usize::from(self.index[usize::from(port)]);
        self.buckets.get(number.wrapping_sub(1))?.as_ref()
    }

    fn bucket_mut(&mut self, port: u16) -> Option<&mut Bucket<T>> {
        let number = usize::from(self.index[usize::from(port)]);
        self.buckets.get_mut(number.wrapping_sub(1))?.as_mut()
    }

    /// Puts an entry in the place of the one that `is` the same socket's, which it
    /// returns, or behind the others of its port.
    pub fn put(&mut self, entry: Entry<T>, is: impl Fn(&T) -> bool) -> Option<Entry<T>> {
        let port = entry.wants.port;
        if let Some(bucket) = self.bucket_mut(port) {
            if is(&bucket.first.target) {
                return Some(std::mem::replace(&mut bucket.first, entry));
            }
            if let Some(place) = bucket.rest.iter_mut().find(|e| is(&e.target)) {
                return Some(std::mem::replace(place, entry));
            }
            bucket.rest.push(entry);
            return None;
        }
        let bucket = Some(Bucket {
            first: entry,
            rest: Vec::new(),
        });
        let number = match self.free.pop() {
            Some(number) => {
                self.buckets[usize::from(number)] = bucket;
                number
            }
            None => {
                self.buckets.push(bucket);
                // Port 0 is nobody's, so a bucket's number and one fit.
                (self.buckets.len() - 1) as u16
            }
        };
        self.index[usize::from(port)] = number + 1;
        None
    }

    /// Changes where a socket of a port gets its datagrams from.
    pub fn set_place(&mut self, port: u16, is: impl Fn(&T) -> bool, place: Place) {
        if let Some(bucket) = self.bucket_mut(port) {
            let first = std::iter::once(&mut bucket.first);
            for entry in first.chain(&mut bucket.rest).filter(|e| is(&e.target)) {
                entry.place = place;
            }
        }
    }

    /// Takes the entry that `is` the socket's from a port; the others keep their order.
    pub fn remove(&mut self, port: u16, is: impl Fn(&T) -> bool) {
        let Some(bucket) = self.bucket_mut(port) else {
            return;
        };
        if let Some(at) = bucket.rest.iter().position(|e| is(&e.target)) {
            bucket.rest.remove(at);
        } else if is(&bucket.first.target) {
            if bucket.rest.is_empty() {
                let _ = self.clear_port(port);
            } else {
                bucket.first = bucket.rest.remove(0);
            }
        }
    }

    /// These are the entries of a port; those of before.
    pub fn set_port(&mut self, port: u16, entries: Vec<Entry<T>>) -> Vec<Entry<T>> {
        let before = self.clear_port(port);
        for entry in entries {
            let _ = self.put(entry, |_| false);
        }
        before
    }

    /// Nobody wants a port any more; who did.
    pub fn clear_port(&mut self, port: u16) -> Vec<Entry<T>> {
        let number = std::mem::take(&mut self.index[usize::from(port)]);
        if number == 0 {
            return Vec::new();
        }
        self.free.push(number - 1);
        let bucket = self.buckets[usize::from(number - 1)].take();
        bucket.map_or_else(Vec::new, |b| {
            std::iter::once(b.first).chain(b.rest).collect()
        })
    }

    /// Somebody wants this port.
    #[must_use]
    pub fn has(&self, port: u16) -> bool {
        self.index[usize::from(port)] != 0
    }

    /// Number of ports that somebody wants.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buckets.len() - self.free.len()
    }

    /// Nobody wants anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries, those of a port in their order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry<T>> {
        self.buckets.iter().flatten().flat_map(Bucket::iter)
    }

    /// The sockets of a port.
    pub fn port(&self, port: u16) -> impl Iterator<Item = &Entry<T>> {
        self.bucket(port).into_iter().flat_map(Bucket::iter)
    }

    /// The entry of a port whose target `is` the one looked for.
    #[inline(always)]
    pub(super) fn find(&self, port: u16, is: impl Fn(&T) -> bool) -> Option<&Entry<T>> {
        let bucket = self.bucket(port)?;
        if is(&bucket.first.target) {
            return Some(&bucket.first);
        }
        bucket.rest.iter().find(|e| is(&e.target))
    }

    /// The one socket for a unicast datagram; of equals the last.
    #[inline(always)]
    #[must_use]
    pub fn best(&self, key: &Record) -> Option<&Entry<T>> {
        let bucket = self.bucket(key.destination.port())?;
        if bucket.rest.is_empty() {
            let only = &bucket.first;
            return only.wants.unicast_score(key).map(|_| only);
        }
        bucket
            .iter()
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

    fn here(target: usize, wants: Arc<Wants>) -> Entry<usize> {
        let place = Place::Here;
        Entry {
            target,
            wants,
            place,
        }
    }

    fn demux(list: Vec<Wants>) -> Demux<usize> {
        let mut demux = Demux::default();
        for (target, w) in list.into_iter().enumerate() {
            let wants = Arc::new(w);
            let _ = demux.put(here(target, wants), |t| *t == target);
        }
        demux
    }

    fn key(destination: Ipv4Addr, port: u16) -> Record {
        Record {
            ttl: 1,
            tos: 0,
            source: SocketAddrV4::new(PEER, 5),
            destination: SocketAddrV4::new(destination, port),
            ifindex: 2,
            timestamp: 10,
            asked: 0,
            drops: 0,
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
            assert_eq!(d.port(p * 7).count(), 1);
            assert_eq!(d.port(p * 7 + 1).count(), 0);
        }
        assert_eq!(d.entries().count(), 500);
        assert_eq!(d.len(), 500);
    }

    #[test]
    fn every_port_at_once() {
        let mut d = demux((1..=u16::MAX).map(wants).collect());
        assert_eq!(d.len(), 65_535);
        for p in 1..=u16::MAX {
            assert_eq!(d.best(&key(ME, p)).map(|e| e.wants.port), Some(p));
            let _ = d.clear_port(p);
        }
        assert!(d.is_empty());
    }

    use proptest::prelude::*;

    proptest! {
        /// Against a list of (port, socket) in the order of arrival.
        #[test]
        fn changes_in_place_as_a_list(ops in prop::collection::vec((0u8..3, 1u16..5, 0usize..6), 1..200)) {
            let mut d: Demux<usize> = Demux::default();
            let mut model: Vec<(u16, usize)> = Vec::new();
            for (op, port, target) in ops {
                match op {
                    0 => {
                        let wants = Arc::new(wants(port));
                        let before = d.put(here(target, wants), |t| *t == target);
                        prop_assert_eq!(before.is_some(), model.contains(&(port, target)));
                        if !model.contains(&(port, target)) {
                            model.push((port, target));
                        }
                    }
                    1 => {
                        d.remove(port, |t| *t == target);
                        model.retain(|m| *m != (port, target));
                    }
                    _ => {
                        let _ = d.clear_port(port);
                        model.retain(|m| m.0 != port);
                    }
                }
                for port in 1..5 {
                    let got: Vec<usize> = d.port(port).map(|e| e.target).collect();
                    let want: Vec<usize> =
                        model.iter().filter(|m| m.0 == port).map(|m| m.1).collect();
                    prop_assert_eq!(d.has(port), !want.is_empty());
                    prop_assert_eq!(best(&d, key(ME, port)), want.last().copied());
                    prop_assert_eq!(got, want);
                }
                let mut ports: Vec<u16> = model.iter().map(|m| m.0).collect();
                ports.sort_unstable();
                ports.dedup();
                prop_assert_eq!(d.len(), ports.len());
            }
        }
    }
}
