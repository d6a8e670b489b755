//! Groups: membership, copies, and other processes on the host.

use std::collections::BTreeSet;
use std::time::Duration;
use tests::backend::Backend;
use tests::check::{Case, DEFAULTS, SLEEP, SPIN};
use tests::netns::Netns;
use tests::peer;
use tests::preload::{Mode, Program, Running};
use tests::topology::Lab;
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
    mc_leave rx 5 tx 0;
    mc_limit rx 1 tx 0;
    mc_forms rx 6 tx 0;
    mc_several rx 10 tx 0;
    mc_all rx 3 tx 0;
    mc_sources rx 4 tx 0;
    mc_loop rx 0 tx 1;
    join_while_reading rx 3 tx 0;
}

#[test]
fn mc_loop_v6() {
    Case::new("mc_loop").args(&["v6"]).engine(0, 1).run();
}

/// `numbers` datagrams to the group from the far host; returns when all are sent.
fn publish(lab: &Lab, numbers: std::ops::Range<u32>, gap: Duration) {
    on_far_host(lab, move |socket| {
        for number in numbers {
            socket.send_to(number.to_string().as_bytes(), ("239.78.0.1", 5000))?;
            std::thread::sleep(gap);
        }
        Ok(())
    });
}

fn on_far_host(
    lab: &Lab,
    act: impl FnOnce(std::net::UdpSocket) -> std::io::Result<()> + Send + 'static,
) {
    let far = lab.far.name().to_owned();
    std::thread::spawn(move || {
        Netns::enter(&far)?;
        act(std::net::UdpSocket::bind("10.78.0.2:0")?)
    })
    .join()
    .expect("the sender lives")
    .expect("the sender sends");
}

fn subscriber(lab: &Lab, mode: Mode) -> Running {
    let mut running = Program::new(victim::compile("subscriber", Variant::Plain), &[])
        .on(&lab.near)
        .mode(mode)
        .limit(Duration::from_secs(40))
        .spawn();
    running.wait_for("ready");
    if Backend::current() == Backend::Verbs {
        // A card takes datagrams from kernel sockets until these are noticed.
        std::thread::sleep(Duration::from_millis(300));
    }
    running
}

/// What a subscriber has printed, each number once and in order.
fn numbers(who: &str, output: &str) -> BTreeSet<u32> {
    let list: Vec<u32> = output.lines().filter_map(|l| l.parse().ok()).collect();
    assert!(
        list.windows(2).all(|w| w[0] < w[1]),
        "{who}: twice or out of order: {list:?}"
    );
    list.into_iter().collect()
}

fn expect_all(who: &str, output: &str, range: std::ops::Range<u32>) {
    let got = numbers(who, output);
    let missing: Vec<u32> = range.clone().filter(|n| !got.contains(n)).collect();
    assert!(missing.is_empty(), "{who}: of {range:?} lost {missing:?}");
}

/// Two processes under the library and a plain one share a host and a group; whoever
/// starts or stops, by close or by SIGKILL, the others get every datagram once.
#[test]
fn subscribers_come_and_go() {
    let gap = Duration::from_micros(300);
    for mode in [DEFAULTS, SLEEP, SPIN] {
        let Some(lab) = Lab::open() else { return };
        let first = subscriber(&lab, mode);
        publish(&lab, 0..100, gap);
        let plain = subscriber(&lab, Mode::Native);
        publish(&lab, 100..200, gap);
        let second = subscriber(&lab, mode);
        publish(&lab, 200..300, gap);
        // Accelerated, while all three listen.
        std::thread::sleep(Duration::from_millis(100));
        for running in [&first, &second] {
            let snapshot = tests::stats::snapshot(running.pid()).expect("a live process");
            let socket = snapshot.sockets.first().expect("one socket");
            assert!(socket.accelerated, "{}", tests::stats::summary(&snapshot));
            assert!(
                socket.rx.packets >= 100,
                "{}",
                tests::stats::summary(&snapshot)
            );
        }
        let second = second.kill().stdout;
        publish(&lab, 300..400, gap);
        let third = subscriber(&lab, mode);
        publish(&lab, 400..500, gap);
        let plain = plain.kill().stdout;
        publish(&lab, 500..600, gap);
        on_far_host(&lab, |socket| {
            socket.send_to(b"end", ("239.78.0.1", 5000)).map(|_| ())
        });
        let first = first.wait().success("first subscriber").stdout;
        let third = third.wait().success("third subscriber").stdout;
        expect_all("first under the library", &first, 0..600);
        expect_all("plain", &plain, 100..500);
        expect_all("second under the library, killed", &second, 200..300);
        expect_all("third under the library", &third, 400..600);
    }
}

/// A plain process alone on the group loses nothing when one under the library joins
/// and is killed in the middle of the stream.
#[test]
fn a_stream_survives_churn() {
    let Some(lab) = Lab::open() else { return };
    let plain = subscriber(&lab, Mode::Native);
    let steady = subscriber(&lab, DEFAULTS);
    let far = lab.far.name().to_owned();
    let sender = std::thread::spawn(move || {
        Netns::enter(&far)?;
        let socket = std::net::UdpSocket::bind("10.78.0.2:0")?;
        let to = std::net::SocketAddr::from(([239, 78, 0, 1], 5000));
        peer::burst(&socket, to, 3000, 8, Duration::from_micros(300))
    });
    for _ in 0..4 {
        let passing = subscriber(&lab, DEFAULTS);
        std::thread::sleep(Duration::from_millis(60));
        let _ = passing.kill();
    }
    sender
        .join()
        .expect("the sender lives")
        .expect("the sender sends");
    std::thread::sleep(Duration::from_millis(200));
    expect_all("plain", &plain.kill().stdout, 0..3000);
    expect_all("under the library", &steady.kill().stdout, 0..3000);
}

/// A socket that moves between kernel and engine in the middle of a stream.
#[test]
fn a_stream_survives_moves() {
    const COUNT: u32 = 20_000;
    for mode in [Mode::Native, DEFAULTS, SPIN] {
        let Some(lab) = Lab::open() else { return };
        let mut mover = Program::new(victim::compile("handover_stream", Variant::Plain), &[])
            .on(&lab.near)
            .mode(mode)
            .limit(Duration::from_secs(40))
            .spawn();
        mover.wait_for("ready");
        let to = std::net::SocketAddr::from(([239, 78, 0, 1], 5000));
        on_far_host(&lab, move |socket| {
            peer::burst(&socket, to, COUNT, 8, Duration::from_micros(50))
        });
        std::thread::sleep(Duration::from_millis(200));
        if mode != Mode::Native {
            let snapshot = tests::stats::snapshot(mover.pid()).expect("a live process");
            let told = tests::stats::summary(&snapshot);
            // Half of the time it is the engine's.
            assert!(tests::stats::rx(&snapshot) > u64::from(COUNT) / 4, "{told}");
        }
        on_far_host(&lab, move |socket| socket.send_to(b"end", to).map(|_| ()));
        let said = mover.wait().success("the mover").stdout;
        let wanted = format!(
            "moves {}, up to {COUNT}, lost 0, again or late 0",
            COUNT / 100
        );
        assert!(said.contains(&wanted), "{mode:?}: {said}");
    }
}
