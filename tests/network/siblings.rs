//! Sockets of one program on one group, while their interface loses and regains what makes
//! it usable: they move in one step, and take nothing from each other.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tests::check::DEFAULTS;
use tests::netns::Netns;
use tests::preload::{Mode, Program};
use tests::topology::{LINK, Lab, NEAR};
use tests::victim::{self, Variant};

/// Times that the interface changes and changes back.
const TIMES: u32 = 10;
const GAP: Duration = Duration::from_micros(250);

/// Numbers from the far host, until it is told to stop.
struct Stream {
    number: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<std::io::Result<()>>,
}

impl Stream {
    fn start(lab: &Lab) -> Self {
        let number = Arc::new(AtomicU32::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let (count, over, far) = (
            Arc::clone(&number),
            Arc::clone(&stop),
            lab.far.name().to_owned(),
        );
        let thread = std::thread::spawn(move || {
            Netns::enter(&far)?;
            let socket = std::net::UdpSocket::bind("10.78.0.2:0")?;
            let to = ("239.78.0.1", 5000);
            let start = Instant::now();
            while !over.load(Ordering::SeqCst) {
                let n = count.load(Ordering::SeqCst);
                socket.send_to(n.to_string().as_bytes(), to)?;
                count.store(n + 1, Ordering::SeqCst);
                let due = start + GAP * (n + 1);
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
            std::thread::sleep(Duration::from_millis(300));
            for _ in 0..3 {
                socket.send_to(b"end", to)?;
            }
            Ok(())
        });
        Self {
            number,
            stop,
            thread,
        }
    }

    fn now(&self) -> u32 {
        self.number.load(Ordering::SeqCst)
    }

    fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread
            .join()
            .expect("the sender lives")
            .expect("the sender sends");
    }
}

/// `away` and `back`: arguments of ip(8) on the near host.
fn survive(away: &str, back: &[&str], modes: &[Mode]) {
    for &mode in modes {
        let Some(lab) = Lab::open() else { return };
        let mut readers = Program::new(victim::compile("siblings", Variant::Plain), &[])
            .on(&lab.near)
            .mode(mode)
            .limit(Duration::from_secs(60))
            .spawn();
        readers.wait_for("ready");
        let pause = || std::thread::sleep(Duration::from_millis(150));
        let stream = Stream::start(&lab);
        pause();
        let mut windows: Vec<Range<u32>> = Vec::new();
        for _ in 0..TIMES {
            let from = stream.now();
            lab.near.ip(away).expect(away);
            pause();
            for words in back {
                lab.near.ip(words).expect(words);
            }
            // The one that is under way when the command returns.
            windows.push(from.saturating_sub(1)..stream.now() + 1);
            pause();
        }
        if mode != Mode::Native {
            let snapshot = tests::stats::snapshot(readers.pid()).expect("a live process");
            let told = tests::stats::summary(&snapshot);
            assert!(snapshot.sockets.iter().all(|s| s.accelerated), "{told}");
        }
        let sent = stream.now();
        stream.end();
        let output = readers.wait().success("the readers").stdout;
        let mut sockets = 0;
        for line in output.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["socket", _, "up", "to", _, "again", again] => {
                    sockets += 1;
                    assert_eq!(again, "0", "{mode:?}, {away}: {output}");
                }
                ["missing", from, to] => {
                    let (from, to): (u32, u32) =
                        (from.parse().expect(line), to.parse().expect(line));
                    let natural = |w: &Range<u32>| w.start <= from && to <= w.end;
                    assert!(
                        windows.iter().any(natural),
                        "{mode:?}, {away}: {line} of {sent}, windows {windows:?}\n{output}"
                    );
                }
                _ => {}
            }
        }
        assert_eq!(sockets, 3, "{output}");
    }
}

#[test]
fn siblings_survive_an_address_that_goes_and_comes() {
    survive(
        &format!("addr del {NEAR}/24 dev {LINK}"),
        &[&format!("addr add {NEAR}/24 dev {LINK}")],
        &[Mode::Native, DEFAULTS],
    );
}

#[test]
fn siblings_survive_a_link_that_goes_and_comes() {
    survive(
        &format!("link set {LINK} down"),
        &[&format!("link set {LINK} up")],
        &[Mode::Native, DEFAULTS],
    );
}
