//! The statistics of a live process: numbers that are right, a reason for every
//! socket, and clear errors.

use tests::check::{Case, DEFAULTS, SLEEP, SPIN};
use tests::peer::Peer;
use tests::preload::{self, Finished, Mode, Program};
use tests::stats::{self, Snapshot};
use tests::topology::Lab;
use tests::victim::{self, Variant};

fn observed(name: &str, mode: Mode) -> Option<(Finished, Snapshot)> {
    observed_with(name, mode, &[])
}

fn observed_with(name: &str, mode: Mode, vars: &[(&str, &str)]) -> Option<(Finished, Snapshot)> {
    let lab = Lab::open()?;
    let peer = Peer::start(&lab, true);
    let program = Program::new(victim::compile(name, Variant::Plain), &[])
        .on(&lab.near)
        .mode(mode)
        .env("PEER", &peer.address());
    let run = vars
        .iter()
        .fold(program, |program, (name, value)| program.env(name, value))
        .run()
        .success(name);
    let report = peer.reports().pop().expect("the victim asks for a report");
    Some((run, report.expect("a live process has statistics")))
}

/// A single thread that sleeps has no rival: the control thread looks after its rings as a
/// guest.
#[test]
fn a_sleeper_keeps_its_thread_mode() {
    for mode in [DEFAULTS, SLEEP] {
        let observed = observed_with("rcvtimeo", mode, &[("VMA_THREAD_MODE", "0")]);
        let Some((_, snapshot)) = observed else {
            return;
        };
        assert_eq!(snapshot.process.mode_switches, 0, "{mode:?}");
    }
}

/// Every descriptor is accelerated or says why not.
#[test]
fn a_reason_for_every_socket() {
    let Some((run, snapshot)) = observed("reasons", DEFAULTS) else {
        return;
    };
    assert_reasons(&run, &snapshot, 8);
}

#[test]
fn the_rules_file_leaves_sockets_to_the_kernel() {
    let file = std::env::temp_dir().join(format!("rules-{}.conf", std::process::id()));
    let rules = "application-id ruled* *\nuse os udp_receiver *:5000\n\
                 use os udp_receiver 239.78.0.1:5001\nuse os udp_connect 10.78.0.2:7000\n";
    std::fs::write(&file, rules).unwrap();
    let path = file.to_str().unwrap();
    let observed = observed_with("ruled", DEFAULTS, &[("VMA_CONFIG_FILE", path)]);
    std::fs::remove_file(&file).unwrap();
    if let Some((run, snapshot)) = observed {
        assert_reasons(&run, &snapshot, 4);
    }
}

/// Lines of the victim: a descriptor, and what is to be told of it.
fn assert_reasons(run: &Finished, snapshot: &Snapshot, least: usize) {
    let expected: Vec<(i32, &str)> = run
        .stdout
        .lines()
        .filter_map(|l| l.split_once(' '))
        .filter_map(|(fd, what)| Some((fd.parse().ok()?, what)))
        .collect();
    assert!(expected.len() >= least, "{}", run.stdout);
    let inodes: std::collections::HashSet<u64> = snapshot.sockets.iter().map(|s| s.inode).collect();
    assert!(
        inodes.len() == snapshot.sockets.len() && !inodes.contains(&0),
        "{inodes:?}"
    );
    for (fd, what) in expected {
        let socket = snapshot.sockets.iter().find(|s| s.fd == fd);
        let told = socket.map(|s| match s.reason {
            None if s.accelerated => "accelerated",
            None => "no reason",
            Some(reason) => reason.text(),
        });
        assert_eq!(told, Some(what), "fd {fd}:\n{}", stats::summary(snapshot));
    }
}

#[test]
fn counters_are_exact() {
    for mode in [DEFAULTS, SLEEP, SPIN] {
        let Some((_, snapshot)) = observed("counters", mode) else {
            return;
        };
        let told = stats::summary(&snapshot);
        let [first, full] = &snapshot.sockets[..] else {
            panic!("two sockets expected:\n{told}");
        };
        assert_eq!(
            (first.rx.packets, first.rx.bytes),
            (7, 70),
            "{mode:?}\n{told}"
        );
        assert_eq!(
            (first.rx_os.packets, first.rx_os.bytes),
            (2, 8),
            "{mode:?}\n{told}"
        );
        // Sends to our own host are the kernel's; of the five to the wire it takes at
        // most the first, while the route is being resolved.
        assert_eq!(
            first.tx.packets + first.tx_os.packets,
            7,
            "{mode:?}\n{told}"
        );
        assert!(first.tx.packets >= 4, "{mode:?}\n{told}");
        assert_eq!(first.rx.eagain + first.rx_os.eagain, 1, "{mode:?}\n{told}");
        assert!(full.queue.drop_packets > 100, "{mode:?}\n{told}");
        assert!(!snapshot.rings.is_empty(), "{mode:?}");
        let frames: u64 = snapshot.rings.iter().map(|r| r.rx.frames).sum();
        assert!(frames >= 207, "{mode:?}: the ring took {frames} frames");
    }
}

#[test]
fn shim_stats_shows_a_live_process() {
    let Some(lab) = Lab::open() else { return };
    let mut running = Program::new(victim::compile("subscriber", Variant::Plain), &[])
        .on(&lab.near)
        .mode(DEFAULTS)
        .spawn();
    running.wait_for("ready");
    let pid = running.pid().to_string();
    let watch = |args: &[&str]| Program::new(preload::tool("shim-stats"), args).run();
    let table = watch(&["-p", &pid, "-c", "1"]).success("shim-stats");
    assert!(table.stdout.lines().count() >= 2, "{}", table.stdout);
    let cycles = watch(&["-p", &pid, "-c", "3", "-i", "0.05", "--json"]).success("shim-stats");
    assert_eq!(cycles.stdout.lines().count(), 3, "{}", cycles.stdout);
    let first: serde_json::Value = cycles
        .stdout
        .lines()
        .next()
        .and_then(|l| serde_json::from_str(l).ok())
        .expect("one JSON document a line");
    assert_eq!(
        first["sockets"].as_array().map(Vec::len),
        Some(1),
        "{first}"
    );
    let _ = running.kill();
    let gone = watch(&["-p", &pid, "-c", "1"]);
    assert_ne!(gone.code(), 0);
    assert!(gone.stderr.contains(&pid), "{}", gone.stderr);
    let nobody = watch(&["-p", "999999999", "-c", "1"]);
    assert_ne!(nobody.code(), 0);
    assert!(nobody.stderr.contains("999999999"), "{}", nobody.stderr);
}

/// The file is its owner's alone, and goes with the process.
#[test]
fn the_file_is_private_and_goes_away() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(lab) = Lab::open() else { return };
    let mut running = Program::new(victim::compile("subscriber", Variant::Plain), &[])
        .on(&lab.near)
        .mode(DEFAULTS)
        .spawn();
    running.wait_for("ready");
    let path = format!("{}/vmastat.{}", stats::DIRECTORY, running.pid());
    let mode = std::fs::metadata(&path)
        .expect("published")
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0, "{path} is open to others: {mode:o}");
    drop(running);
    drop(lab);
    // An ordinary end removes it.
    let Some((_, snapshot)) = observed("counters", DEFAULTS) else {
        return;
    };
    let path = format!("{}/vmastat.{}", stats::DIRECTORY, snapshot.pid);
    assert!(!std::path::Path::new(&path).exists(), "{path} stays behind");
}

/// A transcript is also the same while somebody watches.
#[test]
fn reasons_do_not_disturb() {
    Case::new("reasons").engine(0, 0).run();
}
