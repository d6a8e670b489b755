//! Who is attached to which rings, by port, and every socket of the process.
//!
//! Behind the core's directory lock. Costs of a change do not grow with the number of
//! sockets, only with how many share one port.

use super::demux::{Place, Wants};
use super::udp::UdpSocket;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Weak};

/// Closed sockets are swept out when the list has grown to this, then to twice its rest.
const SWEEP: usize = 64;

/// A socket changes from a ring of an interface to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) from: u32,
    pub(super) to: u32,
    /// What was stamped before (CLOCK_REALTIME, ns) is the old one's; the maximum: not yet.
    pub(super) at: u64,
}

/// A socket on the engine.
#[derive(Clone, Debug)]
pub(super) struct Attached {
    pub(super) socket: Arc<UdpSocket>,
    pub(super) wants: Arc<Wants>,
    /// Rings that bring its datagrams.
    pub(super) mask: u64,
    /// Those of them that it is changing.
    pub(super) moves: Vec<Move>,
    /// Inode of the kernel socket.
    pub(super) inode: u64,
}

impl Attached {
    /// Bits of the rings that it is about to leave.
    pub(super) fn left(&self) -> u64 {
        self.moves
            .iter()
            .fold(0, |mask, step| mask | 1 << step.from)
    }

    /// What a ring of one of its interfaces is to it.
    pub(super) fn place(&self, ring: u32) -> Place {
        for step in &self.moves {
            if step.from == ring {
                return Place::Until(step.at);
            }
            if step.to == ring {
                return Place::Since(step.at, step.from);
            }
        }
        if self.mask & 1 << ring != 0 {
            Place::Here
        } else {
            Place::Elsewhere
        }
    }

    pub(super) fn is(&self, socket: &UdpSocket) -> bool {
        std::ptr::eq(&*self.socket, socket)
    }
}

/// Sockets of the process, attached and not.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    /// By port, oldest first.
    ports: HashMap<u16, Vec<Attached>>,
    /// Port of an attached socket, by its address.
    places: HashMap<usize, u16>,
    /// Memberships of attached sockets, counted.
    groups: HashMap<(u32, Ipv4Addr), usize>,
    all: Vec<Weak<UdpSocket>>,
    sweep_at: usize,
}

fn key(socket: &UdpSocket) -> usize {
    std::ptr::from_ref(socket) as usize
}

impl Sockets {
    /// A new socket of the process.
    pub(super) fn add(&mut self, socket: &Arc<UdpSocket>) {
        if self.all.len() >= self.sweep_at.max(SWEEP) {
            self.all.retain(|s| s.strong_count() > 0);
            self.sweep_at = self.all.len() * 2;
        }
        self.all.push(Arc::downgrade(socket));
    }

    /// Every socket of the process.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<UdpSocket>> {
        self.all.iter().filter_map(Weak::upgrade)
    }

    /// Every attached socket.
    pub(super) fn attached(&self) -> impl Iterator<Item = &Attached> {
        self.ports.values().flatten()
    }

    /// The attached sockets of a port.
    pub(super) fn port(&self, port: u16) -> &[Attached] {
        self.ports.get(&port).map_or(&[], Vec::as_slice)
    }

    /// An attached socket.
    pub(super) fn find(&self, socket: &UdpSocket) -> Option<&Attached> {
        let port = self.places.get(&key(socket))?;
        self.port(*port).iter().find(|a| a.is(socket))
    }

    /// A socket is attached, or differently from before: then its place among those of
    /// its port stays. What there was before.
    pub(super) fn put(&mut self, entry: Attached) -> Option<Attached> {
        let port = entry.wants.port;
        self.count_groups(&entry.wants, true);
        if self.places.get(&key(&entry.socket)) == Some(&port)
            && let Some(list) = self.ports.get_mut(&port)
            && let Some(place) = list.iter_mut().find(|a| a.is(&entry.socket))
        {
            let before = std::mem::replace(place, entry);
            self.count_groups(&before.wants, false);
            return Some(before);
        }
        let before = self.remove(&entry.socket);
        self.places.insert(key(&entry.socket), port);
        self.ports.entry(port).or_default().push(entry);
        before
    }

    /// A socket is the kernel's again.
    pub(super) fn remove(&mut self, socket: &UdpSocket) -> Option<Attached> {
        let port = self.places.remove(&key(socket))?;
        let list = self.ports.get_mut(&port)?;
        let at = list.iter().position(|a| a.is(socket))?;
        let gone = list.remove(at);
        if list.is_empty() {
            self.ports.remove(&port);
        }
        self.count_groups(&gone.wants, false);
        Some(gone)
    }

    /// Nobody is attached any more.
    pub(super) fn clear(&mut self) {
        self.ports.clear();
        self.places.clear();
        self.groups.clear();
    }

    /// An attached socket is a member of a group on an interface.
    pub(super) fn has_member(&self, ifindex: u32, group: Ipv4Addr) -> bool {
        self.groups.contains_key(&(ifindex, group))
    }

    fn count_groups(&mut self, wants: &Wants, up: bool) {
        for member in wants.groups.members() {
            let at = (member.ifindex, member.group);
            let count = self.groups.entry(at).or_default();
            if up {
                *count += 1;
            } else {
                *count -= 1;
                if *count == 0 {
                    self.groups.remove(&at);
                }
            }
        }
    }
}
