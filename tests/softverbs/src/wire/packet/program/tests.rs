//! The program in the kernel against the same thing said in Rust. Needs root.

use super::super::port::Port;
use super::super::ring::Ring;
use super::super::{bpf, layout};
use crate::flow::{Key, Table, Verdict, walk};
use crate::wire::syscall::Fd;
use crate::wire::{EthernetMatch, Ipv4Match, Masked, PortMatch, Rule, RuleKind, Transport};
use proptest::prelude::*;

/// The address that a frame has to have to be for the loopback interface, on which test runs
/// take place; and a group.
const HOST: [u8; 6] = [0; 6];
const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 1];

#[test]
fn the_kernel_accepts_the_program() {
    let [table, queues, alive] = Port::create().expect("maps");
    let program = super::assemble(super::Maps {
        table: table.raw(),
        queues: queues.raw(),
        alive: alive.raw(),
    });
    let mut log = vec![0; 16 << 20];
    let loaded = bpf::load("softverbs_test", &program, &mut log);
    let text = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = text.trim_end_matches('\0').lines().collect();
    let end = &lines[lines.len().saturating_sub(60)..];
    assert!(loaded.is_ok(), "{loaded:?}\n{}", end.join("\n"));
}

fn masked<T: Copy>(value: T, mask: T) -> Masked<T> {
    Masked { value, mask }
}

/// Rules over few values, so that they often meet, with masks that are often partial.
fn any_rule() -> impl Strategy<Value = Rule> {
    let ethernet = prop_oneof![
        Just(masked(HOST, [0xff; 6])),
        Just(masked(GROUP, [0xff; 6])),
        Just(masked([1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0])),
    ]
    .prop_map(|destination| EthernetMatch {
        destination,
        ether_type: masked(0x0800, 0xffff),
        ..EthernetMatch::default()
    });
    let address = (0..3u32, prop_oneof![Just(u32::MAX), Just(1), Just(0)]);
    let port = (0..3u16, prop_oneof![Just(u16::MAX), Just(0)]);
    let ipv4 = (address.clone(), address).prop_map(|(s, d)| Ipv4Match {
        source: masked(s.0 & s.1, s.1),
        destination: masked(d.0 & d.1, d.1),
    });
    let ports = (port.clone(), port, any::<bool>()).prop_map(|(s, d, udp)| PortMatch {
        transport: if udp { Transport::Udp } else { Transport::Tcp },
        source: masked(s.0 & s.1, s.1),
        destination: masked(d.0 & d.1, d.1),
    });
    let kind = prop_oneof![
        8 => Just(RuleKind::Normal),
        1 => Just(RuleKind::AllDefault),
        1 => Just(RuleKind::Sniffer),
    ];
    (
        kind,
        0..3u16,
        any::<bool>(),
        proptest::option::of(ethernet),
        proptest::option::of(ipv4),
        proptest::option::of(ports),
        0..100u32,
    )
        .prop_map(|(kind, priority, dont_trap, ethernet, ipv4, ports, tag)| {
            let normal = kind == RuleKind::Normal;
            Rule {
                kind,
                priority,
                dont_trap,
                ethernet: ethernet.filter(|_| normal),
                ipv4: ipv4.filter(|_| normal),
                ports: ports.filter(|_| normal),
                tag,
            }
        })
}

/// IPv4 with options, fragments, all protocols; and what is not IPv4.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    (
        prop_oneof![Just(HOST), Just(GROUP)],
        prop_oneof![9 => Just([8u8, 0]), 1 => Just([8, 6])],
        prop_oneof![8 => Just(0x45u8), 1 => Just(0x46), 1 => any::<u8>()],
        prop_oneof![4 => Just(0u16), 1 => Just(0x4000), 1 => Just(0x2000), 1 => Just(7)],
        prop_oneof![4 => Just(17u8), 2 => Just(6), 1 => Just(1)],
        (0..3u8, 0..3u8, 0..3u8, 0..3u8),
        0..70usize,
    )
        .prop_map(
            |(mac, kind, version, fragment, protocol, (s, d, from, to), cut)| {
                let mut f = mac.to_vec();
                f.extend([2, 0, 0, 0, 0, 9]);
                f.extend(kind);
                f.extend([version, 0, 0, 40, 0, 0]);
                f.extend(fragment.to_be_bytes());
                f.extend([64, protocol, 0, 0, 0, 0, 0, s, 0, 0, 0, d]);
                if version == 0x46 {
                    f.extend([1, 1, 1, 1]);
                }
                f.extend([0, from, 0, to, 0, 12, 0, 0, 1, 2, 3, 4]);
                // Never less than an IPv4 header: the kernel refuses to run on that.
                f.truncate(34 + cut);
                f
            },
        )
}

/// Three queues and their rings.
fn queues(port: &Port) -> Vec<(u32, Fd, Ring)> {
    (0..3)
        .map(|_| port.open_queue(64, 1500).expect("a queue"))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_program_does_what_the_table_says(
        rules in proptest::collection::vec((any_rule(), 0..3usize), 0..12),
        frames in proptest::collection::vec(any_frame(), 1..24),
        closed in proptest::option::of(0..3usize),
    ) {
        let port = Port::load(Port::create().expect("maps")).expect("a program");
        let queues = queues(&port);
        let mut table = Table::new(layout::RULES);
        for (id, (rule, queue)) in (1..).zip(&rules) {
            port.attach(queues[*queue].0, rule).expect("room");
            table.insert(id, queues[*queue].0, 0, rule).expect("room");
        }
        if let Some(closed) = closed {
            port.forget(queues[closed].0);
        }
        for frame in &frames {
            let key = Key::of_frame(frame).expect("an Ethernet header");
            let mut expected = vec![Vec::new(); 3];
            let verdict = walk(table.entries().iter().copied(), &key, |entry| {
                let at = queues.iter().position(|q| q.0 == entry.queue).expect("a queue");
                if closed == Some(at) {
                    return false;
                }
                expected[at].push(entry.tag);
                true
            });
            let answer = bpf::test_run(port.program().raw(), frame).expect("a run");
            prop_assert_eq!(answer == 2, verdict == Verdict::Taken, "{:?}", frame);
            for (at, (.., ring)) in queues.iter().enumerate() {
                let mut got = Vec::new();
                while let Some(record) = ring.peek() {
                    prop_assert_eq!(record.frame, &frame[..]);
                    got.push(record.header.tag);
                    ring.release(record.next());
                }
                prop_assert_eq!(&got, &expected[at], "queue {} of {:?}", at, frame);
            }
        }
    }
}
