use super::*;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::rc::Rc;

const SCOPE: Scope = Scope {
    mac: [2, 0, 0, 0, 0, 9],
    port: 1,
    multicast_by_mac: false,
};

fn flow(destination: [u8; 4], port: u16) -> Flow {
    Flow {
        destination: destination.into(),
        port,
        peer: None,
        shared: false,
    }
}

#[test]
fn unicast_goes_by_the_interfaces_address_and_multicast_by_the_groups() {
    let peer = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 7);
    let flows = [
        Flow {
            peer: Some(peer),
            ..flow([10, 0, 0, 1], 5000)
        },
        flow([239, 129, 2, 3], 5001),
    ];
    let rules = wanted(&flows, &SCOPE).unwrap();
    assert_eq!(rules[0].mac, SCOPE.mac);
    let udp = rules[0].udp.unwrap();
    assert_eq!(udp.destination, Ipv4Addr::new(10, 0, 0, 1));
    assert_eq!((udp.port, udp.peer), (5000, Some((*peer.ip(), 7))));
    assert_eq!(rules[1].mac, [1, 0, 0x5e, 1, 2, 3]);
    assert_eq!(rules[1].udp.unwrap().peer, None);
}

#[test]
fn groups_of_one_mac_address_come_down_to_one_rule() {
    let scope = Scope {
        multicast_by_mac: true,
        ..SCOPE
    };
    let shared = Flow {
        shared: true,
        ..flow([224, 1, 2, 3], 5001)
    };
    let flows = [
        flow([10, 0, 0, 1], 5000),
        flow([239, 129, 2, 3], 5000),
        shared,
        flow([239, 129, 2, 3], 5002),
    ];
    let rules = wanted(&flows, &scope).unwrap();
    assert_eq!(rules.len(), 2);
    assert!(rules[0].udp.is_some());
    assert_eq!(rules[1].udp, None);
    assert!(rules[1].shared, "one of the three must reach others too");
}

#[test]
fn a_group_that_is_shared_from_all_ports_has_one_rule_with_its_fragments() {
    let shared = |port, shared| Flow {
        shared,
        ..flow([239, 1, 1, 1], port)
    };
    let rules = wanted(&[shared(9, true), shared(10, true)], &SCOPE).unwrap();
    assert_eq!(rules.len(), 1);
    assert!(rules[0].shared && rules[0].udp.unwrap().port == 0);
    // The kernel socket of the other port has no filter.
    let rules = wanted(&[shared(9, true), shared(10, false)], &SCOPE).unwrap();
    let ports: Vec<u16> = rules.iter().map(|r| r.udp.unwrap().port).collect();
    assert_eq!(ports, [9, 10]);
}

#[test]
fn the_cards_own_port_is_left_alone() {
    let flows = [flow([10, 0, 0, 1], 5000), flow([10, 0, 0, 1], 4791)];
    assert_eq!(wanted(&flows, &SCOPE), Err(Reason::RocePort));
}

/// The device: which rules are in it, and what happened in which order.
#[derive(Default)]
struct Table {
    rules: HashSet<RuleSpec>,
    most_of_a_flow: usize,
}

struct Made {
    spec: RuleSpec,
    table: Rc<RefCell<Table>>,
}

impl Drop for Made {
    fn drop(&mut self) {
        assert!(self.table.borrow_mut().rules.remove(&self.spec));
    }
}

fn destination(spec: &RuleSpec) -> Option<Ipv4Addr> {
    spec.udp.map(|udp| udp.destination)
}

fn create(table: &Rc<RefCell<Table>>, spec: &RuleSpec) -> Made {
    let mut state = table.borrow_mut();
    assert!(state.rules.insert(*spec), "made twice");
    let same = state
        .rules
        .iter()
        .filter(|r| r.mac == spec.mac && destination(r) == destination(spec))
        .count();
    state.most_of_a_flow = state.most_of_a_flow.max(same);
    Made {
        spec: *spec,
        table: Rc::clone(table),
    }
}

#[test]
fn a_flow_that_becomes_shared_is_covered_all_the_time() {
    let table = Rc::new(RefCell::new(Table::default()));
    let mut rules = Rules::default();
    for shared in [false, true, false] {
        let flows = [Flow {
            shared,
            ..flow([239, 1, 1, 1], 9)
        }];
        let specs = wanted(&flows, &SCOPE).unwrap();
        rules
            .change(&specs, |spec| Ok(create(&table, spec)))
            .unwrap();
        assert_eq!(table.borrow().rules, specs.into_iter().collect());
    }
    // The new one was in before the old one went.
    assert_eq!(table.borrow().most_of_a_flow, 2);
    drop(rules);
    assert!(table.borrow().rules.is_empty());
}

proptest! {
    /// Whatever the steps, the device holds exactly what was asked for last, and after a
    /// failure exactly what it held before.
    #[test]
    fn the_device_holds_what_was_wanted_last(
        steps in proptest::collection::vec(
            (proptest::collection::btree_set((0u8..4, 0u16..3, any::<bool>()), 0..8), proptest::option::of(0usize..8)),
            1..12,
        )
    ) {
        let table = Rc::new(RefCell::new(Table::default()));
        let mut rules = Rules::default();
        let mut expected: HashSet<RuleSpec> = HashSet::new();
        for (flows, fail_at) in steps {
            let flows: Vec<Flow> = flows
                .iter()
                .map(|(host, port, shared)| Flow { shared: *shared, ..flow([10, 0, 0, *host], *port) })
                .collect();
            let specs = wanted(&flows, &SCOPE).unwrap();
            let mut calls = 0;
            let result = rules.change(&specs, |spec| {
                calls += 1;
                if fail_at == Some(calls) {
                    return Err(Reason::NoFlowRules);
                }
                Ok(create(&table, spec))
            });
            if result.is_ok() {
                expected = specs.into_iter().collect();
            }
            prop_assert_eq!(&table.borrow().rules, &expected);
        }
    }
}
