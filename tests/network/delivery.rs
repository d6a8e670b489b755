//! Unicast, broadcast, fragments, offloads, neighbours and routes.

use engine::error::Reason;
use std::time::Duration;
use tests::check::{Case, DEFAULTS, SLEEP};
use tests::peer::Peer;
use tests::preload::{Mode, Program};
use tests::stats;
use tests::topology::{Lab, NEAR};
use tests::victim::{self, Variant};

macro_rules! engine {
    ($($name:ident rx $rx:literal tx $tx:literal;)+) => { $(
        #[test]
        fn $name() {
            Case::new(stringify!($name)).engine($rx, $tx).run();
        }
    )+ };
}

engine! {
    fragments rx 3 tx 3;
    route_change rx 0 tx 1;
    bind_device rx 0 tx 1;
}

#[test]
fn broadcast() {
    Case::new("broadcast").kernel(Reason::SharedPort).run();
}

#[test]
fn first_packet() {
    Case::new("first_packet").cold().engine(0, 1).run();
}

/// A sender with UDP_SEGMENT: super-frames cross a veth whole; each segment is one
/// datagram, once and in order, whether it fits a ring slot or not.
#[test]
fn gso_sender() {
    for (segment, total) in [("100", "6000"), ("1000", "9500"), ("1472", "58880")] {
        let native = collect(Mode::Native, segment, total);
        let Some((oracle, _)) = native else { return };
        assert!(oracle.lines().count() > 5, "{oracle}");
        for mode in [DEFAULTS, SLEEP] {
            let Some((shimmed, engine_rx)) = collect(mode, segment, total) else {
                return;
            };
            assert_eq!(shimmed, oracle, "{mode:?}, segments of {segment}");
            assert!(engine_rx > 0, "{mode:?}: the engine received nothing");
        }
    }
}

/// The collector's output, and how many datagrams the engine gave it, of what `send` sends.
pub(crate) fn collected(mode: Mode, send: impl FnOnce(&Lab)) -> Option<(String, u64)> {
    let lab = Lab::open()?;
    let peer = Peer::start(&lab, mode != Mode::Native);
    let mut collector = Program::new(victim::compile("collect", Variant::Plain), &[])
        .on(&lab.near)
        .mode(mode)
        .env("PEER", &peer.address())
        .spawn();
    collector.wait_for("ready");
    send(&lab);
    let output = collector.wait().success("collector").stdout;
    let reports = peer.reports();
    let engine_rx = reports.iter().flatten().map(stats::rx).max().unwrap_or(0);
    Some((output, engine_rx))
}

/// The same, of a datagram in segments and plain ones after it.
fn collect(mode: Mode, segment: &str, total: &str) -> Option<(String, u64)> {
    collected(mode, |lab| {
        let _ = Program::new(
            victim::compile("gso_sender", Variant::Plain),
            &[NEAR, segment, total],
        )
        .on(&lab.far)
        .run()
        .success("GSO sender");
        // Plain frames too, so that the engine has its share.
        let far = lab.far.name().to_owned();
        std::thread::spawn(move || {
            tests::netns::Netns::enter(&far)?;
            let socket = std::net::UdpSocket::bind("10.78.0.2:0")?;
            let to = std::net::SocketAddr::from(([10, 78, 0, 1], 5000));
            tests::peer::burst(&socket, to, 10, 64, Duration::from_millis(1))
        })
        .join()
        .expect("the sender lives")
        .expect("the sender sends");
    })
}
