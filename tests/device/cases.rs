//! Every case by its name.

use crate::conformance::{self, Kind};
use crate::{faults, verbs};

type Case = fn();

/// The whole suite for a backend, one part after the other on the same interfaces.
fn conformance(kind: Kind) {
    for (name, part) in conformance::PARTS {
        eprintln!("{kind:?}: {name}");
        part(kind);
    }
}

const CASES: &[(&str, Case)] = &[
    ("memory", || conformance(Kind::Memory)),
    ("packet", || conformance(Kind::Packet)),
    ("verbs", || conformance(Kind::Verbs)),
    ("refusal", verbs::refusal),
    ("shares_the_device", verbs::shares_the_device),
    ("full_send_queue", verbs::full_send_queue),
    ("rules_come_and_go", verbs::rules_come_and_go),
    ("rolls_back", verbs::rolls_back),
    ("by_mac_alone", verbs::by_mac_alone),
    ("stamps", verbs::stamps),
    ("descriptors", verbs::descriptors),
    ("traced", verbs::traced),
    ("faults", faults::port_and_device),
    ("no_link_at_first", faults::no_link_at_first),
    ("no_system_call", verbs::no_system_call),
    ("receive_error", faults::receive_error),
    ("send_error", faults::send_error),
    ("fatal_events", faults::fatal_events),
    ("refused_calls", faults::refused_calls),
];

/// A case.
pub(crate) fn find(name: &str) -> Case {
    let found = CASES.iter().find(|(known, _)| *known == name);
    found.unwrap_or_else(|| panic!("no case {name}")).1
}
