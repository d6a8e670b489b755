//! Multicast memberships of a socket and their source filters (ip(7), RFC 3376 section 3).
//!
//! Follows calls that the kernel has already accepted: nothing here can fail.

use std::net::Ipv4Addr;

/// One membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Group address.
    pub group: Ipv4Addr,
    /// Interface of the membership.
    pub ifindex: u32,
    /// The interface address given with the join; 0.0.0.0 if none.
    pub address: Ipv4Addr,
    /// True: `sources` are let through; false: they are kept out.
    pub include: bool,
    /// The filter.
    pub sources: Vec<Ipv4Addr>,
    /// It had sources once: Linux refuses the other kind of filter from then on.
    settled: bool,
}

impl Member {
    /// It keeps something out.
    pub(super) fn filters(&self) -> bool {
        self.include || !self.sources.is_empty()
    }

    fn lets_through(&self, source: Ipv4Addr) -> bool {
        self.sources.contains(&source) == self.include
    }
}

/// Interface as a membership call gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Via {
    /// Index that the kernel uses (resolved if the caller gave none).
    pub ifindex: u32,
    /// Address in the request.
    pub address: Ipv4Addr,
}

/// A change of memberships.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// IP_ADD_MEMBERSHIP, MCAST_JOIN_GROUP.
    Join(Ipv4Addr, Via),
    /// IP_DROP_MEMBERSHIP, MCAST_LEAVE_GROUP.
    Leave(Ipv4Addr, Via),
    /// IP_ADD_SOURCE_MEMBERSHIP, MCAST_JOIN_SOURCE_GROUP.
    JoinSource(Ipv4Addr, Ipv4Addr, Via),
    /// IP_DROP_SOURCE_MEMBERSHIP, MCAST_LEAVE_SOURCE_GROUP.
    LeaveSource(Ipv4Addr, Ipv4Addr, Via),
    /// IP_BLOCK_SOURCE, MCAST_BLOCK_SOURCE.
    Block(Ipv4Addr, Ipv4Addr, Via),
    /// IP_UNBLOCK_SOURCE, MCAST_UNBLOCK_SOURCE.
    Unblock(Ipv4Addr, Ipv4Addr, Via),
    /// IP_MSFILTER, MCAST_MSFILTER: the whole filter.
    Filter {
        /// Group address.
        group: Ipv4Addr,
        /// Interface.
        via: Via,
        /// MCAST_INCLUDE.
        include: bool,
        /// Sources.
        sources: Vec<Ipv4Addr>,
    },
}

/// What this host lets in of the groups that it has joined on an interface:
/// `ip_check_mc_rcu` of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostGroups {
    /// Groups of which everything comes in.
    pub open: Vec<Ipv4Addr>,
    /// The members of those that all members filter; all of them are this process's.
    pub filtered: Vec<Member>,
}

impl HostGroups {
    /// Each group, some of them more than once.
    pub fn all(&self) -> impl Iterator<Item = Ipv4Addr> {
        let filtered = self.filtered.iter().map(|m| m.group);
        self.open.iter().copied().chain(filtered)
    }

    /// Some member lets a datagram in.
    #[inline]
    #[must_use]
    pub fn admit(&self, group: Ipv4Addr, source: Ipv4Addr) -> bool {
        self.open.contains(&group)
            || self
                .filtered
                .iter()
                .any(|m| m.group == group && m.lets_through(source))
    }
}

/// All memberships of a socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    members: Vec<Member>,
}

impl Groups {
    /// The memberships, oldest first.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether this socket takes a datagram: `ip_mc_sf_allow` of the kernel.
    /// `all` is IP_MULTICAST_ALL, `joined_by_host` whether anybody on this host is a
    /// member on that interface.
    #[must_use]
    pub fn takes(
        &self,
        group: Ipv4Addr,
        source: Ipv4Addr,
        ifindex: u32,
        all: bool,
        joined_by_host: impl FnOnce() -> bool,
    ) -> bool {
        let own = self
            .members
            .iter()
            .find(|m| m.group == group && m.ifindex == ifindex);
        match own {
            Some(member) => member.lets_through(source),
            None => all && joined_by_host(),
        }
    }

    fn find(&mut self, group: Ipv4Addr, via: Via) -> Option<usize> {
        self.members
            .iter()
            .position(|m| m.group == group && m.ifindex == via.ifindex)
    }

    fn find_or_add(&mut self, group: Ipv4Addr, via: Via, include: bool) -> &mut Member {
        let at = self.find(group, via).unwrap_or_else(|| {
            self.members.push(Member {
                group,
                ifindex: via.ifindex,
                address: via.address,
                include,
                sources: Vec::new(),
                settled: false,
            });
            self.members.len() - 1
        });
        &mut self.members[at]
    }

    fn add_source(&mut self, group: Ipv4Addr, source: Ipv4Addr, via: Via, include: bool) {
        let member = self.find_or_add(group, via, include);
        member.include = include;
        member.settled = true;
        if !member.sources.contains(&source) {
            member.sources.push(source);
        }
    }

    /// Follows a call that failed because of its source (EADDRNOTAVAIL): a membership that
    /// had no filter yet has changed its kind all the same (`ip_mc_source`).
    pub fn apply_failed(&mut self, change: &Change) {
        let (group, via, include) = match change {
            Change::LeaveSource(group, _, via) => (*group, *via, true),
            Change::Unblock(group, _, via) => (*group, *via, false),
            _ => return,
        };
        if let Some(at) = self.find(group, via)
            && !self.members[at].settled
        {
            self.members[at].include = include;
        }
    }

    /// Takes a source out; an empty include filter is no membership any more.
    fn remove_source(&mut self, group: Ipv4Addr, source: Ipv4Addr, via: Via) {
        if let Some(at) = self.find(group, via) {
            let member = &mut self.members[at];
            member.sources.retain(|s| *s != source);
            if member.include && member.sources.is_empty() {
                self.members.remove(at);
            }
        }
    }

    /// Follows a call that succeeded.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Join(group, via) => {
                self.find_or_add(*group, *via, false);
            }
            Change::Leave(group, via) => {
                // As the kernel: by the interface that the request names in whatever way; if it
                // names none, by the address of the join, else the first.
                let at = self.members.iter().position(|m| {
                    m.group == *group
                        && if via.ifindex != 0 {
                            m.ifindex == via.ifindex
                        } else {
                            via.address.is_unspecified() || m.address == via.address
                        }
                });
                if let Some(at) = at {
                    self.members.remove(at);
                }
            }
            Change::JoinSource(group, source, via) => self.add_source(*group, *source, *via, true),
            Change::LeaveSource(group, source, via) | Change::Unblock(group, source, via) => {
                self.remove_source(*group, *source, *via);
            }
            Change::Block(group, source, via) => self.add_source(*group, *source, *via, false),
            Change::Filter {
                group,
                via,
                include,
                sources,
            } => {
                if *include && sources.is_empty() {
                    if let Some(at) = self.find(*group, *via) {
                        self.members.remove(at);
                    }
                    return;
                }
                let member = self.find_or_add(*group, *via, *include);
                member.include = *include;
                member.settled = !sources.is_empty();
                member.sources.clone_from(sources);
            }
        }
    }
}

fn ip(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(Ipv4Addr::from(four))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(u32::from_ne_bytes(four))
}

/// IPv4 address of a `sockaddr_storage` holding a `sockaddr_in`.
fn storage(bytes: &[u8], at: usize) -> Option<Ipv4Addr> {
    let family = u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?);
    (i32::from(family) == libc::AF_INET).then(|| ip(bytes, at + 4))?
}

const MCAST_JOIN_GROUP: i32 = 42;
const MCAST_BLOCK_SOURCE: i32 = 43;
const MCAST_UNBLOCK_SOURCE: i32 = 44;
const MCAST_LEAVE_GROUP: i32 = 45;
const MCAST_JOIN_SOURCE_GROUP: i32 = 46;
const MCAST_LEAVE_SOURCE_GROUP: i32 = 47;
const MCAST_MSFILTER: i32 = 48;
const IP_MSFILTER: i32 = 41;

/// Reads the argument of a membership option at level IPPROTO_IP that the kernel has
/// accepted. `resolve(group, address)` answers the interface index for a request that
/// names none. None: not a membership option.
#[must_use]
pub(super) fn parse_change(
    name: i32,
    value: &[u8],
    resolve: &dyn Fn(Ipv4Addr, Ipv4Addr) -> u32,
) -> Option<Change> {
    let via_address = |group, address| Via {
        ifindex: resolve(group, address),
        address,
    };
    let via_index = |group, index: u32| {
        if index == 0 {
            via_address(group, Ipv4Addr::UNSPECIFIED)
        } else {
            Via {
                ifindex: index,
                address: Ipv4Addr::UNSPECIFIED,
            }
        }
    };
    match name {
        libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP => {
            let (group, address) = (ip(value, 0)?, ip(value, 4)?);
            let index = word(value, 8).unwrap_or(0);
            let via = if index == 0 {
                via_address(group, address)
            } else {
                Via {
                    ifindex: index,
                    address,
                }
            };
            Some(if name == libc::IP_ADD_MEMBERSHIP {
                Change::Join(group, via)
            } else {
                Change::Leave(group, via)
            })
        }
        libc::IP_ADD_SOURCE_MEMBERSHIP
        | libc::IP_DROP_SOURCE_MEMBERSHIP
        | libc::IP_BLOCK_SOURCE
        | libc::IP_UNBLOCK_SOURCE => {
            let (group, source) = (ip(value, 0)?, ip(value, 8)?);
            let via = via_address(group, ip(value, 4)?);
            Some(match name {
                libc::IP_ADD_SOURCE_MEMBERSHIP => Change::JoinSource(group, source, via),
                libc::IP_DROP_SOURCE_MEMBERSHIP => Change::LeaveSource(group, source, via),
                libc::IP_BLOCK_SOURCE => Change::Block(group, source, via),
                _ => Change::Unblock(group, source, via),
            })
        }
        MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP => {
            let group = storage(value, 8)?;
            let via = via_index(group, word(value, 0)?);
            Some(if name == MCAST_JOIN_GROUP {
                Change::Join(group, via)
            } else {
                Change::Leave(group, via)
            })
        }
        MCAST_JOIN_SOURCE_GROUP
        | MCAST_LEAVE_SOURCE_GROUP
        | MCAST_BLOCK_SOURCE
        | MCAST_UNBLOCK_SOURCE => {
            let (group, source) = (storage(value, 8)?, storage(value, 136)?);
            let via = via_index(group, word(value, 0)?);
            Some(match name {
                MCAST_JOIN_SOURCE_GROUP => Change::JoinSource(group, source, via),
                MCAST_LEAVE_SOURCE_GROUP => Change::LeaveSource(group, source, via),
                MCAST_BLOCK_SOURCE => Change::Block(group, source, via),
                _ => Change::Unblock(group, source, via),
            })
        }
        IP_MSFILTER => {
            let group = ip(value, 0)?;
            let via = via_address(group, ip(value, 4)?);
            let count = word(value, 12)? as usize;
            let sources = (0..count).map_while(|i| ip(value, 16 + 4 * i)).collect();
            Some(Change::Filter {
                group,
                via,
                include: word(value, 8)? == 1,
                sources,
            })
        }
        MCAST_MSFILTER => {
            let group = storage(value, 8)?;
            let via = via_index(group, word(value, 0)?);
            let count = word(value, 140)? as usize;
            let sources = (0..count)
                .map_while(|i| storage(value, 144 + 128 * i))
                .collect();
            Some(Change::Filter {
                group,
                via,
                include: word(value, 136)? == 1,
                sources,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const G: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
    const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn via(ifindex: u32) -> Via {
        Via {
            ifindex,
            address: Ipv4Addr::UNSPECIFIED,
        }
    }

    fn takes(groups: &Groups, source: Ipv4Addr, ifindex: u32) -> bool {
        groups.takes(G, source, ifindex, false, || true)
    }

    #[test]
    fn a_member_takes_its_group_on_its_interface_only() {
        let mut groups = Groups::default();
        groups.apply(&Change::Join(G, via(2)));
        assert!(takes(&groups, A, 2));
        assert!(!takes(&groups, A, 3));
        groups.apply(&Change::Leave(G, via(2)));
        assert!(!takes(&groups, A, 2));
    }

    #[test]
    fn multicast_all_takes_what_the_host_has_joined() {
        let groups = Groups::default();
        assert!(groups.takes(G, A, 2, true, || true));
        assert!(!groups.takes(G, A, 2, true, || false));
        assert!(!groups.takes(G, A, 2, false, || true));
    }

    #[test]
    fn source_filters_include_and_exclude() {
        let mut groups = Groups::default();
        groups.apply(&Change::JoinSource(G, A, via(2)));
        assert!(takes(&groups, A, 2) && !takes(&groups, B, 2));
        groups.apply(&Change::JoinSource(G, B, via(2)));
        groups.apply(&Change::LeaveSource(G, A, via(2)));
        assert!(!takes(&groups, A, 2) && takes(&groups, B, 2));
        groups.apply(&Change::LeaveSource(G, B, via(2)));
        assert!(groups.members().is_empty());
        groups.apply(&Change::Join(G, via(2)));
        groups.apply(&Change::Block(G, A, via(2)));
        assert!(!takes(&groups, A, 2) && takes(&groups, B, 2));
        groups.apply(&Change::Unblock(G, A, via(2)));
        assert!(takes(&groups, A, 2));
    }

    #[test]
    fn a_filter_may_change_its_kind_while_it_is_empty() {
        let mut groups = Groups::default();
        groups.apply(&Change::Join(G, via(2)));
        groups.apply(&Change::JoinSource(G, A, via(2)));
        assert!(takes(&groups, A, 2) && !takes(&groups, B, 2));
        let mut groups = Groups::default();
        groups.apply(&Change::Join(G, via(2)));
        groups.apply_failed(&Change::LeaveSource(G, A, via(2)));
        assert!(!takes(&groups, A, 2) && !takes(&groups, B, 2));
    }

    #[test]
    fn a_host_lets_in_what_some_member_lets_in() {
        let mut groups = Groups::default();
        groups.apply(&Change::JoinSource(G, A, via(2)));
        let host = HostGroups {
            open: Vec::new(),
            filtered: groups.members().to_vec(),
        };
        assert!(host.admit(G, A) && !host.admit(G, B));
    }

    #[test]
    fn requests_are_read_as_the_kernel_reads_them() {
        let resolve = |_: Ipv4Addr, address: Ipv4Addr| if address == A { 7 } else { 4 };
        let mut mreqn = Vec::new();
        mreqn.extend(G.octets());
        mreqn.extend(A.octets());
        let by_address = parse_change(libc::IP_ADD_MEMBERSHIP, &mreqn, &resolve);
        assert_eq!(
            by_address,
            Some(Change::Join(
                G,
                Via {
                    ifindex: 7,
                    address: A
                }
            ))
        );
        mreqn.extend(9u32.to_ne_bytes());
        let by_index = parse_change(libc::IP_ADD_MEMBERSHIP, &mreqn, &resolve);
        assert_eq!(
            by_index,
            Some(Change::Join(
                G,
                Via {
                    ifindex: 9,
                    address: A
                }
            ))
        );
        assert_eq!(parse_change(libc::IP_TTL, &mreqn, &resolve), None);
        assert_eq!(
            parse_change(libc::IP_ADD_MEMBERSHIP, &mreqn[..6], &resolve),
            None
        );
    }
}
