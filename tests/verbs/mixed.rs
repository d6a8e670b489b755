//! Mixed hosts: programs on kernel sockets share groups with programs under the library.

use crate::rig::*;
use std::time::Duration;
use tests::check::{DEFAULTS, SLEEP, SPIN};
use tests::preload::{Mode, Running};
use tests::stats;
use tests::topology::Lab;

const GAP: Duration = Duration::from_micros(300);

/// What it got lies without a gap between its first and its last number.
#[track_caller]
fn expect_unbroken(who: &str, output: &str, at_least: usize) {
    let got = numbers(who, output);
    let (first, last) = (got.first().copied(), got.last().copied());
    let range = first.unwrap_or(0)..last.map_or(0, |l| l + 1);
    assert!(
        got.len() >= at_least,
        "{who}: only {} ({range:?})",
        got.len()
    );
    expect_all(who, output, range);
}

/// Every datagram came by the rings, none by the kernel socket.
#[track_caller]
fn expect_rings_only(running: &Running) {
    let snapshot = counters(running);
    assert!(on_verbs(&snapshot), "{}", stats::summary(&snapshot));
    assert_eq!(
        snapshot.sockets[0].rx_os.packets,
        0,
        "{}",
        stats::summary(&snapshot)
    );
}

/// A plain subscriber starts and stops, again and again, in the middle of a stream. The one
/// under the library has every datagram once; the plain one has all from when it is
/// noticed until it ends.
#[test]
fn a_plain_subscriber_starts_and_stops_in_a_stream() {
    for mode in [DEFAULTS, SLEEP, SPIN] {
        let Some(lab) = Lab::open() else { return };
        let trace = Scratch::new("mixed-trace");
        let path = trace.path();
        let steady = subscriber(&lab, mode, &[("SOFTVERBS_TRACE", &path)], &[]);
        let stream = publisher(&lab, 0..20_000, GAP);
        for _ in 0..3 {
            let plain = subscriber(&lab, Mode::Native, &[], &[]);
            std::thread::sleep(Duration::from_millis(600));
            expect_unbroken("plain", &plain.kill().stdout, 300);
            std::thread::sleep(NOTICED);
        }
        finish(stream);
        std::thread::sleep(Duration::from_millis(300));
        expect_rings_only(&steady);
        expect_all("under the library", &steady.kill().stdout, 0..20_000);
        // It did change over, both ways, each time.
        let calls = trace.text();
        let count = |call: &str| {
            let of_group = |l: &&str| l.starts_with(call) && l.contains("dst=239.78.0.1:");
            calls.lines().filter(of_group).count()
        };
        for (call, times) in [
            ("create_flow qp=", 7),
            ("destroy_flow priority=2 dont_trap=true", 3),
            ("destroy_flow priority=0 dont_trap=false", 3),
        ] {
            assert_eq!(count(call), times, "{call}:\n{calls}");
        }
    }
}

/// SHIM_MIXED_HOST=share: whoever comes later is served at once.
#[test]
fn share_serves_everybody_from_the_start() {
    let Some(lab) = Lab::open() else { return };
    let policy = [("SHIM_MIXED_HOST", "share")];
    let ours = subscriber(&lab, DEFAULTS, &policy, &[]);
    publish(&lab, 0..100);
    let plain = subscriber(&lab, Mode::Native, &[], &[]);
    publish(&lab, 100..300);
    std::thread::sleep(Duration::from_millis(100));
    expect_rings_only(&ours);
    expect_all("plain", &plain.kill().stdout, 100..300);
    expect_all("under the library", &ours.kill().stdout, 0..300);
}

/// SHIM_MIXED_HOST=steer: the card's alone, whoever else there is.
#[test]
fn steer_keeps_it_from_everybody_else() {
    let Some(lab) = Lab::open() else { return };
    let plain = subscriber(&lab, Mode::Native, &[], &[]);
    let policy = [("SHIM_MIXED_HOST", "steer")];
    let ours = subscriber(&lab, DEFAULTS, &policy, &[]);
    std::thread::sleep(NOTICED);
    publish(&lab, 0..200);
    std::thread::sleep(Duration::from_millis(100));
    expect_rings_only(&ours);
    assert_eq!(numbers("plain", &plain.kill().stdout).len(), 0);
    expect_all("under the library", &ours.kill().stdout, 0..200);
}

/// One under the library joins a group that a plain one has already: neither takes
/// anything from the other.
#[test]
fn joining_takes_nothing_from_a_plain_subscriber() {
    let Some(lab) = Lab::open() else { return };
    let plain = subscriber(&lab, Mode::Native, &[], &[]);
    let stream = publisher(&lab, 0..12_000, GAP);
    for _ in 0..3 {
        let ours = subscriber(&lab, DEFAULTS, &[], &[]);
        std::thread::sleep(Duration::from_millis(200));
        // The kernel served until the device was open.
        let snapshot = counters(&ours);
        assert!(on_verbs(&snapshot) && stats::rx(&snapshot) > 0);
        // Once each, in order and without a gap.
        let output = ours.kill().stdout;
        let got = numbers("under the library", &output);
        let span = got.last().zip(got.first()).map_or(0, |(l, f)| l - f + 1);
        assert!(got.len() >= 100 && span as usize == got.len(), "{got:?}");
    }
    finish(stream);
    std::thread::sleep(Duration::from_millis(200));
    expect_all("plain", &plain.kill().stdout, 0..12_000);
}
