//! An interface and its IPv4 addresses.
//!
//! Owns what RTM_NEWLINK and RTM_NEWADDR say of it (rtnetlink(7)). The MTU is Linux's:
//! the largest IP datagram, Ethernet header not included.

use std::net::Ipv4Addr;

/// The link layer (ARPHRD_* of linux/if_arp.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Frames with Ethernet headers and six-byte addresses.
    Ethernet,
    /// The loopback device.
    Loopback,
    /// Tunnels, InfiniBand, and all the rest.
    Other,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Index, for ever the same while it lives.
    pub index: u32,
    /// Name, which may change.
    pub name: String,
    /// Link-layer address; zeros where it is not six bytes long.
    pub mac: [u8; 6],
    /// Largest IP datagram in bytes.
    pub mtu: u32,
    /// IFF_UP: switched on.
    pub up: bool,
    /// IFF_RUNNING: switched on and connected.
    pub running: bool,
    /// IFF_LOOPBACK.
    pub loopback: bool,
    /// IFF_MULTICAST.
    pub multicast: bool,
    /// IFF_NOARP: destinations have no link-layer address of their own.
    pub no_arp: bool,
    /// The link layer.
    pub kind: LinkKind,
    /// What the driver calls itself if it is a virtual one ("veth", "vlan", "bridge", …);
    /// empty for hardware.
    pub driver: String,
    /// The bridge, bond, team or VRF that it belongs to.
    pub master: Option<u32>,
    /// IPv4 addresses, the kernel's order.
    pub addresses: Vec<InterfaceAddress>,
}

/// An IPv4 address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address itself.
    pub addr: Ipv4Addr,
    /// Length of the network part in bits.
    pub prefix: u8,
    /// Broadcast address, if one is assigned.
    pub broadcast: Option<Ipv4Addr>,
}

impl InterfaceAddress {
    /// The addresses of which [`Self::is_broadcast`] is true.
    pub fn broadcasts(&self) -> impl Iterator<Item = Ipv4Addr> {
        let last = Ipv4Addr::from(u32::from(self.addr) | !self.mask());
        let network = (self.prefix < 31).then_some(last);
        self.broadcast.into_iter().chain(network)
    }

    /// Whether `addr` lies in the same network.
    #[must_use]
    pub fn contains(&self, addr: Ipv4Addr) -> bool {
        (u32::from(addr) ^ u32::from(self.addr)) & self.mask() == 0
    }

    /// Whether the kernel takes `addr` as a broadcast because of this address
    /// (`fib_add_ifaddr`): the assigned one, and the network's last if there is room.
    #[must_use]
    pub fn is_broadcast(&self, addr: Ipv4Addr) -> bool {
        self.broadcasts().any(|b| b == addr)
    }

    fn mask(&self) -> u32 {
        u32::MAX
            .checked_shl(32 - u32::from(self.prefix.min(32)))
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(addr: [u8; 4], prefix: u8, broadcast: Option<[u8; 4]>) -> InterfaceAddress {
        InterfaceAddress {
            addr: addr.into(),
            prefix,
            broadcast: broadcast.map(Ipv4Addr::from),
        }
    }

    #[test]
    fn broadcasts() {
        let plain = address([10, 1, 2, 3], 24, Some([10, 1, 2, 255]));
        assert!(plain.is_broadcast(Ipv4Addr::new(10, 1, 2, 255)));
        assert!(!plain.is_broadcast(Ipv4Addr::new(10, 1, 2, 0)));
        assert!(!plain.is_broadcast(Ipv4Addr::new(10, 1, 3, 255)));
        let odd = address([10, 1, 2, 3], 24, Some([10, 1, 9, 9]));
        assert!(odd.is_broadcast(Ipv4Addr::new(10, 1, 9, 9)));
        assert!(odd.is_broadcast(Ipv4Addr::new(10, 1, 2, 255)));
        let pair = address([10, 1, 2, 2], 31, None);
        assert!(!pair.is_broadcast(Ipv4Addr::new(10, 1, 2, 3)));
    }

    #[test]
    fn networks() {
        let net = address([10, 1, 2, 3], 24, None);
        assert!(net.contains(Ipv4Addr::new(10, 1, 2, 200)));
        assert!(!net.contains(Ipv4Addr::new(10, 1, 3, 3)));
        assert!(address([1, 2, 3, 4], 0, None).contains(Ipv4Addr::new(9, 9, 9, 9)));
        assert!(!address([1, 2, 3, 4], 32, None).contains(Ipv4Addr::new(1, 2, 3, 5)));
    }
}
