//! The MTU of an interface changes under an open ring, in mid-stream and back.

use crate::rig::*;
use std::time::Duration;
use tests::check::{DEFAULTS, SPIN};
use tests::topology::{LINK, Lab};

const GAP: Duration = Duration::from_micros(500);

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
        let stream = publisher(&lab, 0..1000, GAP);
        std::thread::sleep(Duration::from_millis(100));
        set_mtu(&lab, 9000);
        finish(stream);
        // Of larger buffers there are fewer.
        wait_until(&mut running, "on a ring of larger buffers", |s| {
            on_verbs(s) && s.rings.iter().any(|r| (1..8192).contains(&r.rx_slots))
        });
        let mut received = |total: u64| {
            wait_until(&mut running, "everything received", |s| {
                s.sockets[0].rx.packets + s.sockets[0].rx_os.packets >= total
            });
            counters(&running).sockets[0].rx.packets
        };
        let before = received(1000);
        finish(publisher_of(&lab, 1000..1200, GAP, 8900));
        let large = received(1200);
        let stream = publisher_of(&lab, 1200..2000, GAP, 900);
        std::thread::sleep(Duration::from_millis(100));
        set_mtu(&lab, 1000);
        finish(stream);
        let last = received(2000);
        // The kernel has what is under way while the ring comes; not more, in any size.
        assert!(large - before >= 150, "of 200: {before}, {large}");
        assert!(last - large >= 750, "of 800: {large}, {last}");
        let said = running.stderr();
        let line = "interface veth0: its MTU is 9000 now: opened again with larger buffers";
        assert_eq!(said.matches(line).count(), 1, "{said}");
        expect_all("subscriber", &running.kill().stdout, 0..2000);
    }
}
