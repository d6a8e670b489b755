//! SO_TIMESTAMPING: the card's time where it has one, and none made up where it has not.

use crate::rig::*;
use tests::check::{DEFAULTS, SLEEP};
use tests::peer::Peer;
use tests::preload::{Mode, Program};
use tests::topology::Lab;
use tests::victim::{self, Variant};

fn transcript(mode: Mode, device: Option<&[(&str, &str)]>) -> Option<String> {
    let lab = Lab::open()?;
    let peer = Peer::start(&lab, mode != Mode::Native);
    let mut program = Program::new(victim::compile("hardware_time", Variant::Plain), &[])
        .on(&lab.near)
        .mode(mode)
        .env("PEER", &peer.address());
    if let Some(variables) = device {
        program = program.device(over_packet());
        for (name, value) in variables {
            program = program.env(name, value);
        }
    } else {
        program = program.device(Vec::new());
    }
    let finished = program.run().success("hardware_time");
    let reports = peer.reports();
    if mode != Mode::Native {
        let by_engine: u64 = reports
            .iter()
            .flatten()
            .map(tests::stats::rx)
            .max()
            .unwrap_or(0);
        assert_eq!(by_engine, 3, "{}", finished.stderr);
    }
    Some(finished.stdout)
}

#[test]
fn hardware_times_are_the_cards() {
    // A veth has no hardware: software's alone.
    let Some(oracle) = transcript(Mode::Native, None) else {
        return;
    };
    assert!(!oracle.contains("none, none, recent"), "{oracle}");
    assert!(oracle.contains("recent, none, none"), "{oracle}");
    for mode in [DEFAULTS, SLEEP] {
        assert_eq!(transcript(mode, None).expect("a lab"), oracle, "packet");
        for without in [
            ("SOFTVERBS_NO_TIMESTAMP", "1"),
            ("VMA_HW_TS_CONVERSION", "0"),
        ] {
            let shown = transcript(mode, Some(&[without])).expect("a lab");
            assert_eq!(shown, oracle, "{without:?}");
        }
        let shown = transcript(mode, Some(&[])).expect("a lab");
        let both = "recent, none, recent";
        let expected = oracle
            .replacen("no stamps", "type 37 length 64: none, none, recent", 1)
            .replacen("recent, none, none", both, 1);
        assert_eq!(shown, expected);
    }
}
