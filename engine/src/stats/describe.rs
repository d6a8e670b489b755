//! Setters for what is not a counter: addresses, reasons, groups, names. Control
//! plane only. A socket's state is bracketed by a sequence number, so that a reader
//! never shows the address of one moment with the peer of another.

use super::layout::{Endpoint, GROUPS, Header, MAGIC, RingBlock, SocketBlock, SocketState};
use crate::error::Reason;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use core::sync::atomic::{AtomicU32, fence};

impl Header {
    /// Names the process; from now on readers may come.
    pub(super) fn begin(&self, pid: u32, ticks: Option<u64>, program: &str) {
        self.pid.store(pid, Relaxed);
        self.start_ticks.store(ticks.unwrap_or(0), Relaxed);
        self.since.store(crate::clock::realtime(), Relaxed);
        self.program.set(program);
        self.alive.store(1, Relaxed);
        self.magic.store(MAGIC, Release);
    }
}

impl Endpoint {
    /// Replaces the address.
    pub(super) fn set(&self, address: Option<SocketAddr>) {
        let (kind, bits) = match address.map(|a| a.ip()) {
            None => (0, 0),
            Some(IpAddr::V4(ip)) => (4, u128::from(ip.to_bits())),
            Some(IpAddr::V6(ip)) => (6, ip.to_bits()),
        };
        self.high.store((bits >> 64) as u64, Relaxed);
        self.low.store(bits as u64, Relaxed);
        self.port
            .store(address.map_or(0, |a| u32::from(a.port())), Relaxed);
        self.kind.store(kind, Relaxed);
    }

    /// The address, if there is one.
    #[must_use]
    pub fn get(&self) -> Option<SocketAddr> {
        let port = self.port.load(Relaxed) as u16;
        let low = self.low.load(Relaxed);
        let ip = match self.kind.load(Relaxed) {
            4 => IpAddr::V4(Ipv4Addr::from_bits(low as u32)),
            6 => {
                let high = u128::from(self.high.load(Relaxed));
                IpAddr::V6(Ipv6Addr::from_bits(high << 64 | u128::from(low)))
            }
            _ => return None,
        };
        Some(SocketAddr::new(ip, port))
    }
}

impl SocketBlock {
    /// Changes the state as one step in the eyes of a reader. Two threads at once
    /// leave a mixture of both, but never a sequence number that stays odd.
    pub(super) fn update(&self, change: impl FnOnce(&SocketState)) {
        // Reading it acquires, so that no store below moves in front of it.
        self.state.sequence.fetch_add(1, AcqRel);
        fence(Release);
        change(&self.state);
        self.state.sequence.fetch_add(1, Release);
    }

    fn set(&self, cell: impl FnOnce(&SocketState) -> &AtomicU32, value: u32) {
        self.update(|state| cell(state).store(value, Relaxed));
    }

    /// `None`: the engine serves the socket. Otherwise: why the kernel does.
    pub fn set_reason(&self, reason: Option<Reason>) {
        self.update(|state| {
            state
                .accelerated
                .store(u32::from(reason.is_none()), Relaxed);
            state.reason.store(reason.map_or(0, Reason::code), Relaxed);
        });
    }

    /// The engine sends, the kernel receives; why.
    pub fn set_send_only(&self, reason: Reason) {
        self.update(|state| {
            state.accelerated.store(1, Relaxed);
            state.reason.store(reason.code(), Relaxed);
        });
    }

    /// The descriptor, where dup2 or the like changed it.
    pub fn set_fd(&self, fd: i32) {
        self.set(|state| &state.fd, fd as u32);
    }

    /// AF_INET or AF_INET6.
    pub fn set_family(&self, family: i32) {
        self.set(|state| &state.family, family as u32);
    }

    /// Inode of the kernel's socket.
    pub fn set_inode(&self, inode: u64) {
        self.update(|state| state.inode.store(inode, Relaxed));
    }

    /// Local address, as getsockname(2) tells it.
    pub fn set_local(&self, address: Option<SocketAddr>) {
        self.update(|state| state.local.set(address));
    }

    /// Connected peer, as getpeername(2) tells it.
    pub fn set_peer(&self, address: Option<SocketAddr>) {
        self.update(|state| state.peer.set(address));
    }

    /// Without O_NONBLOCK.
    pub fn set_blocking(&self, blocking: bool) {
        self.set(|state| &state.blocking, u32::from(blocking));
    }

    /// IP_MULTICAST_LOOP.
    pub fn set_mc_loop(&self, on: bool) {
        self.set(|state| &state.mc_loop, u32::from(on));
    }

    /// All joined groups with their interfaces (0: the kernel's choice). The first
    /// [`GROUPS`] are listed, all are counted.
    pub fn set_groups(&self, groups: impl IntoIterator<Item = (Ipv4Addr, u32)>) {
        self.update(|state| {
            let mut count = 0;
            for (address, ifindex) in groups {
                if let Some(group) = state.groups.get(count) {
                    group.address.store(address.to_bits(), Relaxed);
                    group.ifindex.store(ifindex, Relaxed);
                }
                count += 1;
            }
            state.group_count.store(count as u32, Relaxed);
        });
    }
}

impl SocketState {
    /// The listed groups.
    pub fn groups(&self) -> impl Iterator<Item = (Ipv4Addr, u32)> {
        let count = (self.group_count.load(Relaxed) as usize).min(GROUPS);
        self.groups[..count].iter().map(|group| {
            let address = Ipv4Addr::from_bits(group.address.load(Relaxed));
            (address, group.ifindex.load(Relaxed))
        })
    }
}

impl RingBlock {
    /// Says what the ring is.
    pub fn describe(
        &self,
        interface: &str,
        ifindex: u32,
        backend: &str,
        device: &str,
        rx_slots: u32,
        tx_slots: u32,
    ) {
        let state = &self.state;
        state.interface.set(interface);
        state.ifindex.store(ifindex, Relaxed);
        state.backend.set(backend);
        state.device.set(device);
        state.rx_slots.store(rx_slots, Relaxed);
        state.tx_slots.store(tx_slots, Relaxed);
    }
}
