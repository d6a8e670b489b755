//! `shim-doctor` on the software card and without any: its verdict, and that its live test
//! notices what is wrong.

use std::time::Duration;
use tests::backend::softverbs;
use tests::netns::Netns;
use tests::preload::{Finished, Mode, Program, tool};
use tests::topology::Lab;

const CARD: i32 = 0;
const FAILED: i32 = 1;
const SOFTWARE: i32 = 3;
const NO_CARD: i32 = 4;

/// The doctor on a host of the lab; `card`: the software card is there, with these variables.
fn doctor(host: &Netns, args: &[&str], card: Option<&[(&str, &str)]>) -> Program {
    let program = Program::new(tool("shim-doctor"), args)
        .on(host)
        .mode(Mode::Native)
        .limit(Duration::from_secs(60));
    let Some(variables) = card else {
        return program.env("LD_LIBRARY_PATH", "");
    };
    let program = program
        .env("LD_LIBRARY_PATH", &softverbs().display().to_string())
        .env("SOFTVERBS_STRICT", "abort");
    variables
        .iter()
        .fold(program, |p, (name, value)| p.env(name, value))
}

/// The verdict, which is the last line, and nothing else that claims to be one.
#[track_caller]
fn verdict(finished: &Finished, code: i32) -> String {
    assert_eq!(
        finished.code(),
        code,
        "{}{}",
        finished.stdout,
        finished.stderr
    );
    let last = finished.stdout.lines().last().unwrap_or_default();
    assert_eq!(finished.stdout.matches("VERDICT: ").count(), 1);
    last.strip_prefix("VERDICT: ")
        .unwrap_or_else(|| panic!("{}", finished.stdout))
        .to_owned()
}

/// Two ports of one host, joined by a cable.
fn two_ports(lab: &Lab) {
    for words in [
        "link add va type veth peer name vb",
        "addr add 10.79.0.1/24 dev va",
        "addr add 10.79.0.2/24 dev vb",
        "link set va up",
        "link set vb up",
    ] {
        let _ = lab.near.ip(words).expect("a veth pair");
    }
}

#[test]
fn two_ports_of_the_software_card() {
    let Some(lab) = Lab::open() else { return };
    two_ports(&lab);
    let args = ["va", "--second", "vb", "--count", "300"];
    let finished = doctor(&lab.near, &args, Some(&[])).run();
    let last = verdict(&finished, SOFTWARE);
    assert!(last.contains("verbs on softverbs_va, datagrams pass: SOFTWARE"));
    for part in [
        "ok    flow steering",
        "600 frames between va and vb: 0 lost, 0 twice",
        "verbs softverbs_va: 300 received and verbs softverbs_vb: 300 received",
    ] {
        assert!(
            finished.stdout.contains(part),
            "{part:?}:\n{}",
            finished.stdout
        );
    }
    // What is lost is counted, and is a failure.
    let lossy = [("SOFTVERBS_FAULTS", "va/drop=100")];
    let finished = doctor(&lab.near, &args, Some(&lossy)).run();
    let last = verdict(&finished, FAILED);
    assert!(
        last.contains("600 frames between va and vb: 3 lost, 0 twice"),
        "{last}"
    );
}

#[test]
fn a_peer_through_the_library() {
    let Some(lab) = Lab::open() else { return };
    let answering = doctor(&lab.far, &["--answer", "7777", "--seconds", "50"], None).spawn();
    std::thread::sleep(Duration::from_millis(300));
    let args = ["veth0", "--peer", "10.78.0.2:7777", "--count", "300"];
    let finished = doctor(&lab.near, &args, Some(&[])).run();
    let last = verdict(&finished, SOFTWARE);
    assert!(last.contains("datagrams pass: SOFTWARE"), "{last}");
    let line =
        "300 datagrams to 10.78.0.2:7777 and back: 0 lost, 0 twice; rings: verbs softverbs_veth0";
    assert!(finished.stdout.contains(line), "{}", finished.stdout);
    // The same without a card.
    let finished = doctor(&lab.near, &args, None).run();
    let last = verdict(&finished, NO_CARD);
    assert!(last.contains("veth0: packet, datagrams pass"), "{last}");
    let why = "packet (auto; verbs: the interface has no RDMA device)";
    assert!(finished.stdout.contains(why), "{}", finished.stdout);
    let _ = answering.kill();
    let finished = doctor(&lab.near, &args, Some(&[])).run();
    let last = verdict(&finished, FAILED);
    assert!(last.contains("10.78.0.2:7777 does not answer"), "{last}");
}

/// Each thing that stands in the way is named, and packet serves instead.
#[test]
fn what_is_wrong_with_a_card_is_named() {
    let Some(lab) = Lab::open() else { return };
    for (variable, value, line) in [
        (
            "SOFTVERBS_LINK_LAYER",
            "infiniband",
            "FAIL  link layer         InfiniBand",
        ),
        (
            "SOFTVERBS_TRANSPORT",
            "iwarp",
            "FAIL  transport          iWARP",
        ),
        (
            "SOFTVERBS_NO_FLOW_STEERING",
            "1",
            "FAIL  flow steering      the device steers no flows",
        ),
        (
            "SOFTVERBS_INTERFACES",
            "other",
            "note  card               no: the interface has no RDMA device",
        ),
    ] {
        let card = [(variable, value), ("SOFTVERBS_STRICT", "errno")];
        let finished = doctor(&lab.near, &["veth0"], Some(&card)).run();
        let last = verdict(&finished, NO_CARD);
        assert!(last.starts_with("veth0: packet, no live test"), "{last}");
        assert!(
            finished.stdout.contains(line),
            "{line:?}:\n{}",
            finished.stdout
        );
    }
    let bare = doctor(&lab.near, &["veth0"], Some(&[]))
        .wrapper(&["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"])
        .run();
    let last = verdict(&bare, FAILED);
    assert!(last.contains("missing CAP_NET_RAW"), "{last}");
    assert!(bare.stdout.contains("FAIL  CAP_NET_RAW"), "{}", bare.stdout);
    let unknown = doctor(&lab.near, &["nothing0"], None).run();
    assert_ne!(unknown.code(), CARD);
}
