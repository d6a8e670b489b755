//! From flows to flow rules, and from one set of rules to the next.
//!
//! A change makes the new rules first and takes the old ones away then. While both are
//! there, an ordinary rule (priority 0) takes the frame and ends the matching, so that the
//! shared one for the same flow (priority 1, IBV_FLOW_ATTR_FLAGS_DONT_TRAP) does not see it: no
//! frame is lost, none comes twice, whichever way the flow changes. Several flows may come
//! down to one rule (multicast by MAC address alone); it goes with the last of them.

use crate::device::{Flow, is_whole};
use crate::error::Reason;
use crate::sys::verbs::{RuleSpec, UdpSpec};
use crate::wire::multicast_mac;
use std::collections::HashMap;

/// RoCE v2: the card's own traffic, never steered.
const ROCE_PORT: u16 = 4791;

/// What rules are made from beside the flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scope {
    /// MAC address of the interface.
    pub(super) mac: [u8; 6],
    /// The device's port, from 1.
    pub(super) port: u8,
    /// VMA_ETH_MC_L2_ONLY_RULES.
    pub(super) multicast_by_mac: bool,
}

/// The rules for these flows, sorted out so that each is there once; what several flows
/// share with a shared one is shared. A group all of whose flows are shared has one rule
/// without ports: it takes fragments as well, which a card tells by no port (not even
/// the first, DPDK's guide to mlx5) and which the filter of a kernel socket cannot tell
/// once they are whole.
///
/// # Errors
/// A flow that must not be steered.
pub(super) fn wanted(flows: &[Flow], scope: &Scope) -> Result<Vec<RuleSpec>, Reason> {
    let mut order: Vec<RuleSpec> = Vec::with_capacity(flows.len());
    let mut place: HashMap<RuleSpec, usize> = HashMap::with_capacity(flows.len());
    for flow in flows {
        if flow.port == ROCE_PORT {
            return Err(Reason::RocePort);
        }
        let whole = is_whole(flows, flow.destination);
        let spec = rule(flow, scope, whole);
        // Equal but for `shared`.
        let key = RuleSpec {
            shared: false,
            ..spec
        };
        match place.get(&key) {
            Some(&at) => order[at].shared |= spec.shared,
            None => {
                place.insert(key, order.len());
                order.push(spec);
            }
        }
    }
    Ok(order)
}

fn rule(flow: &Flow, scope: &Scope, whole: bool) -> RuleSpec {
    let multicast = flow.destination.is_multicast();
    let udp = UdpSpec {
        destination: flow.destination,
        port: if whole { 0 } else { flow.port },
        peer: flow.peer.map(|peer| (*peer.ip(), peer.port())),
    };
    RuleSpec {
        mac: if multicast {
            multicast_mac(flow.destination)
        } else {
            scope.mac
        },
        udp: (!(multicast && scope.multicast_by_mac)).then_some(udp),
        port: scope.port,
        shared: flow.shared,
    }
}

/// The rules in force. `T` is the rule itself: it leaves the device when it is dropped.
#[derive(Debug)]
pub(super) struct Rules<T> {
    present: HashMap<RuleSpec, T>,
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self {
            present: HashMap::new(),
        }
    }
}

impl<T> Rules<T> {
    /// Makes the present rules the wanted ones: first what is new, by `create`, then away
    /// with what is not wanted any more.
    ///
    /// # Errors
    /// That of `create`: the rules are those of before then.
    pub(super) fn change(
        &mut self,
        wanted: &[RuleSpec],
        mut create: impl FnMut(&RuleSpec) -> Result<T, Reason>,
    ) -> Result<(), Reason> {
        let mut made = Vec::new();
        for spec in wanted {
            if !self.present.contains_key(spec) {
                // On failure `made` is dropped, and with it what was added.
                made.push((*spec, create(spec)?));
            }
        }
        self.present.extend(made);
        let keep: std::collections::HashSet<_> = wanted.iter().collect();
        self.present.retain(|spec, _| keep.contains(spec));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
