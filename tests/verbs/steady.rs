//! What a thread that exchanges datagrams asks of the kernel and of the allocator once it is
//! under way: nothing, by whichever calls, but for what the device itself needs.

use crate::wires::calls_of;
use std::time::Duration;
use tests::backend::{on_software, softverbs};
use tests::netns::Netns;
use tests::preload::{Mode, Program, Running};
use tests::topology::Lab;
use tests::victim::{self, Variant};
use tests::{require, stats};

const CALLS: [&str; 9] = [
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "read",
    "nonblock",
    "poll",
    "select",
    "epoll_wait",
    "epoll_turns",
];
const SPINNING: Mode = Mode::Shim(&[("VMA_RX_POLL", "-1"), ("VMA_SELECT_POLL", "-1")]);

/// What a run is served by, and the calls of its device.
struct Device {
    variables: Vec<(String, String)>,
    backend: &'static str,
    needs: &'static [&'static str],
}

fn end(host: &Netns, role: &str, how: &str, device: &Device) -> Running {
    let mut running = Program::new(victim::compile("steady", Variant::Plain), &[role, how])
        .on(host)
        .mode(SPINNING)
        .device(device.variables.clone())
        .limit(Duration::from_secs(30))
        .spawn();
    running.wait_for("ready");
    running
}

fn figure(output: &str, what: &str) -> u64 {
    let found = output.lines().find_map(|l| l.strip_prefix(what));
    found.and_then(|n| n.trim().parse().ok()).expect(what)
}

fn exchange(how: &str, device: &Device) {
    let Some(lab) = Lab::open() else { return };
    let server = end(&lab.near, "server", how, device);
    let client = end(&lab.far, "client", how, device);
    std::thread::sleep(Duration::from_millis(800));
    let snapshot = stats::snapshot(server.pid()).expect("a process under the library");
    assert!(snapshot.rings.iter().any(|r| r.backend == device.backend));
    let before = stats::rx(&snapshot);
    let calls = calls_of(server.pid());
    let snapshot = stats::snapshot(server.pid()).expect("a process under the library");
    let turns = stats::rx(&snapshot) - before;
    assert!(turns >= 50, "{how}: only {turns} while it was traced");
    // On a crowded machine the thread gives its core away, and devices wake whoever is late.
    let asked: u64 = calls
        .iter()
        .filter(|(name, _)| *name != "sched_yield" && !device.needs.contains(&name.as_str()))
        .map(|(_, calls)| calls)
        .sum();
    let what = format!("{how} on {}: {turns} turns with {calls:?}", device.backend);
    // A call that does not wait looks after each pause, also one of the machine's making.
    let waits = !matches!(how, "nonblock" | "epoll_turns");
    let allowed = if waits {
        turns / 50 + 200
    } else {
        2 * turns + 500
    };
    assert!(asked <= allowed, "{what}");
    for (who, running) in [("server", server), ("client", client)] {
        let out = running.wait().success(who).stdout;
        let turns = figure(&out, "turns");
        assert!(turns >= 50, "{how}, {who}: only {turns}");
        // A route that is looked up anew takes some.
        let allocations = figure(&out, "allocations");
        assert!(allocations * 100 < turns, "{how}, {who}\n{out}");
    }
}

fn exchanges(device: &Device) {
    if !require::program("strace") {
        return;
    }
    for how in CALLS {
        exchange(how, device);
    }
}

#[test]
fn a_steady_exchange_on_packet() {
    exchanges(&Device {
        variables: Vec::new(),
        backend: "packet",
        needs: &["sendto"],
    });
}

#[test]
fn a_steady_exchange_on_an_interface() {
    exchanges(&Device {
        variables: on_software("packet", &softverbs()),
        backend: "verbs",
        needs: &["sendto"],
    });
}

#[test]
fn a_steady_exchange_through_shared_memory() {
    let mut variables = on_software("switch", &softverbs());
    let switch = format!("steady-{}", std::process::id());
    variables.push(("SOFTVERBS_SWITCH".into(), switch));
    exchanges(&Device {
        variables,
        backend: "verbs",
        needs: &[],
    });
}
