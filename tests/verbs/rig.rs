//! A host under test with subscribers, a publisher on the far one, and a trace of verbs calls.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tests::backend::{on_software, softverbs};
use tests::check::DEFAULTS;
use tests::netns::Netns;
use tests::preload::{Finished, Mode, Program, Running, tool};
use tests::stats::{self, Snapshot};
use tests::topology::{FAR, Lab};
use tests::victim::{self, Variant};

/// The victims' group and port.
pub(crate) const TO: ([u8; 4], u16) = ([239, 78, 0, 1], 5000);
/// Longer than it takes until others on the host are noticed.
pub(crate) const NOTICED: Duration = Duration::from_millis(700);

/// A file that goes with its value.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty file.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shim-tests-{}-{name}", std::process::id()));
        File::create(&path).expect("the temporary directory is writable");
        Self(path)
    }

    /// Its path.
    pub(crate) fn path(&self) -> String {
        self.0.display().to_string()
    }

    /// What is in it.
    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap_or_default()
    }

    /// Appends a line.
    pub(crate) fn add(&self, line: &str) {
        let mut file = OpenOptions::new()
            .append(true)
            .open(&self.0)
            .expect("a file of ours");
        writeln!(file, "{line}").expect("a file of ours");
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The software verbs library over the interface.
pub(crate) fn over_packet() -> Vec<(String, String)> {
    on_software("packet", &softverbs())
}

/// A subscriber of the near host that prints the number of each datagram.
pub(crate) fn subscriber(lab: &Lab, mode: Mode, env: &[(&str, &str)], args: &[&str]) -> Running {
    let mut program = Program::new(victim::compile("subscriber", Variant::Plain), args)
        .on(&lab.near)
        .mode(mode)
        .device(over_packet())
        .limit(Duration::from_secs(60));
    for (name, value) in env {
        program = program.env(name, value);
    }
    let mut running = program.spawn();
    running.wait_for("ready");
    running
}

/// A ping-pong of 64-byte datagrams with the far host's kernel, by the doctor's own program.
/// It prints how many were lost, and how many came twice.
pub(crate) fn exchange(env: &[(&str, &str)], rounds: usize) -> Option<Finished> {
    let lab = Lab::open()?;
    let doctor = tool("shim-doctor");
    let answering = Program::new(&doctor, &["--answer", "7777", "--seconds", "50"])
        .on(&lab.far)
        .mode(Mode::Native)
        .limit(Duration::from_secs(60))
        .spawn();
    std::thread::sleep(Duration::from_millis(200));
    let (to, count) = (format!("{FAR}:7777"), rounds.to_string());
    let mut program = Program::new(&doctor, &["--exchange", &to, "--count", &count])
        .on(&lab.near)
        .mode(DEFAULTS)
        .device(over_packet());
    for (name, value) in env {
        program = program.env(name, value);
    }
    let finished = program.run().success("exchange");
    let _ = answering.kill();
    Some(finished)
}

/// Sends these numbers from the far host, `gap` apart.
pub(crate) fn publisher(
    lab: &Lab,
    numbers: std::ops::Range<u32>,
    gap: Duration,
) -> JoinHandle<std::io::Result<()>> {
    publisher_of(lab, numbers, gap, 0)
}

/// The same in datagrams of at least `size` bytes.
pub(crate) fn publisher_of(
    lab: &Lab,
    numbers: std::ops::Range<u32>,
    gap: Duration,
    size: usize,
) -> JoinHandle<std::io::Result<()>> {
    let far = lab.far.name().to_owned();
    std::thread::spawn(move || {
        Netns::enter(&far)?;
        let socket = UdpSocket::bind("10.78.0.2:0")?;
        let start = Instant::now();
        for (count, number) in (0u32..).zip(numbers) {
            let text = format!("{number:<size$}");
            socket.send_to(text.as_bytes(), SocketAddr::from(TO))?;
            let due = start + gap * (count + 1);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        Ok(())
    })
}

/// Sends these numbers and waits until they are on the wire.
pub(crate) fn publish(lab: &Lab, numbers: std::ops::Range<u32>) {
    finish(publisher(lab, numbers, Duration::from_micros(300)));
}

/// Waits for a publisher.
pub(crate) fn finish(publisher: JoinHandle<std::io::Result<()>>) {
    publisher
        .join()
        .expect("the publisher lives")
        .expect("the publisher sends");
}

/// What a subscriber has printed, each number once and in order.
#[track_caller]
pub(crate) fn numbers(who: &str, output: &str) -> BTreeSet<u32> {
    let list: Vec<u32> = output.lines().filter_map(|l| l.parse().ok()).collect();
    for pair in list.windows(2) {
        assert!(
            pair[0] < pair[1],
            "{who}: {} after {}, {} of {}",
            pair[1],
            pair[0],
            list.len(),
            output.lines().count()
        );
    }
    list.into_iter().collect()
}

/// Nothing of the range is missing.
#[track_caller]
pub(crate) fn expect_all(who: &str, output: &str, range: std::ops::Range<u32>) {
    let got = numbers(who, output);
    let missing: Vec<u32> = range.clone().filter(|n| !got.contains(n)).collect();
    assert!(missing.is_empty(), "{who}: of {range:?} lost {missing:?}");
}

/// The counters now.
#[track_caller]
pub(crate) fn counters(running: &Running) -> Snapshot {
    stats::snapshot(running.pid()).expect("a live process under the library")
}

/// Waits until the counters say so.
#[track_caller]
pub(crate) fn wait_until(running: &mut Running, what: &str, holds: impl Fn(&Snapshot) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(8);
    loop {
        let snapshot = counters(running);
        if holds(&snapshot) {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "never {what}:\n{}\n{}",
            stats::summary(&snapshot),
            running.stderr()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Its sockets are on rings of verbs.
pub(crate) fn on_verbs(snapshot: &Snapshot) -> bool {
    snapshot
        .sockets
        .iter()
        .all(|s| s.accelerated && s.reason.is_none())
        && snapshot.rings.iter().any(|r| {
            r.backend == "verbs" && r.device == "softverbs_veth0" && r.interface == "veth0"
        })
}
