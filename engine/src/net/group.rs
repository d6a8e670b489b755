//! Which groups the host has joined, on which interface (IGMP is the kernel's).
//!
//! Owns the pair (interface, group) and the reading of /proc/net/igmp, for kernels that
//! announce no changes (before Linux 6.14) and for the number of members.

use crate::error::Errno;
use crate::sys::file;
use std::net::Ipv4Addr;

/// A group that the host is in, by one socket or many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Membership {
    /// Interface.
    pub ifindex: u32,
    /// Group.
    pub group: Ipv4Addr,
}

/// Reads every membership of the host with its number of members: one for each socket
/// that joined, in whatever process, and one for the kernel's own (224.0.0.1).
///
/// # Errors
/// The kernel's, ENOENT where procfs is missing.
pub fn read_memberships() -> Result<Vec<(Membership, u32)>, Errno> {
    // Not /proc/net, which is the namespace of the process' first thread.
    const PATH: &std::ffi::CStr = c"/proc/thread-self/net/igmp";
    const MAX: usize = 1 << 20;
    file::read(PATH, MAX).map(|text| parse_igmp(&text))
}

/// Parses /proc/net/igmp (`igmp_mc_seq_show`): a line for an interface, then, indented
/// by tabs, a line for each group: address as a hexadecimal word in the machine's byte
/// order, number of members.
#[must_use]
pub fn parse_igmp(text: &[u8]) -> Vec<(Membership, u32)> {
    let mut memberships = Vec::new();
    let mut ifindex = None;
    for line in text.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_ascii_whitespace();
        if line.starts_with('\t') {
            let group = words
                .next()
                .and_then(|word| u32::from_str_radix(word, 16).ok());
            let users = words.next().and_then(|word| word.parse().ok());
            if let (Some(ifindex), Some(group), Some(users)) = (ifindex, group, users) {
                let group = Ipv4Addr::from(group.to_ne_bytes());
                memberships.push((Membership { ifindex, group }, users));
            }
        } else {
            // Also the heading, which has no number in front.
            ifindex = words.next().and_then(|word| word.parse().ok());
        }
    }
    memberships
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn as_the_kernel_writes_it() {
        let text = "Idx\tDevice    : Count Querier\tGroup    Users Timer\tReporter\n\
            1\tlo        :     1      V3\n\
            \t\t\t\t010000E0     1 0:00000000\t\t0\n\
            4\teth0      :     2      V3\n\
            \t\t\t\t030201EF     3 1:0000002A\t\t1\n\
            \t\t\t\t010000E0     1 0:00000000\t\t0\n";
        let all = Ipv4Addr::new(224, 0, 0, 1);
        let group = Ipv4Addr::new(239, 1, 2, 3);
        assert_eq!(
            parse_igmp(text.as_bytes()),
            [
                (
                    Membership {
                        ifindex: 1,
                        group: all
                    },
                    1
                ),
                (Membership { ifindex: 4, group }, 3),
                (
                    Membership {
                        ifindex: 4,
                        group: all
                    },
                    1
                ),
            ]
        );
    }

    #[test]
    fn nonsense() {
        assert_eq!(parse_igmp(b""), []);
        assert_eq!(
            parse_igmp(b"\t\t010000E0 1\n\xff\xfe\n\tzz\n5\n\t\t1 x\n"),
            []
        );
    }
}
