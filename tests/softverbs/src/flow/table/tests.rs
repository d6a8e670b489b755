use super::*;
use crate::wire::{EthernetMatch, Ipv4Match, Masked, PortMatch, Transport};
use proptest::prelude::*;
use std::collections::BTreeMap;

const HOST: [u8; 6] = [2, 0, 0, 0, 0, 1];
const GROUP: [u8; 6] = [1, 0, 0x5e, 1, 2, 3];

fn exact<T>(value: T, mask: T) -> Masked<T> {
    Masked { value, mask }
}

fn udp(mac: [u8; 6], address: u32, port: u16) -> Rule {
    Rule {
        kind: RuleKind::Normal,
        priority: 0,
        dont_trap: false,
        ethernet: Some(EthernetMatch {
            destination: exact(mac, [0xff; 6]),
            ..EthernetMatch::default()
        }),
        ipv4: Some(Ipv4Match {
            destination: exact(address, u32::MAX),
            ..Ipv4Match::default()
        }),
        ports: Some(PortMatch {
            transport: Transport::Udp,
            destination: exact(port, 0xffff),
            source: Masked::default(),
        }),
        tag: 0,
    }
}

fn frame(mac: [u8; 6], address: u32, port: u16, fragment: u16) -> Vec<u8> {
    let mut frame = mac.to_vec();
    frame.extend([2, 0, 0, 0, 0, 9, 8, 0, 0x45, 0, 0, 32, 0, 0]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, 17, 0, 0, 10, 0, 0, 9]);
    frame.extend(address.to_be_bytes());
    frame.extend([0x30, 0x39]);
    frame.extend(port.to_be_bytes());
    frame.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    frame
}

fn look_up(table: &Table, frame: &[u8]) -> (Vec<u32>, Verdict) {
    let mut queues = Vec::new();
    let key = Key::of_frame(frame).expect("a whole header");
    let verdict = walk(table.entries().iter().copied(), &key, |e| {
        queues.push(e.queue);
        true
    });
    (queues, verdict)
}

fn table(rules: &[(u32, Rule)]) -> Table {
    let mut table = Table::new(64);
    for (id, (queue, rule)) in rules.iter().enumerate() {
        table.insert(id as u64 + 1, *queue, 0, rule).expect("room");
    }
    table
}

#[test]
fn the_same_rule_on_several_queues_copies_and_overlaps_do_not() {
    let rule = udp(HOST, 0x0a00_0001, 5000);
    let wide = Rule { ipv4: None, ..rule };
    let t = table(&[(1, rule), (2, wide), (3, rule), (1, rule)]);
    let (queues, verdict) = look_up(&t, &frame(HOST, 0x0a00_0001, 5000, 0));
    assert_eq!((queues, verdict), (vec![1, 3], Verdict::Taken));
    let (queues, _) = look_up(&t, &frame(HOST, 0x0a00_0002, 5000, 0));
    assert_eq!(queues, [2]);
    let other = frame(HOST, 0x0a00_0001, 5001, 0);
    assert_eq!(look_up(&t, &other), (vec![], Verdict::Kernel));
}

#[test]
fn an_entry_keeps_its_rank_when_its_first_member_goes() {
    let rule = udp(HOST, 1, 5000);
    let wide = Rule { ipv4: None, ..rule };
    let mut t = table(&[(1, rule), (2, wide), (3, rule)]);
    assert!(t.remove(1) && !t.remove(1));
    assert_eq!(look_up(&t, &frame(HOST, 1, 5000, 0)).0, [3]);
    assert!(t.remove(3));
    assert_eq!(look_up(&t, &frame(HOST, 1, 5000, 0)).0, [2]);
}

#[test]
fn priority_then_sharing_rules_first() {
    let ordinary = |priority| Rule {
        priority,
        ..udp(HOST, 1, 5000)
    };
    let sharing = |priority| Rule {
        dont_trap: true,
        ..ordinary(priority)
    };
    let at = |rules: &[(u32, Rule)]| look_up(&table(rules), &frame(HOST, 1, 5000, 0));
    assert_eq!(
        at(&[(1, sharing(1)), (2, ordinary(0))]),
        (vec![2], Verdict::Taken)
    );
    assert_eq!(
        at(&[(2, ordinary(1)), (1, sharing(1))]),
        (vec![1, 2], Verdict::Taken)
    );
    assert_eq!(
        at(&[(1, sharing(1)), (2, sharing(0))]),
        (vec![2, 1], Verdict::Kernel)
    );
}

#[test]
fn an_ordinary_multicast_rule_hides_no_sharing_one() {
    let group = 0xe101_0203;
    let ordinary = udp(GROUP, group, 5000);
    let sharing = Rule {
        dont_trap: true,
        priority: 7,
        ..ordinary
    };
    let t = table(&[(1, ordinary), (2, sharing)]);
    assert_eq!(
        look_up(&t, &frame(GROUP, group, 5000, 0)),
        (vec![2, 1], Verdict::Taken)
    );
}

#[test]
fn fragments_match_no_ports_but_their_addresses() {
    let rule = udp(HOST, 1, 5000);
    let addresses = Rule {
        ports: None,
        ..rule
    };
    for fragment in [0x2000, 0x0010, 0x2010] {
        let piece = frame(HOST, 1, 5000, fragment);
        assert_eq!(look_up(&table(&[(1, rule)]), &piece).1, Verdict::Kernel);
        assert_eq!(look_up(&table(&[(1, addresses)]), &piece).0, [1]);
    }
    // "Do not fragment" is none.
    let whole = frame(HOST, 1, 5000, 0x4000);
    assert_eq!(look_up(&table(&[(1, rule)]), &whole).0, [1]);
}

#[test]
fn masks_connected_peers_tags_and_defaults() {
    let five = |source| Rule {
        ipv4: Some(Ipv4Match {
            source: exact(source, u32::MAX),
            destination: exact(1, u32::MAX),
        }),
        ..udp(HOST, 1, 5000)
    };
    let f = frame(HOST, 1, 5000, 0);
    assert_eq!(look_up(&table(&[(1, five(0x0a00_0009))]), &f).0, [1]);
    assert_eq!(look_up(&table(&[(1, five(0x0a00_0008))]), &f).0, []);

    let any_group = Rule {
        ethernet: Some(EthernetMatch {
            destination: exact([1, 0, 0x5e, 0, 0, 0], [0xff, 0xff, 0xff, 0x80, 0, 0]),
            ..EthernetMatch::default()
        }),
        ipv4: None,
        ports: None,
        ..udp(GROUP, 0, 0)
    };
    let t = table(&[(1, any_group)]);
    assert_eq!(look_up(&t, &frame(GROUP, 5, 6, 0)).0, [1]);
    assert_eq!(look_up(&t, &frame([1, 0, 0x5e, 0x81, 2, 3], 5, 6, 0)).0, []);

    let kind = |kind, dont_trap| Rule {
        kind,
        dont_trap,
        ethernet: None,
        ipv4: None,
        ports: None,
        priority: 0,
        tag: 0,
    };
    let t = table(&[
        (1, kind(RuleKind::AllDefault, false)),
        (2, kind(RuleKind::MulticastDefault, false)),
        (3, udp(HOST, 1, 5000)),
        (4, kind(RuleKind::Sniffer, true)),
    ]);
    assert_eq!(look_up(&t, &f).0, [4, 3]);
    assert_eq!(look_up(&t, &frame(GROUP, 9, 9, 0)).0, [4, 2]);
    assert_eq!(look_up(&t, &frame(HOST, 1, 5001, 0)).0, [4, 1]);

    // A tag in line is seen, and what follows it.
    let mut tagged = f.clone();
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    let vlan = |id| Rule {
        ethernet: Some(EthernetMatch {
            vlan: exact(id, 0x0fff),
            ..EthernetMatch::default()
        }),
        ..udp(HOST, 1, 5000)
    };
    assert_eq!(look_up(&table(&[(1, vlan(5))]), &tagged).0, [1]);
    assert_eq!(look_up(&table(&[(1, vlan(6))]), &tagged).0, []);
    assert_eq!(look_up(&table(&[(1, vlan(0))]), &f).0, []);
    assert_eq!(look_up(&table(&[(1, udp(HOST, 1, 5000))]), &tagged).0, [1]);
}

#[test]
fn queues_that_are_no_more_count_as_absent() {
    let rule = udp(HOST, 1, 5000);
    let t = table(&[(1, rule), (2, rule)]);
    let key = Key::of_frame(&frame(HOST, 1, 5000, 0)).expect("a key");
    assert_eq!(
        walk(t.entries().iter().copied(), &key, |_| false),
        Verdict::Kernel
    );
    assert_eq!(
        walk(t.entries().iter().copied(), &key, |e| e.queue == 2),
        Verdict::Taken
    );
}

#[test]
fn a_full_table_says_so() {
    let mut t = Table::new(1);
    let rule = udp(HOST, 1, 5000);
    assert_eq!(t.insert(1, 1, 0, &rule), Ok(()));
    assert_eq!(t.insert(2, 1, 0, &rule), Err(Full));
}

/// Rules over few values, so that they often meet.
fn any_rule() -> impl Strategy<Value = Rule> {
    let mac = prop_oneof![Just(HOST), Just(GROUP)];
    (
        mac,
        0..2u32,
        0..2u16,
        0..3u16,
        any::<bool>(),
        any::<[bool; 3]>(),
    )
        .prop_map(|(mac, address, port, priority, dont_trap, parts)| {
            let full = udp(mac, address, port);
            Rule {
                priority,
                dont_trap,
                ethernet: full.ethernet.filter(|_| parts[0]),
                ipv4: full.ipv4.filter(|_| parts[1]),
                ports: full.ports.filter(|_| parts[2]),
                ..full
            }
        })
}

/// The rules told from the start: places in order, in each the oldest entry that matches.
fn oracle(rules: &[(u64, u32, Rule)], frame: &[u8]) -> (Vec<u32>, Verdict) {
    let field = |range: std::ops::Range<usize>| frame[range].to_vec();
    let hit = |rule: &Rule| {
        rule.ethernet
            .is_none_or(|e| e.destination.value.to_vec() == field(0..6))
            && rule
                .ipv4
                .is_none_or(|i| i.destination.value.to_be_bytes().to_vec() == field(30..34))
            && rule
                .ports
                .is_none_or(|p| p.destination.value.to_be_bytes().to_vec() == field(36..38))
    };
    let place = |rule: &Rule| {
        let multicast = rule.ethernet.map_or(
            rule.ipv4.is_some_and(|i| i.destination.value >> 28 == 14),
            |e| e.destination.value == GROUP,
        );
        match (rule.dont_trap, multicast) {
            (true, _) => (u32::from(rule.priority), 0),
            (false, true) => (u32::MAX, 1),
            (false, false) => (u32::from(rule.priority), 1),
        }
    };
    let mut places: BTreeMap<_, Vec<&(u64, u32, Rule)>> = BTreeMap::new();
    for rule in rules {
        places.entry(place(&rule.2)).or_default().push(rule);
    }
    let mut queues = Vec::new();
    for (place, members) in places {
        let Some((.., first)) = members.iter().find(|(.., rule)| hit(rule)) else {
            continue;
        };
        let same = |rule: &Rule| {
            (rule.ethernet, rule.ipv4, rule.ports) == (first.ethernet, first.ipv4, first.ports)
        };
        let mut copies: Vec<u32> = members
            .iter()
            .filter(|(.., rule)| same(rule))
            .map(|&&(_, queue, _)| queue)
            .collect();
        copies.sort_unstable();
        copies.dedup();
        queues.extend(copies);
        if place.1 == 1 {
            return (queues, Verdict::Taken);
        }
    }
    (queues, Verdict::Kernel)
}

proptest! {
    #[test]
    fn any_history_gives_what_the_oracle_says(
        steps in proptest::collection::vec((any_rule(), 0..4u32, any::<Option<u8>>()), 1..24)
    ) {
        let mut table = Table::new(64);
        let mut rules: Vec<(u64, u32, Rule)> = Vec::new();
        for (id, (rule, queue, removal)) in steps.into_iter().enumerate() {
            match removal {
                // Only the newest: the oracle knows no rank of an entry whose first member left.
                Some(n) if n < 40 => {
                    if let Some((id, ..)) = rules.pop() {
                        prop_assert!(table.remove(id));
                    }
                }
                _ => {
                    let id = id as u64 + 1;
                    prop_assert_eq!(table.insert(id, queue, 0, &rule), Ok(()));
                    rules.push((id, queue, rule));
                }
            }
            for mac in [HOST, GROUP] {
                for (address, port) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)] {
                    let f = frame(mac, address, port, 0);
                    prop_assert_eq!(look_up(&table, &f), oracle(&rules, &f));
                }
            }
        }
    }

    #[test]
    fn no_bytes_upset_the_key(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = Key::of_frame(&bytes);
    }
}
