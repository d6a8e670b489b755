//! How a destination is reached: the kernel is asked, the answer becomes finished headers.

use super::control::Control;
use super::core::Core;
use super::send::{Route, RouteKey};
use super::udp::{Family, UdpSocket};
use crate::config::Role;
use crate::error::Errno;
use crate::net::{RouteKind, RouteQuery};
use crate::sys::event;
use crate::sys::mutex::{Mutex, MutexGuard};
use crate::wire::{HeaderTemplate, TemplateSpec, multicast_mac};
use std::net::Ipv4Addr;

/// Next hops that are kept fresh; with more of them in use the oldest are left to the kernel.
const FRESH: usize = 1024;
/// How often a send looks whether its socket is free to be read.
const TURNS: usize = 1000;

impl Core {
    /// The interface of a membership request that names none by index.
    pub(super) fn membership_interface(&self, group: Ipv4Addr, address: Ipv4Addr) -> u32 {
        if !address.is_unspecified() {
            let tables = self.tables.read();
            return tables.interface_by_address(address).map_or(0, |i| i.index);
        }
        let query = RouteQuery::to(group);
        self.ask_route(&query).map_or(0, |r| r.oif)
    }

    fn ask_route(&self, query: &RouteQuery) -> Result<crate::net::Route, Errno> {
        match self.routes.lock().as_mut() {
            Some(client) => client.resolve(query),
            None => Err(Errno(libc::ENETUNREACH)),
        }
    }

    /// Asks the kernel to keep an entry that it cannot see us use.
    pub fn refresh_neighbors(&self) {
        let used = self.neighbors.lock().clone();
        if let Some(client) = self.routes.lock().as_mut() {
            for (ifindex, address) in used {
                let _ = client.refresh_neighbor(ifindex, address);
            }
        }
    }

    /// How to reach a destination; a route without a ring is the kernel's. None: the socket
    /// is being changed just now, perhaps by the very call that a signal handler interrupted.
    pub(super) fn resolve(&self, socket: &UdpSocket, key: &RouteKey) -> Option<Route> {
        let kernel = || Route {
            ring: None,
            template: HeaderTemplate::new(&TemplateSpec {
                src_mac: [0; 6],
                dst_mac: [0; 6],
                src: key.destination,
                dst: key.destination,
                ttl: 0,
                tos: 0,
                dont_fragment: false,
                udp_checksum: false,
            }),
            mtu: 0,
            ip_id: 0,
        };
        let control = patient(&socket.control)?.clone();
        Some(
            self.resolve_for(socket, &control, key)
                .unwrap_or_else(kernel),
        )
    }

    fn resolve_for(&self, socket: &UdpSocket, control: &Control, key: &RouteKey) -> Option<Route> {
        let dst = *key.destination.ip();
        let local = UdpSocket::local_v4(control).ok()?;
        if key.destination.port() == 0 || dst.is_unspecified() || dst.is_loopback() {
            return None;
        }
        if self.ruled_out(Role::UdpSender, local, Some(key.destination)) {
            return None;
        }
        let options = key.control.unwrap_or_default();
        let multicast = dst.is_multicast();
        let bound = Some(*local.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
        let mut source = options.source.filter(|s| !s.is_unspecified()).or(bound);
        if source.is_none()
            && local.ip().is_multicast()
            && (socket.family == Family::V6 || control.had_peer)
        {
            // Linux takes the group for the source there, which is EINVAL, and here the one that
            // the first connect chose.
            return None;
        }
        let mut oif = options
            .ifindex
            .filter(|i| *i != 0)
            .unwrap_or(control.device);
        if multicast {
            if oif == 0 {
                oif = control.multicast_if;
            }
            if source.is_none() && !control.multicast_source.is_unspecified() {
                source = Some(control.multicast_source);
            }
        } else if oif == 0 {
            oif = control.unicast_if;
        }
        let tos = options.tos.unwrap_or(control.tos);
        let route = self
            .ask_route(&RouteQuery {
                src: source,
                oif: Some(oif).filter(|i| *i != 0),
                tos,
                mark: control.mark,
                sport: local.port(),
                dport: key.destination.port(),
                ..RouteQuery::to(dst)
            })
            .ok()?;
        let ttl = match (options.ttl, multicast) {
            (Some(ttl), _) => ttl,
            (None, true) => control.multicast_ttl,
            (None, false) => match route.hop_limit {
                Some(hops) if !control.ttl_set => hops,
                _ => control.ttl,
            },
        };
        // Before the tables are locked: the directory's lock comes first.
        let own_member = multicast && self.has_member(route.oif, dst);
        let tables = self.tables.read();
        // Loopback is the kernel's to send on: it knows who listens.
        let interface = tables.interface(route.oif);
        let interface = interface.filter(|i| !i.loopback && i.running)?;
        let dst_mac = match route.kind {
            RouteKind::Multicast if multicast && ttl > 0 => {
                // With members on this host the kernel sends: it feeds them and the wire.
                if control.multicast_loop && (own_member || tables.host_joined(route.oif, dst)) {
                    return None;
                }
                multicast_mac(dst)
            }
            RouteKind::Unicast if !multicast && ttl > 0 => {
                let hop = route.gateway.unwrap_or(dst);
                let mut used = self.neighbors.lock();
                if !used.contains(&(route.oif, hop)) {
                    if used.len() == FRESH {
                        used.remove(0);
                    }
                    used.push((route.oif, hop));
                }
                drop(used);
                tables.neighbor(route.oif, hop)?
            }
            _ => return None,
        };
        let mut mtu = route
            .mtu
            .filter(|m| *m != 0)
            .unwrap_or(interface.mtu)
            .min(interface.mtu);
        if self.tuning.mtu != 0 {
            mtu = mtu.min(self.tuning.mtu);
        }
        let template = HeaderTemplate::new(&TemplateSpec {
            src_mac: interface.mac,
            dst_mac,
            src: std::net::SocketAddrV4::new(source.or(route.prefsrc)?, local.port()),
            dst: key.destination,
            ttl,
            tos,
            dont_fragment: control.dont_fragment,
            udp_checksum: control.checksum,
        });
        drop(tables);
        Some(Route {
            ring: Some(socket.transmit_ring(route.oif)?),
            template,
            mtu: mtu as usize,
            ip_id: event::ticks() as u16,
        })
    }

    /// A socket of this process is a member; the tables may not know it yet.
    fn has_member(&self, ifindex: u32, group: Ipv4Addr) -> bool {
        self.directory.lock().sockets.has_member(ifindex, group)
    }
}

/// A lock that another thread gives back soon. None: it is this very thread's, which is in
/// a signal handler above it.
pub(super) fn patient<T>(lock: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for _ in 0..TURNS {
        if let Some(guard) = lock.try_lock() {
            return Some(guard);
        }
        event::yield_now();
    }
    None
}
