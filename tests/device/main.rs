//! The devices behind the seam: one conformance suite that every backend passes, and what
//! the verbs device does with a card's capabilities, faults and full queues.
//!
//! A case runs in a process of its own, in a network namespace of its own, which is gone with
//! it; the verbs device finds the software library there by LD_LIBRARY_PATH.

mod cases;
mod conformance;
mod faults;
mod link;
mod verbs;

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use tests::{backend, require, topology};

/// How a case's process is told which it is.
const CASE: &str = "DEVICE_CASE";

/// Runs a case; `env` beside LD_LIBRARY_PATH and what makes a broken rule fatal.
fn run(case: &str, env: &[(&str, &str)]) {
    run_by(&[], case, env);
}

/// The same, by a program that takes something away first.
fn run_by(wrapper: &[&str], case: &str, env: &[(&str, &str)]) {
    if !require::netns() || !require::program("unshare") {
        return;
    }
    let _turn = topology::Turn::take();
    let mut command = Command::new("timeout");
    command
        .args(["-k", "1", "60", "unshare", "--net"])
        .args(wrapper)
        .arg(std::env::current_exe().expect("a test binary has a path"))
        .args(["--exact", "case", "--ignored", "--nocapture"])
        .env(CASE, case)
        .env("SOFTVERBS_STRICT", "abort")
        .env("SOFTVERBS_SWITCH", format!("vdev{}", std::process::id()))
        .env("LD_LIBRARY_PATH", backend::softverbs())
        .envs(env.iter().copied());
    let output = command.output().expect("timeout(1) is there");
    assert!(
        output.status.success(),
        "{case} {env:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The inside of [`run`].
#[test]
#[ignore = "the other tests run it, each in a process of its own"]
fn case() {
    let name = std::env::var(CASE).expect("run by the other tests only");
    link::make();
    cases::find(&name)();
}

/// The two wires of the software library.
const WIRES: [&str; 2] = ["packet", "switch"];

fn on_both_wires(case: &str) {
    for wire in WIRES {
        run(case, &[("SOFTVERBS_WIRE", wire)]);
    }
}

#[test]
fn memory_conforms() {
    run("memory", &[]);
}

#[test]
fn packet_conforms() {
    run("packet", &[]);
}

#[test]
fn verbs_conforms_on_the_packet_wire() {
    run("verbs", &[("SOFTVERBS_WIRE", "packet")]);
}

#[test]
fn verbs_conforms_on_the_switch_wire() {
    run("verbs", &[("SOFTVERBS_WIRE", "switch")]);
}

/// By an ordinary completion queue, without help of the card.
#[test]
fn verbs_conforms_on_a_plain_card() {
    let bare = [
        ("SOFTVERBS_WIRE", "packet"),
        ("SOFTVERBS_NO_CQ_EX", "1"),
        ("SOFTVERBS_NO_IP_CSUM", "1"),
        ("SOFTVERBS_NO_TIMESTAMP", "1"),
        ("SOFTVERBS_MAX_INLINE", "0"),
        ("SOFTVERBS_MAX_WR", "256"),
        // How much fits inside a request is found out by asking for less and less.
        ("SOFTVERBS_STRICT", "errno"),
    ];
    run("verbs", &bare);
}

#[test]
fn each_refusal_has_its_reason() {
    let refusals = [
        ("SOFTVERBS_LINK_LAYER", "infiniband", "InfiniBand"),
        ("SOFTVERBS_TRANSPORT", "iwarp", "Iwarp"),
        ("SOFTVERBS_NO_RAW_PACKET", "1", "NoRawPacket"),
        ("SOFTVERBS_NO_FLOW_STEERING", "1", "NoFlowSteering"),
        ("SOFTVERBS_INTERFACES", "other", "NoRdmaDevice"),
        ("SOFTVERBS_MAX_QP", "0", "NoQueuePairs"),
        ("SOFTVERBS_MAX_FLOWS", "2", "NoFlowRules"),
    ];
    for (variable, value, reason) in refusals {
        run(
            "refusal",
            &[
                (variable, value),
                ("SOFTVERBS_STRICT", "errno"),
                ("DEVICE_REASON", reason),
            ],
        );
    }
    let soft_roce = [
        ("SOFTVERBS_NO_RAW_PACKET", "1"),
        ("SOFTVERBS_NO_FLOW_STEERING", "1"),
        ("SOFTVERBS_STRICT", "errno"),
        ("DEVICE_REASON", "RoceOnly"),
    ];
    run("refusal", &soft_roce);
}

/// Debian's own library: it loads, and finds no card.
#[test]
fn the_real_library_finds_no_device() {
    run(
        "refusal",
        &[("LD_LIBRARY_PATH", ""), ("DEVICE_REASON", "NoRdmaDevice")],
    );
}

#[test]
fn queues_of_an_interface_share_the_device() {
    on_both_wires("shares_the_device");
}

#[test]
fn a_full_send_queue_says_so() {
    on_both_wires("full_send_queue");
}

#[test]
fn rules_go_with_their_last_flow() {
    on_both_wires("rules_come_and_go");
}

#[test]
fn a_change_that_fails_leaves_what_was() {
    let few = [("SOFTVERBS_MAX_FLOWS", "4"), ("SOFTVERBS_STRICT", "errno")];
    run("rolls_back", &few);
}

#[test]
fn groups_by_mac_address_alone() {
    on_both_wires("by_mac_alone");
}

#[test]
fn time_stamps_are_the_cards_where_it_has_them() {
    run(
        "stamps",
        &[("DEVICE_STAMPS", "card"), ("SOFTVERBS_WIRE", "switch")],
    );
    run(
        "stamps",
        &[
            ("SOFTVERBS_NO_TIMESTAMP", "1"),
            ("SOFTVERBS_WIRE", "switch"),
        ],
    );
}

#[test]
fn descriptors_are_out_of_the_programs_way() {
    run("descriptors", &[]);
}

#[test]
fn ports_and_devices_that_go_are_announced_to_every_queue() {
    on_both_wires("faults");
}

#[test]
fn a_port_without_link_is_told_from_the_start() {
    run("no_link_at_first", &[]);
}

/// On the wire that needs none itself.
#[test]
fn the_data_path_makes_no_system_call() {
    if !require::netns() || !require::program("strace") {
        return;
    }
    let path = std::env::temp_dir().join(format!("device-{}.strace", std::process::id()));
    let text = path.to_string_lossy().into_owned();
    for without_stamps in ["0", "1"] {
        let env = [
            ("SOFTVERBS_NO_TIMESTAMP", without_stamps),
            ("SOFTVERBS_WIRE", "switch"),
        ];
        run_by(&["strace", "-f", "-o", &text], "no_system_call", &env);
        let calls = std::fs::read_to_string(&path).expect("strace has written it");
        let _ = std::fs::remove_file(&path);
        let thread_of = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        let is_mark = |line: &&str| line.contains(" sched_yield()");
        let mark = calls.lines().find(is_mark).expect("the case yields twice");
        let own: Vec<_> = calls
            .lines()
            .filter(|l| thread_of(l) == thread_of(mark))
            .collect();
        let marks: Vec<_> = (0..own.len()).filter(|n| is_mark(&own[*n])).collect();
        let [begin, end] = marks[..] else {
            panic!("{} marks", marks.len());
        };
        assert_eq!(&own[begin + 1..end], [""; 0], "between the two");
    }
}

/// With a file by which the case tells the library what is to go wrong.
fn run_with_faults(case: &str, wire: &str) {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let n = SERIAL.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("device-{}-{n}.faults", std::process::id()));
    std::fs::write(&path, "").expect("the temporary directory is writable");
    let text = path.to_string_lossy().into_owned();
    let env = [
        ("SOFTVERBS_WIRE", wire),
        ("SOFTVERBS_CONTROL", text.as_str()),
        ("SOFTVERBS_STRICT", "errno"),
    ];
    run_by(&["prlimit", "--memlock=65536"], case, &env);
    let _ = std::fs::remove_file(&path);
}

#[test]
fn a_queue_in_error_says_so_and_keeps_what_it_has() {
    for wire in WIRES {
        run_with_faults("receive_error", wire);
        run_with_faults("send_error", wire);
        run_with_faults("fatal_events", wire);
    }
}

#[test]
fn what_fails_on_the_way_is_taken_back_and_has_its_reason() {
    run_with_faults("refused_calls", "switch");
}

#[test]
fn without_cap_net_raw_the_reason_is_that() {
    if require::program("setpriv") {
        let env = [
            ("SOFTVERBS_STRICT", "errno"),
            ("DEVICE_REASON", "NoPermission"),
        ];
        run_by(&["setpriv", "--bounding-set=-net_raw"], "refusal", &env);
    }
}

/// What reaches the library, call by call.
#[test]
fn batches_are_those_of_the_options() {
    if !require::netns() {
        return;
    }
    let path = std::env::temp_dir().join(format!("device-{}.trace", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let text = path.to_string_lossy().into_owned();
    let env = [
        ("SOFTVERBS_WIRE", "switch"),
        ("SOFTVERBS_TRACE", text.as_str()),
        ("SOFTVERBS_TRACE_DATA", "1"),
    ];
    run("traced", &env);
    let trace = std::fs::read_to_string(&path).expect("the library has written it");
    let _ = std::fs::remove_file(&path);
    let count = |start: &str| trace.lines().filter(|l| l.starts_with(start)).count();
    // Two queues of 64; 16 frames came and went back in batches of eight.
    assert_eq!(count("post_recv "), 2 * 64 + 16, "{trace}");
    let sends: Vec<_> = trace
        .lines()
        .filter(|l| l.starts_with("post_send "))
        .collect();
    assert_eq!(sends.len(), 16);
    for (n, line) in sends.iter().enumerate() {
        let flags = line
            .split("flags=0x")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        let flags = flags.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let inline = if n % 2 == 0 { INLINE } else { 0 };
        let signalled = if n % 4 == 3 { SIGNALED } else { 0 };
        assert_eq!(
            flags,
            Some(IP_CSUM | inline | signalled),
            "send {n}: {line}"
        );
    }
    assert!(count("modify_cq ") == 2, "{trace}");
    let order: Vec<_> = trace
        .lines()
        .filter_map(|l| l.split(' ').next())
        .filter(|call| {
            call.starts_with("destroy_") || call.starts_with("de") || *call == "close_device"
        })
        .collect();
    let place = |call: &str| order.iter().position(|c| c.contains(call));
    let expected = [
        "destroy_flow",
        "destroy_qp",
        "destroy_cq",
        "dereg_mr",
        "dealloc_pd",
        "close_device",
    ];
    assert!(
        expected.iter().all(|call| place(call).is_some()),
        "{order:?}"
    );
    assert!(place("destroy_qp") < place("destroy_cq") && place("destroy_qp") < place("dereg_mr"));
    assert!(
        place("destroy_cq") < place("close_device") && place("dealloc_pd") < place("close_device")
    );
}

/// IBV_SEND_*.
const SIGNALED: u32 = 1 << 1;
const INLINE: u32 = 1 << 3;
const IP_CSUM: u32 = 1 << 4;
