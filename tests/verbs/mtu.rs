//! The MTU of an interface changes under an open ring, in mid-stream and back.

use crate::rig::*;
use std::time::Duration;
use tests::check::{DEFAULTS, SPIN};
use tests::topology::{LINK, Lab};

fn set_mtu(lab: &Lab, mtu: u32) {
    // The receiver first: nothing larger than it takes is ever on the wire.
    for host in [&lab.near, &lab.far] {
        let words = format!("link set {LINK} mtu {mtu}");
        let _ = host.ip(&words).expect("a veth has any MTU");
    }
}

/// Larger frames need larger buffers: a card stops the queue pair at the first that does not
/// fit. The ring is opened again, and nothing is lost, early or late.
#[test]
fn larger_and_smaller_in_mid_stream() {
    for mode in [DEFAULTS, SPIN] {
        let Some(lab) = Lab::open() else { return };
        let mut running = subscriber(&lab, mode, &[], &[]);
        wait_until(&mut running, "on verbs", on_verbs);
        let stream = publisher(&lab, 0..1000, Duration::from_micros(500));
        std::thread::sleep(Duration::from_millis(100));
        set_mtu(&lab, 9000);
        finish(stream);
        wait_until(&mut running, "on verbs again", on_verbs);
        let by_ring = |running: &_| counters(running).sockets[0].rx.packets;
        let before = by_ring(&running);
        let large = publisher_of(&lab, 1000..1200, Duration::from_micros(300), 8900);
        finish(large);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(by_ring(&running), before + 200, "the large ones");
        let stream = publisher_of(&lab, 1200..2000, Duration::from_micros(500), 900);
        std::thread::sleep(Duration::from_millis(100));
        set_mtu(&lab, 1000);
        finish(stream);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(by_ring(&running), before + 1000, "smaller again");
        let said = running.stderr();
        let line = "interface veth0: its MTU is 9000 now: opened again with larger buffers";
        assert_eq!(said.matches(line).count(), 1, "{said}");
        expect_all("subscriber", &running.kill().stdout, 0..2000);
    }
}
