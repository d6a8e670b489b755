//! The kernel's state as far as the engine needs it: (event) → state.
//!
//! Owns interfaces with their addresses, valid neighbours, and the host's groups. Pure:
//! no socket, no clock. Each event says whether it changed anything that a header
//! template, a filter or a membership could depend on.

use super::event::Event;
use super::group::Membership;
use super::interface::{Interface, InterfaceAddress};
use super::neighbor::{Neighbor, NeighborState};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::ops::{BitOr, BitOrAssign};

/// What has changed; a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes(u8);

impl Changes {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// An interface came, went, or is not what it was.
    pub const LINKS: Self = Self(1);
    /// An address came or went.
    pub const ADDRESSES: Self = Self(1 << 1);
    /// A route, rule or next hop: answers of the route client may be out of date.
    pub const ROUTES: Self = Self(1 << 2);
    /// A neighbour became valid or invalid, or has another link-layer address. Changes
    /// between valid states are not counted.
    pub const NEIGHBORS: Self = Self(1 << 3);
    /// The host joined or left a group.
    pub const GROUPS: Self = Self(1 << 4);
    /// Everything: events were lost and the tables are new.
    pub const ALL: Self = Self(0x1f);

    /// Whether any of `other` is in it.
    #[must_use]
    pub fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Changes {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Changes {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Interfaces, neighbours and groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    interfaces: BTreeMap<u32, Interface>,
    neighbors: BTreeMap<(u32, Ipv4Addr), Neighbor>,
    groups: BTreeSet<Membership>,
}

impl Tables {
    /// Empty ones.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes an event in. The same event twice changes nothing the second time.
    pub fn apply(&mut self, event: Event) -> Changes {
        match event {
            Event::Link(link) => self.set_link(link),
            Event::LinkGone(index) => self.remove_link(index),
            Event::Address(index, address) => self.set_address(index, address),
            Event::AddressGone(index, addr, prefix) => self.remove_address(index, addr, prefix),
            Event::Neighbor(index, addr, state, mac) => {
                let valid = mac
                    .filter(|_| state.is_valid())
                    .map(|mac| Neighbor { mac, state });
                self.set_neighbor(index, addr, valid)
            }
            Event::NeighborGone(index, addr) => self.set_neighbor(index, addr, None),
            Event::Joined(membership) => changed(self.groups.insert(membership), Changes::GROUPS),
            Event::Left(membership) => changed(self.groups.remove(&membership), Changes::GROUPS),
            Event::Routes => Changes::ROUTES,
        }
    }

    /// Every interface, by index.
    pub fn interfaces(&self) -> impl Iterator<Item = &Interface> {
        self.interfaces.values()
    }

    /// The interface with an index.
    #[must_use]
    pub fn interface(&self, index: u32) -> Option<&Interface> {
        self.interfaces.get(&index)
    }

    /// The interface with a name.
    #[must_use]
    pub fn interface_by_name(&self, name: &str) -> Option<&Interface> {
        self.interfaces
            .values()
            .find(|interface| interface.name == name)
    }

    /// The interface that has an address; the one with the lowest index, if several.
    #[must_use]
    pub fn interface_by_address(&self, addr: Ipv4Addr) -> Option<&Interface> {
        self.interfaces.values().find(|interface| {
            interface
                .addresses
                .iter()
                .any(|address| address.addr == addr)
        })
    }

    /// Whether datagrams to `addr` are for this host: an address of any interface, or in
    /// a network of a loopback interface (`fib_add_ifaddr`). Local routes made by hand
    /// are the route client's to find.
    #[must_use]
    pub fn is_local(&self, addr: Ipv4Addr) -> bool {
        self.interfaces.values().any(|interface| {
            interface.addresses.iter().any(|address| {
                address.addr == addr || (interface.loopback && address.contains(addr))
            })
        })
    }

    /// Whether the kernel takes `addr` as a broadcast address, on whatever interface.
    #[must_use]
    pub fn is_broadcast(&self, addr: Ipv4Addr) -> bool {
        addr.is_broadcast()
            || self.interfaces.values().any(|interface| {
                interface
                    .addresses
                    .iter()
                    .any(|address| address.is_broadcast(addr))
            })
    }

    /// The link-layer address of a neighbour, if the kernel would send to it now.
    #[must_use]
    pub fn neighbor(&self, ifindex: u32, addr: Ipv4Addr) -> Option<[u8; 6]> {
        self.neighbors
            .get(&(ifindex, addr))
            .map(|neighbor| neighbor.mac)
    }

    /// The state of a neighbour, if it is a valid one.
    #[must_use]
    pub fn neighbor_state(&self, ifindex: u32, addr: Ipv4Addr) -> Option<NeighborState> {
        self.neighbors
            .get(&(ifindex, addr))
            .map(|neighbor| neighbor.state)
    }

    /// Whether any socket of the host, or the kernel itself, has joined a group there.
    #[must_use]
    pub fn host_joined(&self, ifindex: u32, group: Ipv4Addr) -> bool {
        self.groups.contains(&Membership { ifindex, group })
    }

    /// Every group of the host.
    pub fn memberships(&self) -> impl Iterator<Item = Membership> + '_ {
        self.groups.iter().copied()
    }

    /// Replaces the groups, for kernels that announce no changes.
    pub fn set_memberships(&mut self, groups: impl IntoIterator<Item = Membership>) -> Changes {
        let groups = groups.into_iter().collect();
        changed(
            std::mem::replace(&mut self.groups, groups) != self.groups,
            Changes::GROUPS,
        )
    }

    fn set_link(&mut self, mut link: Interface) -> Changes {
        let known = self.interfaces.get_mut(&link.index);
        if let Some(known) = known {
            link.addresses = std::mem::take(&mut known.addresses);
            let differs = *known
                != Interface {
                    addresses: Vec::new(),
                    ..link.clone()
                };
            *known = link;
            return changed(differs, Changes::LINKS);
        }
        self.interfaces.insert(link.index, link);
        Changes::LINKS
    }

    fn remove_link(&mut self, index: u32) -> Changes {
        let Some(interface) = self.interfaces.remove(&index) else {
            return Changes::NONE;
        };
        let neighbors = self.neighbors.len();
        let groups = self.groups.len();
        self.neighbors.retain(|(ifindex, _), _| *ifindex != index);
        self.groups.retain(|membership| membership.ifindex != index);
        Changes::LINKS
            | changed(!interface.addresses.is_empty(), Changes::ADDRESSES)
            | changed(neighbors != self.neighbors.len(), Changes::NEIGHBORS)
            | changed(groups != self.groups.len(), Changes::GROUPS)
    }

    fn set_address(&mut self, index: u32, address: InterfaceAddress) -> Changes {
        let Some(interface) = self.interfaces.get_mut(&index) else {
            return Changes::NONE;
        };
        let same = |a: &&mut InterfaceAddress| a.addr == address.addr && a.prefix == address.prefix;
        match interface.addresses.iter_mut().find(same) {
            Some(known) if *known == address => return Changes::NONE,
            Some(known) => *known = address,
            None => interface.addresses.push(address),
        }
        Changes::ADDRESSES
    }

    fn remove_address(&mut self, index: u32, addr: Ipv4Addr, prefix: u8) -> Changes {
        let Some(interface) = self.interfaces.get_mut(&index) else {
            return Changes::NONE;
        };
        let before = interface.addresses.len();
        interface
            .addresses
            .retain(|a| a.addr != addr || a.prefix != prefix);
        changed(before != interface.addresses.len(), Changes::ADDRESSES)
    }

    fn set_neighbor(&mut self, index: u32, addr: Ipv4Addr, to: Option<Neighbor>) -> Changes {
        let before = match to {
            Some(neighbor) => self.neighbors.insert((index, addr), neighbor),
            None => self.neighbors.remove(&(index, addr)),
        };
        let mac = |neighbor: Option<Neighbor>| neighbor.map(|neighbor| neighbor.mac);
        changed(mac(before) != mac(to), Changes::NEIGHBORS)
    }
}

fn changed(really: bool, what: Changes) -> Changes {
    if really { what } else { Changes::NONE }
}

#[cfg(test)]
mod tests;
