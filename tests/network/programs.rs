//! The field's own programs, unmodified: sockperf on UDP, iperf3 on TCP.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tests::check::{DEFAULTS, SPIN};
use tests::preload::{Finished, Mode, Program, Running};
use tests::require;
use tests::stats;
use tests::topology::{FAR, Lab};

const PORT: &str = "11111";
/// Round trips that even a crowded machine makes in a second.
const FEWEST: u64 = 20;
const GROUP: &str = "239.78.0.1";

/// Which ends run under the library.
#[derive(Clone, Copy, Debug)]
struct Ends {
    server: Mode,
    client: Mode,
}

const NATIVE: Ends = Ends {
    server: Mode::Native,
    client: Mode::Native,
};
const EITHER_END: [Ends; 4] = [
    Ends {
        server: DEFAULTS,
        client: Mode::Native,
    },
    Ends {
        server: Mode::Native,
        client: DEFAULTS,
    },
    Ends {
        server: DEFAULTS,
        client: DEFAULTS,
    },
    Ends {
        server: SPIN,
        client: SPIN,
    },
];

const BOTH_ENDS: [Ends; 1] = [EITHER_END[2]];

fn sockperf(host: &tests::netns::Netns, mode: Mode, args: &[&str]) -> Program {
    Program::new("sockperf", args)
        .on(host)
        .mode(mode)
        .limit(Duration::from_secs(15))
}

/// What a server and its client said.
struct Conversation {
    server: Finished,
    client: Finished,
    /// Datagrams that the near kernel dropped for want of room in a socket's buffer.
    kernel_drops: u64,
}

/// The server on the near host, the client on the far one.
fn conversation(ends: Ends, server: &[&str], client: &[&str]) -> Option<Conversation> {
    let lab = Lab::open()?;
    let mut listening = sockperf(&lab.near, ends.server, server).spawn();
    listening.wait_for("Warmup stage");
    std::thread::sleep(Duration::from_millis(50));
    let mut client = sockperf(&lab.far, ends.client, client).spawn();
    client.wait_for("Starting test");
    for (mode, running) in [(ends.server, &listening), (ends.client, &client)] {
        if mode != Mode::Native {
            accelerated(running);
        }
    }
    let client = client.wait().success("sockperf client");
    // What is still on its way.
    std::thread::sleep(Duration::from_millis(100));
    listening.signal(rustix::process::Signal::INT);
    let server = listening.wait().success("sockperf server");
    let kernel_drops = lab.near.udp_buffer_drops();
    Some(Conversation {
        server,
        client,
        kernel_drops,
    })
}

/// While it runs, the engine carries it.
fn accelerated(running: &Running) {
    let deadline = Instant::now() + Duration::from_millis(900);
    loop {
        let snapshot = stats::snapshot(running.pid());
        let told = snapshot.as_ref().map(stats::summary);
        let carried = snapshot
            .as_ref()
            .map_or(0, |s| stats::rx(s).max(stats::tx(s)));
        if carried >= FEWEST {
            return;
        }
        assert!(Instant::now() < deadline, "not accelerated: {told:#?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The number after `label` in a report.
#[track_caller]
fn figure(report: &str, label: &str) -> u64 {
    let at = report
        .find(label)
        .unwrap_or_else(|| panic!("no {label:?} in\n{report}"));
    report[at + label.len()..]
        .trim_start()
        .split(|c: char| !c.is_ascii_digit())
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or_else(|| panic!("no number after {label:?} in\n{report}"))
}

/// Ping-pong and under-load: the client counts what was lost, doubled and out of order.
fn round_trips(library_at: &[Ends], server: &[&str], client: &[&str]) {
    if !require::program("sockperf") {
        return;
    }
    for ends in [&[NATIVE], library_at].concat() {
        let Some(Conversation { client, .. }) = conversation(ends, server, client) else {
            return;
        };
        eprintln!("{ends:?}");
        let what = format!("{ends:?}\n{}", client.stdout);
        assert_eq!(figure(&client.stdout, "# dropped messages ="), 0, "{what}");
        assert_eq!(
            figure(&client.stdout, "# duplicated messages ="),
            0,
            "{what}"
        );
        assert_eq!(
            figure(&client.stdout, "# out-of-order messages ="),
            0,
            "{what}"
        );
        assert!(
            figure(&client.stdout, "ReceivedMessages=") >= FEWEST,
            "{what}"
        );
    }
}

/// A feed file with two unicast ports and a group.
struct Feed(PathBuf);

impl Feed {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("shim-tests-{}-feed", std::process::id()));
        let mut file = std::fs::File::create(&path).expect("the temporary directory is writable");
        write!(
            file,
            "U:10.78.0.1:11111\nU:10.78.0.1:11112\nU:{GROUP}:11113\n"
        )
        .expect("a fresh file is writable");
        Self(path)
    }

    fn path(&self) -> String {
        self.0.display().to_string()
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn ping_pong_by(library_at: &[Ends], call: &str) {
    let feed = Feed::new();
    let feed = feed.path();
    round_trips(
        library_at,
        &["server", "-f", &feed, "-F", call],
        &["ping-pong", "-f", &feed, "-F", call, "-t", "1", "-m", "64"],
    );
}

#[test]
fn sockperf_epoll() {
    ping_pong_by(&EITHER_END, "e");
}

#[test]
fn sockperf_poll() {
    ping_pong_by(&BOTH_ENDS, "p");
}

#[test]
fn sockperf_select() {
    ping_pong_by(&BOTH_ENDS, "s");
}

#[test]
fn sockperf_recvfrom() {
    round_trips(
        &EITHER_END,
        &["server", "-i", "10.78.0.1", "-p", PORT],
        &[
            "ping-pong",
            "-i",
            "10.78.0.1",
            "-p",
            PORT,
            "-t",
            "1",
            "-m",
            "64",
        ],
    );
}

#[test]
fn sockperf_nonblocked() {
    round_trips(
        &EITHER_END,
        &["server", "-i", "10.78.0.1", "-p", PORT, "--nonblocked"],
        &[
            "ping-pong",
            "-i",
            "10.78.0.1",
            "-p",
            PORT,
            "--nonblocked",
            "-t",
            "1",
            "-m",
            "64",
        ],
    );
}

#[test]
fn sockperf_multicast() {
    round_trips(
        &EITHER_END,
        &["server", "-i", GROUP, "-p", PORT],
        &["ping-pong", "-i", GROUP, "-p", PORT, "-t", "1", "-m", "64"],
    );
}

#[test]
fn sockperf_large_messages() {
    round_trips(
        &BOTH_ENDS,
        &["server", "-i", "10.78.0.1", "-p", PORT],
        &[
            "ping-pong",
            "-i",
            "10.78.0.1",
            "-p",
            PORT,
            "-t",
            "1",
            "-m",
            "1400",
        ],
    );
}

#[test]
fn sockperf_under_load() {
    round_trips(
        &EITHER_END,
        &["server", "-i", "10.78.0.1", "-p", PORT],
        &[
            "under-load",
            "-i",
            "10.78.0.1",
            "-p",
            PORT,
            "-t",
            "1",
            "-m",
            "64",
            "--mps",
            "2000",
            "--reply-every",
            "1",
        ],
    );
}

/// One way at a rate that the kernel bears without loss: every message arrives, once.
#[test]
fn sockperf_throughput() {
    if !require::program("sockperf") {
        return;
    }
    let server = ["server", "-i", "10.78.0.1", "-p", PORT];
    let client = [
        "throughput",
        "-i",
        "10.78.0.1",
        "-p",
        PORT,
        "-t",
        "1",
        "-m",
        "64",
        "--mps",
        "10000",
    ];
    let mut surplus = None;
    for ends in [&[NATIVE][..], &EITHER_END].concat() {
        let Some(said) = conversation(ends, &server, &client) else {
            return;
        };
        let sent = figure(&said.client.stdout, "Total of");
        // On a crowded machine a server on the kernel loses what its buffer cannot keep;
        // the library's own server has no such excuse.
        let excused = if ends.server == Mode::Native {
            said.kernel_drops
        } else {
            0
        };
        let received = figure(&said.server.stdout, "Total") + excused;
        let what = format!("{ends:?}: sent {sent}, received {received}, {excused} of them dropped");
        assert!(sent > 5000 && received >= sent, "{what}");
        // Messages of the warm-up are received but not reported as sent.
        let extra = received - sent;
        let native = *surplus.get_or_insert(extra);
        assert!(
            extra <= native + 2,
            "{what}, natively {native} more than sent"
        );
    }
}

/// TCP goes straight through: as fast as without, within what a shared machine allows.
#[test]
fn iperf3_tcp() {
    if !require::program("iperf3") {
        return;
    }
    let mut rates: [Vec<f64>; 2] = [Vec::new(), Vec::new()];
    for _ in 0..5 {
        for (mode, rates) in [Mode::Native, DEFAULTS].into_iter().zip(&mut rates) {
            let Some(rate) = tcp_rate(mode) else { return };
            rates.push(rate);
        }
    }
    let [native, shimmed] = rates.map(|mut r| {
        r.sort_by(f64::total_cmp);
        r[r.len() / 2]
    });
    let ratio = shimmed / native;
    eprintln!(
        "iperf3: {:.1} Gbit/s without, {:.1} with, ratio {ratio:.2}",
        native / 1e9,
        shimmed / 1e9
    );
    assert!(
        ratio > 0.8,
        "TCP is slower under the library: ratio {ratio:.2}"
    );
}

fn tcp_rate(mode: Mode) -> Option<f64> {
    let lab = Lab::open()?;
    let program = |host, args: &[&str]| {
        Program::new("iperf3", args)
            .on(host)
            .mode(mode)
            .limit(Duration::from_secs(15))
    };
    let mut server = program(&lab.far, &["-s", "-1", "--forceflush"]).spawn();
    server.wait_for("listening");
    let client = program(&lab.near, &["-c", FAR, "-t", "1", "-J"])
        .run()
        .success("iperf3 client");
    drop(server);
    let report: serde_json::Value =
        serde_json::from_str(&client.stdout).expect("iperf3 -J prints JSON");
    report["end"]["sum_received"]["bits_per_second"].as_f64()
}
