//! Mixed hosts: groups that kernel sockets of other programs want as well.
//!
//! A device that steers keeps what it brings from the kernel. While others on the host
//! want a group's datagrams to the same port (SHIM_MIXED_HOST), its flow is shared: the
//! kernel gets a copy of each frame, and the filter of our own kernel sockets refuses it.
//!
//! Changing over, nothing is lost or had twice: the filter is there before the flow is
//! shared, and it stays for a while after the flow is exclusive again, for frames that are
//! under way in the kernel. Several processes of the host look at the same moments of the
//! monotonic clock: where a card lets an exclusive rule of one hide a shared rule of another
//! (mlx5 does not), they change over together.

use super::control::{Control, Filter};
use super::core::{Core, Directory, bits};
use super::demux::{Entry, Place, Wants};
use super::directory::Attached;
use super::path::Ring;
use super::udp::{Mode, UdpSocket};
use crate::clock;
use crate::config::MixedHost;
use crate::device::{Delivery, is_whole};
use crate::error::Reason;
use crate::steering::{Subscribers, parse_bound};
use crate::sys::bpf::{self, Shared};
use crate::sys::file::Text;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Others are looked for this often, ns.
pub(crate) const LOOK_EVERY: u64 = 50_000_000;
/// The length of an IP packet.
const LARGEST: u32 = 0xffff;
/// How long a filter outlasts the sharing, ns.
const GRACE: u64 = 300_000_000;
/// How long nobody else is to be seen before a flow is exclusive again, ns: programs that open their
/// sockets one by one, or start again, do not change over each time.
const LINGER: u64 = 300_000_000;
/// Bytes of /proc/net/udp that are read.
const LIST_MOST: usize = 4 << 20;

/// Which flows are shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sharing {
    policy: MixedHost,
    subscribers: Arc<Subscribers>,
    /// Groups that our sockets have joined and others want from one of their ports: they are shared
    /// from all ports.
    groups: Arc<BTreeSet<Ipv4Addr>>,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            policy: MixedHost::Steer,
            subscribers: Arc::default(),
            groups: Arc::default(),
        }
    }
}

impl Sharing {
    fn of(policy: MixedHost, subscribers: Subscribers) -> Self {
        Self {
            policy,
            subscribers: Arc::new(subscribers),
            groups: Arc::default(),
        }
    }

    /// Adds the groups of such wants that others have an eye on.
    fn add_groups(&mut self, wants: &Wants) {
        let joined = wants.groups.members().iter().map(|m| m.group);
        let heard = |g: &Ipv4Addr| wants.local.is_unspecified() || wants.local == *g;
        let others = |g: &Ipv4Addr| self.subscribers.want(*g, wants.port);
        let found: Vec<_> = joined.filter(|g| heard(g) && others(g)).collect();
        if !found.is_empty() {
            Arc::make_mut(&mut self.groups).extend(found);
        }
    }

    /// Others on this host want a group's datagrams to a port.
    pub(super) fn is_shared(&self, group: Ipv4Addr, port: u16) -> bool {
        match self.policy {
            MixedHost::Steer => false,
            MixedHost::Share => true,
            MixedHost::Auto => self.groups.contains(&group) || self.subscribers.want(group, port),
        }
    }

    /// Shares whatever either shares.
    fn union(&self, other: &Self) -> Self {
        let either = |policy| [self.policy, other.policy].contains(&policy);
        let policy = if either(MixedHost::Share) {
            MixedHost::Share
        } else if either(MixedHost::Auto) {
            MixedHost::Auto
        } else {
            MixedHost::Steer
        };
        Self {
            groups: Arc::new(self.groups.union(&other.groups).copied().collect()),
            ..Self::of(policy, self.subscribers.union(&other.subscribers))
        }
    }
}

/// The state of the change-over, in the directory.
#[derive(Debug, Default)]
pub(super) struct Mixed {
    /// As the rings are steered.
    pub(super) now: Sharing,
    /// As the filters are made: this, and what is coming or has just gone.
    pub(super) filters: Sharing,
    /// By which the filters expect fragments of a group from the rings as well: the lesser of what the
    /// rings are steered by and what they will be. A moment's copies are better than losses.
    whole: Sharing,
    /// When the filters are to be made as the rings are steered; 0: they are.
    grace_until: u64,
    /// Since when others have been missed; 0: none.
    fewer_since: u64,
}

/// The contents of our filter on a kernel socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shadow {
    /// Interfaces whose device is a tap.
    pub(super) taps: Vec<u32>,
    /// Of those, multicast only.
    pub(super) multicast_only: bool,
    /// What devices that steer let through.
    pub(super) shared: Vec<Shared>,
}

impl Shadow {
    /// There is something in it.
    pub(super) fn refuses(&self) -> bool {
        !self.taps.is_empty() || !self.shared.is_empty()
    }
}

impl UdpSocket {
    /// Makes our filter on the kernel socket this one. Nothing to refuse: no filter.
    pub(super) fn set_shadow(&self, control: &mut Control, shadow: Shadow) -> Result<(), Reason> {
        if let Filter::Shadow(now) = &control.filter
            && *now == shadow
        {
            return Ok(());
        }
        if shadow.refuses() {
            let program = bpf::shadow(&shadow.taps, shadow.multicast_only, &shadow.shared);
            bpf::attach(self.fd(), &program).map_err(|_| Reason::NoResources)?;
            self.shared.lock().clone_from(&shadow.shared);
            control.filter = Filter::Shadow(shadow);
        } else {
            self.lift_shadow(control);
            self.shared.lock().clear();
        }
        Ok(())
    }

    /// Takes our filter off; what it refused of shared flows stays known.
    pub(super) fn lift_shadow(&self, control: &mut Control) {
        if matches!(control.filter, Filter::Shadow(_)) {
            // A forked child may have taken it off already.
            let _ = bpf::detach(self.fd());
            control.filter = Filter::None;
        }
    }

    /// Makes the filter as the directory says.
    fn refilter(&self) {
        let mut control = self.control.lock();
        let directory = self.core.directory.lock();
        if let Some(attached) = directory.sockets.find(self)
            && matches!(control.filter, Filter::Shadow(_) | Filter::None)
        {
            let (wants, mask) = (&attached.wants, attached.mask);
            let shadow = self.core.shadow_for(&directory, wants, mask);
            let _ = self.set_shadow(&mut control, shadow);
        }
    }
}

fn on_steering_ring(core: &Core, attached: &Attached) -> bool {
    core.rings_of(attached.mask)
        .any(|r| r.delivery == Delivery::Steered)
}

/// Nobody else is on a port that is not shared, and multicast never comes to an address.
pub(super) fn may_have_others(wants: &Wants) -> bool {
    !wants.unicast && (wants.local.is_unspecified() || wants.local.is_multicast())
}

impl Core {
    /// What the kernel socket of such wants is to refuse.
    pub(super) fn shadow_for(&self, directory: &Directory, wants: &Wants, mask: u64) -> Shadow {
        let one = [Entry {
            target: (),
            wants: Arc::new(wants.clone()),
            place: Place::Here,
        }];
        let mut shadow = Shadow {
            multicast_only: !wants.unicast,
            ..Shadow::default()
        };
        for ring in self.rings_of(mask) {
            if ring.delivery == Delivery::Tap {
                shadow.taps.push(ring.ifindex);
                continue;
            }
            let mixed = &directory.mixed;
            ring.with(|state| {
                let mut flows = state.flows_if(one.iter(), &mixed.filters);
                flows.retain(|f| f.shared);
                if flows.is_empty() {
                    return;
                }
                let brought = state.flows_with(one.iter(), &mixed.whole);
                shadow.shared.extend(flows.iter().map(|f| Shared {
                    ifindex: ring.ifindex,
                    group: f.destination,
                    largest: if is_whole(&brought, f.destination) {
                        LARGEST
                    } else {
                        ring.mtu
                    },
                }));
            });
        }
        shadow.taps.dedup();
        shadow.shared.sort_unstable();
        shadow.shared.dedup();
        shadow
    }

    /// A socket with such wants is about to join rings that steer: are there others on
    /// its port? Only where no other socket of ours would have to change over.
    pub(super) fn look_for_others(&self, directory: &mut Directory, wants: &Wants, inode: u64) {
        let policy = self.config.mixed_host();
        if policy != MixedHost::Auto || !may_have_others(wants) {
            let mixed = &mut directory.mixed;
            for sharing in [&mut mixed.now, &mut mixed.filters, &mut mixed.whole] {
                sharing.policy = policy;
            }
            return;
        }
        let here = directory.sockets.port(wants.port);
        if here.iter().any(|a| may_have_others(&a.wants)) {
            return; // the control thread looks
        }
        let mut found = self.look(directory, Some((wants, inode)));
        // Groups of sockets that are there already change over when these have their filters.
        let theirs = |g: &Ipv4Addr| {
            let mut attached = directory.sockets.attached();
            attached.any(|a| a.wants.groups.members().iter().any(|m| m.group == *g))
        };
        if found.groups.iter().any(theirs) {
            Arc::make_mut(&mut found.groups).retain(|g| !theirs(g));
            self.look_soon();
        }
        let mixed = &mut directory.mixed;
        mixed.now.policy = found.policy;
        mixed.now = mixed.now.union(&found);
        mixed.whole.policy = found.policy;
        mixed.whole = mixed.whole.union(&found);
        mixed.filters = mixed.filters.union(&mixed.now);
        // Others may have gone from ports that nobody of ours had.
        mixed.grace_until = 1;
    }

    /// Who else is on the ports of our sockets now; `new`: one that is about to be among
    /// them, and its inode.
    fn look(&self, directory: &Directory, new: Option<(&Wants, u64)>) -> Sharing {
        let policy = self.config.mixed_host();
        if policy != MixedHost::Auto {
            return Sharing::of(policy, Subscribers::default());
        }
        let attached = || {
            let mixed = |a: &&Attached| may_have_others(&a.wants) && on_steering_ring(self, a);
            directory.sockets.attached().filter(mixed)
        };
        let new_port = new.map(|n| n.0.port);
        let ports: Vec<u16> = attached().map(|a| a.wants.port).chain(new_port).collect();
        if ports.is_empty() {
            return Sharing::of(policy, Subscribers::default());
        }
        let inodes = directory.sockets.attached().map(|a| a.inode);
        let coming = directory.coming.iter().flatten().copied();
        let own: Vec<u64> = inodes.chain(coming).chain(new.map(|n| n.1)).collect();
        let lists = self.host_sockets.get_or_init(|| {
            // Not /proc/net, which is the namespace of the process' first thread.
            [c"/proc/thread-self/net/udp", c"/proc/thread-self/net/udp6"]
                .map(|path| Text::open(path).ok())
        });
        let list = |at: usize| {
            let text = lists[at].as_ref()?.read(LIST_MOST).ok()?;
            Some(parse_bound(&text))
        };
        let (v4, v6) = (list(0), list(1).unwrap_or_default());
        match v4 {
            Some(v4) => {
                let host = [v4, v6].concat();
                let mut found = Sharing::of(policy, Subscribers::of(&host, &own, &ports));
                let wants = attached().map(|a| &*a.wants).chain(new.map(|n| n.0));
                wants.for_each(|w| found.add_groups(w));
                found
            }
            // Whoever cannot look takes nothing away from anybody.
            None => Sharing::of(MixedHost::Share, Subscribers::default()),
        }
    }

    /// Others may come and go: the control thread is to look now and then.
    pub fn has_shareable(&self) -> bool {
        self.config.mixed_host() == MixedHost::Auto && self.any_steers() && {
            let directory = self.directory.lock();
            directory.mixed.grace_until != 0
                || directory
                    .sockets
                    .attached()
                    .any(|a| may_have_others(&a.wants) && on_steering_ring(self, a))
        }
    }

    fn any_steers(&self) -> bool {
        self.open_rings().any(|r| r.delivery == Delivery::Steered)
    }

    /// Groups have changed: others may have come.
    pub fn look_soon(&self) {
        self.look_soon.store(true, Ordering::Relaxed);
    }

    /// See [`Self::look_soon`].
    #[must_use]
    pub fn looks_soon(&self) -> bool {
        self.look_soon.load(Ordering::Relaxed)
    }

    /// A socket of this process that has a port and is the kernel's gets what it wants from now on, not
    /// from the next look.
    pub(super) fn heed_own(&self, socket: &UdpSocket) {
        if socket.mode() != Mode::Kernel
            || self.config.mixed_host() != MixedHost::Auto
            || !self.any_steers()
        {
            return;
        }
        let Ok(local) = UdpSocket::local_v4(&socket.control.lock()) else {
            return;
        };
        let (address, port) = (*local.ip(), local.port());
        if !address.is_unspecified() && !address.is_multicast() {
            return;
        }
        let news = {
            let directory = self.directory.lock();
            let here = directory.sockets.port(port);
            let known = &directory.mixed.now.subscribers;
            here.iter().any(|a| may_have_others(&a.wants)) && !known.lists(address, port)
        };
        if news {
            self.review_sharing(clock::monotonic());
        }
    }

    /// Looks for others and changes over.
    pub fn review_sharing(&self, now: u64) {
        let _one = self.reviewing.lock();
        self.look_soon.store(false, Ordering::Relaxed);
        if !self.any_steers() {
            return;
        }
        let found = {
            let mut directory = self.directory.lock();
            let mut found = self.look(&directory, None);
            let mixed = &mut directory.mixed;
            let either = mixed.now.union(&found);
            if either == found {
                mixed.fewer_since = 0;
            } else {
                if mixed.fewer_since == 0 {
                    mixed.fewer_since = now;
                }
                if now < mixed.fewer_since + LINGER {
                    found = either.clone();
                }
            }
            if found != mixed.now {
                mixed.filters = mixed.filters.union(&either);
                if either != found {
                    mixed.whole = found.clone();
                }
            } else if mixed.grace_until != 0 && now >= mixed.grace_until {
                mixed.filters = found.clone();
                mixed.grace_until = 0;
            } else {
                return;
            }
            found
        };
        self.refilter_all();
        let mut directory = self.directory.lock();
        if directory.mixed.now != found {
            directory.mixed.now = found.clone();
            directory.mixed.whole = found.clone();
            directory.mixed.grace_until = now + GRACE;
            for ring in self.open_rings() {
                ring.resteer(&found);
            }
            drop(directory);
            self.refilter_all();
        }
    }

    /// Makes the filters of all sockets on rings that steer as the directory says.
    pub(super) fn refilter_all(&self) {
        let sockets: Vec<Arc<UdpSocket>> = {
            let directory = self.directory.lock();
            let attached = directory.sockets.attached();
            attached
                .filter(|a| on_steering_ring(self, a))
                .map(|a| Arc::clone(&a.socket))
                .collect()
        };
        for socket in sockets {
            socket.refilter();
        }
    }

    /// The rings of a mask.
    pub(super) fn rings_of(&self, mask: u64) -> impl Iterator<Item = &'static Ring> {
        bits(mask).map(|i| self.ring(i))
    }

    /// Sockets that forked children have taken go back to the kernel.
    pub fn settle_claimed(&self) {
        let sockets: Vec<Arc<UdpSocket>> = {
            let directory = self.directory.lock();
            let attached = directory.sockets.attached();
            attached.map(|a| Arc::clone(&a.socket)).collect()
        };
        for socket in sockets {
            socket.settle();
        }
    }

    /// What a forked child signals; the control thread sleeps on it.
    #[must_use]
    pub fn claimed(&self) -> Option<&crate::sys::event::Event> {
        self.claimed.get().and_then(Option::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steering::Bound;

    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 0, 0, 1);

    fn somebody_on(port: u16) -> Sharing {
        let bound = Bound {
            port,
            address: Ipv4Addr::UNSPECIFIED,
            inode: 1,
        };
        let list = Subscribers::of(&[bound], &[], &[port]);
        Sharing::of(MixedHost::Auto, list)
    }

    #[test]
    fn policies() {
        let nobody = Sharing::default();
        assert!(!nobody.is_shared(GROUP, 7));
        assert!(somebody_on(7).is_shared(GROUP, 7) && !somebody_on(7).is_shared(GROUP, 8));
        let always = Sharing::of(MixedHost::Share, Subscribers::default());
        assert!(always.is_shared(GROUP, 7));
        let never = Sharing {
            policy: MixedHost::Steer,
            ..somebody_on(7)
        };
        assert!(!never.is_shared(GROUP, 7));
    }

    #[test]
    fn a_joined_group_is_shared_from_all_ports() {
        let via = crate::socket::groups::Via {
            ifindex: 2,
            address: Ipv4Addr::UNSPECIFIED,
        };
        let mut groups = crate::socket::groups::Groups::default();
        groups.apply(&crate::socket::groups::Change::Join(GROUP, via));
        let wants = |port, local| Wants {
            port,
            local,
            peer: None,
            device: 0,
            family_v4: true,
            unicast: false,
            multicast_all: true,
            groups: groups.clone(),
            since: 0,
        };
        let any = Ipv4Addr::UNSPECIFIED;
        for (wants, shared) in [
            (wants(7, any), true),
            (wants(8, any), false),
            (wants(7, Ipv4Addr::new(239, 0, 0, 9)), false),
        ] {
            let mut sharing = somebody_on(7);
            sharing.add_groups(&wants);
            assert_eq!(sharing.is_shared(GROUP, 9), shared, "{wants:?}");
            assert_eq!(sharing.union(&somebody_on(8)).is_shared(GROUP, 9), shared);
        }
    }

    #[test]
    fn filters_refuse_what_either_shares() {
        let (before, after) = (somebody_on(7), somebody_on(8));
        for both in [before.union(&after), after.union(&before)] {
            assert!(both.is_shared(GROUP, 7) && both.is_shared(GROUP, 8));
        }
        // From the state of a process that has looked for nobody yet.
        let first = Sharing::default().union(&before);
        assert!(first.is_shared(GROUP, 7) && !first.is_shared(GROUP, 8));
    }
}
