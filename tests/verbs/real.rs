//! Debian's own libibverbs on a machine without a card, and machines without the library.

use tests::check::DEFAULTS;
use tests::preload::{Finished, Mode, Program};
use tests::topology::Lab;
use tests::victim::{self, Variant};
use tests::{peer::Peer, require};

const REAL: &str = "/usr/lib/x86_64-linux-gnu/libibverbs.so.1";

fn real_library() -> bool {
    let there = std::path::Path::new(REAL).exists();
    require::have(
        "libibverbs1",
        there
            .then_some(())
            .ok_or_else(|| format!("{REAL} is not there")),
    )
}

/// A victim that exchanges datagrams with the far host; `device`: which library it finds.
fn run(
    mode: Mode,
    device: Vec<(String, String)>,
) -> Option<(Finished, Vec<tests::stats::Snapshot>)> {
    let lab = Lab::open()?;
    let peer = Peer::start(&lab, true);
    let finished = Program::new(victim::compile("echo", Variant::Plain), &["recvfrom"])
        .on(&lab.near)
        .mode(mode)
        .device(device)
        .env("PEER", &peer.address())
        .run();
    let reports = peer.reports().into_iter().flatten().collect();
    Some((finished, reports))
}

/// auto: the real library is loaded, has no device, and packet takes the interface.
#[test]
fn auto_falls_back_and_says_why() {
    if !real_library() {
        return;
    }
    let Some((finished, reports)) = run(DEFAULTS, Vec::new()) else {
        return;
    };
    let line = "veth0: accelerated by packet (auto; verbs: the interface has no RDMA device)";
    assert_eq!(
        finished.stderr.matches(line).count(),
        1,
        "{}",
        finished.stderr
    );
    let rings = reports.iter().flat_map(|s| &s.rings);
    assert!(
        rings
            .into_iter()
            .all(|r| r.backend == "packet" && r.device.is_empty())
    );
    assert!(finished.stdout.ends_with("done\n"), "{}", finished.stdout);
}

/// SHIM_BACKEND=verbs: nothing else is tried, and the kernel serves.
#[test]
fn verbs_alone_leaves_the_kernel_and_says_why() {
    if !real_library() {
        return;
    }
    let mode = Mode::Shim(&[("SHIM_BACKEND", "verbs")]);
    let Some((finished, reports)) = run(mode, Vec::new()) else {
        return;
    };
    let line = "veth0: not accelerated: the interface has no RDMA device";
    assert_eq!(
        finished.stderr.matches(line).count(),
        1,
        "{}",
        finished.stderr
    );
    assert!(reports.iter().all(|s| s.rings.is_empty()));
    assert!(
        reports
            .iter()
            .flat_map(|s| &s.sockets)
            .all(|s| !s.accelerated && s.reason.is_some())
    );
    assert!(finished.stdout.ends_with("done\n"), "{}", finished.stdout);
}

/// A library that is none: as if there were none.
#[test]
fn a_library_that_cannot_be_loaded() {
    let directory = victim::target().join("no-libibverbs");
    std::fs::create_dir_all(&directory).expect("the target directory is writable");
    std::fs::write(directory.join("libibverbs.so.1"), "not a library").expect("writable");
    let device = vec![("LD_LIBRARY_PATH".into(), directory.display().to_string())];
    let Some((finished, _)) = run(DEFAULTS, device) else {
        return;
    };
    let line = "veth0: accelerated by packet (auto; verbs: ";
    assert_eq!(
        finished.stderr.matches(line).count(),
        1,
        "{}",
        finished.stderr
    );
    assert!(finished.stdout.ends_with("done\n"), "{}", finished.stdout);
}
