//! Who else on this host wants a group's datagrams: the UDP sockets of the network
//! namespace that are not the engine's.
//!
//! A socket counts by its port and bound address alone. Memberships do not decide: with
//! IP_MULTICAST_ALL, the default, a socket gets every group that anybody on the host has
//! joined. Source: /proc/net/udp and udp6 (`udp4_seq_show`, `udp6_seq_show` of Linux).

use std::net::Ipv4Addr;

/// A bound UDP socket of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Local port.
    pub port: u16,
    /// Local address; 0.0.0.0 for any, also for `::`.
    pub address: Ipv4Addr,
    /// Its inode, by which one's own are told.
    pub inode: u64,
}

/// Sockets that get multicast by the kernel, by port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscribers(Vec<(u16, Ipv4Addr)>);

impl Subscribers {
    /// Of all sockets of the host those that are not `own` and whose port is in `ports`.
    #[must_use]
    pub fn of(bound: &[Bound], own: &[u64], ports: &[u16]) -> Self {
        let mut list: Vec<_> = bound
            .iter()
            .filter(|b| b.address.is_unspecified() || b.address.is_multicast())
            .filter(|b| ports.contains(&b.port) && !own.contains(&b.inode))
            .map(|b| (b.port, b.address))
            .collect();
        list.sort_unstable();
        list.dedup();
        Self(list)
    }

    /// Somebody has this port at this address.
    #[must_use]
    pub fn lists(&self, address: Ipv4Addr, port: u16) -> bool {
        self.0.binary_search(&(port, address)).is_ok()
    }

    /// Everybody of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut list = [self.0.as_slice(), &other.0].concat();
        list.sort_unstable();
        list.dedup();
        Self(list)
    }

    /// Somebody gets datagrams of the group to the port.
    #[must_use]
    pub fn want(&self, group: Ipv4Addr, port: u16) -> bool {
        let from = self.0.partition_point(|(p, _)| *p < port);
        self.0[from..]
            .iter()
            .take_while(|(p, _)| *p == port)
            .any(|(_, address)| address.is_unspecified() || *address == group)
    }
}

/// Parses /proc/net/udp or udp6; sockets bound to native IPv6 addresses are left out.
/// One line a socket: number, local `ADDRESS:PORT` in hexadecimal (the address as words
/// of the machine's byte order), …, the inode in the tenth column.
#[must_use]
pub fn parse(text: &[u8]) -> Vec<Bound> {
    text.split(|byte| *byte == b'\n')
        .skip(1)
        .filter_map(|line| {
            let line = std::str::from_utf8(line).ok()?;
            let mut words = line.split_ascii_whitespace();
            let (address, port) = words.nth(1)?.split_once(':')?;
            Some(Bound {
                port: u16::from_str_radix(port, 16).ok()?,
                address: parse_address(address)?,
                inode: words.nth(7)?.parse().ok()?,
            })
        })
        .collect()
}

fn parse_address(text: &str) -> Option<Ipv4Addr> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok();
    let last = |at| word(at).map(|w| Ipv4Addr::from(w.to_ne_bytes()));
    match text.len() {
        8 => last(0),
        32 => {
            let front = (word(0)?, word(8)?, u32::from_be(word(16)?));
            let any = front == (0, 0, 0) && word(24)? == 0;
            (any || front == (0, 0, 0xffff)).then(|| last(24)).flatten()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

    #[test]
    #[cfg(target_endian = "little")]
    fn as_the_kernel_writes_it() {
        let v4 = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            \x20 372: 00000000:14E9 00000000:0000 07 00000000:00000000 00:00000000 00000000   104        0 12345 2 0000000000000000 0\n\
            \x20 373: 030201EF:14EA 0100000A:0035 01 00000000:00000000 00:00000000 00000000     0        0 12346 2 0000000000000000 7\n";
        assert_eq!(
            parse(v4.as_bytes()),
            [
                Bound {
                    port: 5353,
                    address: Ipv4Addr::UNSPECIFIED,
                    inode: 12345
                },
                Bound {
                    port: 5354,
                    address: GROUP,
                    inode: 12346
                },
            ]
        );
        let v6 = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
            \x201: 00000000000000000000000000000000:0007 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9 2 0000000000000000 0\n\
            \x202: 0000000000000000FFFF00000100000A:0008 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 8 2 0000000000000000 0\n\
            \x203: 000080FE000000000000000001000000:0009 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 7 2 0000000000000000 0\n";
        assert_eq!(
            parse(v6.as_bytes()),
            [
                Bound {
                    port: 7,
                    address: Ipv4Addr::UNSPECIFIED,
                    inode: 9
                },
                Bound {
                    port: 8,
                    address: Ipv4Addr::new(10, 0, 0, 1),
                    inode: 8
                },
            ]
        );
    }

    #[test]
    fn nonsense() {
        assert_eq!(parse(b""), []);
        assert_eq!(
            parse(b"head\n\xff\xfe\n1: 0:0\n1: 00000000:zz a b c d e f 1\n"),
            []
        );
    }

    #[test]
    fn who_counts() {
        let bound = |port, address, inode| Bound {
            port,
            address,
            inode,
        };
        let any = Ipv4Addr::UNSPECIFIED;
        let other = Ipv4Addr::new(239, 9, 9, 9);
        let host = [
            bound(7, any, 1),
            bound(8, GROUP, 2),
            bound(9, Ipv4Addr::new(10, 0, 0, 1), 3),
            bound(10, any, 4),
            bound(11, any, 5),
        ];
        let list = Subscribers::of(&host, &[4], &[7, 8, 9, 10]);
        assert!(list.want(GROUP, 7));
        assert!(list.want(GROUP, 8) && !list.want(other, 8));
        assert!(!list.want(GROUP, 9), "bound to an address");
        assert!(!list.want(GROUP, 10), "our own");
        assert!(!list.want(GROUP, 11), "nobody asked");
        let both = list.union(&Subscribers::of(&host, &[], &[10]));
        assert!(both.want(GROUP, 7) && both.want(GROUP, 10));
    }
}
