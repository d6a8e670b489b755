//! A host with itself through a ring on `lo`, and calls by number.

use tests::check::Case;
use tests::preload::Mode;

const LO: &str = "SHIM_INTERFACES";

/// Under the packet device alone: no card has `lo`.
#[test]
fn loopback() {
    let modes = [
        Mode::Shim(&[(LO, "lo"), ("SHIM_BACKEND", "packet")]),
        Mode::Shim(&[
            (LO, "lo"),
            ("SHIM_BACKEND", "packet"),
            ("VMA_RX_POLL", "0"),
            ("VMA_SELECT_POLL", "0"),
        ]),
        Mode::Shim(&[
            (LO, "lo,veth0"),
            ("SHIM_BACKEND", "packet"),
            ("VMA_SPEC", "latency"),
        ]),
    ];
    Case::new("loopback")
        .on_packet()
        .modes(&modes)
        .engine(2000, 0)
        .run();
}

#[test]
fn by_number() {
    Case::new("by_number").engine(7, 2).run();
}
