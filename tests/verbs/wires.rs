//! sockperf, unmodified, on both wires of the software verbs library; and what a spinning
//! ping-pong asks of the kernel.

use crate::rig::Scratch;
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};
use tests::backend::{on_software, softverbs};
use tests::check::SPIN;
use tests::netns::Netns;
use tests::preload::{Program, Running};
use tests::topology::Lab;
use tests::{require, stats};

/// Round trips that even a crowded machine makes.
const FEWEST: u64 = 100;

fn sockperf(host: &Netns, wire: &str, args: &[&str]) -> Program {
    let mut device = on_software(wire, &softverbs());
    let switch = format!("tests-{}", std::process::id());
    device.push(("SOFTVERBS_SWITCH".into(), switch));
    Program::new("sockperf", args)
        .on(host)
        .mode(SPIN)
        .device(device)
        .limit(Duration::from_secs(30))
}

/// Both ends, while they exchange.
struct Exchange {
    server: Running,
    client: Running,
    _lab: Lab,
}

fn exchange(wire: &str, to: &str, seconds: &str) -> Option<Exchange> {
    if !require::program("sockperf") {
        return None;
    }
    let lab = Lab::open()?;
    let mut server = sockperf(&lab.near, wire, &["server", "-i", to, "-p", "11111"]).spawn();
    server.wait_for("Warmup stage");
    let client = [
        "ping-pong",
        "-i",
        to,
        "-p",
        "11111",
        "-t",
        seconds,
        "-m",
        "64",
    ];
    let mut client = sockperf(&lab.far, wire, &client).spawn();
    client.wait_for("Starting test");
    for running in [&server, &client] {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let snapshot = stats::snapshot(running.pid()).expect("a process under the library");
            let (rx, tx) = (stats::rx(&snapshot), stats::tx(&snapshot));
            if rx.min(tx) >= FEWEST {
                let rings = snapshot.rings.iter();
                assert!(rings.clone().count() > 0);
                assert!(rings.clone().all(|r| r.backend == "verbs"));
                assert!(rings.clone().any(|r| r.rx.frames >= FEWEST));
                break;
            }
            assert!(
                Instant::now() < deadline,
                "{wire}, {to}: {rx} and {tx} by the engine\n{}",
                stats::summary(&snapshot)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Some(Exchange {
        server,
        client,
        _lab: lab,
    })
}

#[track_caller]
fn figure(report: &str, label: &str) -> u64 {
    let at = report
        .find(label)
        .unwrap_or_else(|| panic!("no {label:?} in\n{report}"));
    let rest = report[at + label.len()..].trim_start();
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|d| d.parse().ok()).unwrap_or(u64::MAX)
}

#[track_caller]
fn conclude(exchange: Exchange) {
    let report = exchange.client.wait().success("sockperf client").stdout;
    for nothing in [
        "# dropped messages =",
        "# duplicated messages =",
        "# out-of-order messages =",
    ] {
        assert_eq!(figure(&report, nothing), 0, "{report}");
    }
    let server = exchange.server;
    server.signal(rustix::process::Signal::INT);
    let _ = server.wait().success("sockperf server");
}

#[test]
fn sockperf_over_an_interface() {
    for to in ["10.78.0.1", "239.78.0.1"] {
        let Some(exchange) = exchange("packet", to, "1") else {
            return;
        };
        conclude(exchange);
    }
}

#[test]
fn sockperf_over_shared_memory() {
    for to in ["10.78.0.1", "239.78.0.1"] {
        let Some(exchange) = exchange("switch", to, "1") else {
            return;
        };
        conclude(exchange);
    }
}

/// The calls of one thread within a second, by name.
pub(crate) fn calls_of(thread: u32) -> BTreeMap<String, u64> {
    let table = Scratch::new(&format!("strace-{thread}"));
    let status = Command::new("timeout")
        .args(["-s", "INT", "1", "strace", "-c", "-U", "calls,name", "-o"])
        .arg(table.path())
        .args(["-p", &thread.to_string()])
        .output()
        .expect("timeout is installed");
    let text = table.text();
    assert!(
        text.contains("total") || text.trim().is_empty(),
        "{status:?}\n{text}"
    );
    let row = |line: &str| {
        let (calls, name) = line.trim().split_once(' ')?;
        Some((name.trim().to_owned(), calls.parse().ok()?))
    };
    let rows = text.lines().filter_map(row);
    rows.filter(|(name, _)| name != "total").collect()
}

/// A spinning ping-pong through shared memory: the program's own thread asks nothing of the
/// kernel but to let others run on a crowded machine.
#[test]
fn a_spinning_ping_pong_makes_no_system_call() {
    if !require::program("strace") {
        return;
    }
    let Some(exchange) = exchange("switch", "10.78.0.1", "10") else {
        return;
    };
    let carried = |r: &Running| stats::snapshot(r.pid()).map_or(0, |s| stats::rx(&s));
    for running in [&exchange.server, &exchange.client] {
        let before = carried(running);
        // The main thread exchanges; the engine's and the library's own sleep meanwhile.
        let calls = calls_of(running.pid());
        let round_trips = carried(running) - before;
        assert!(
            round_trips >= 1000,
            "only {round_trips} while it was traced"
        );
        let asked: u64 = calls
            .iter()
            .filter(|(name, _)| *name != "sched_yield")
            .map(|(_, calls)| calls)
            .sum();
        assert!(
            asked * 100 < round_trips,
            "{round_trips} round trips with {calls:?}"
        );
    }
    conclude(exchange);
}
