//! The two sides of the comparison: kernel sockets and accelerated ones, each between two hosts
//! of its own, and a sequence's way through both.

use std::fmt::Write as _;
use std::time::Duration;
use tests::preload::{Mode, Program};
use tests::stats;
use tests::talk::Talk;
use tests::topology::Lab;
use tests::victim::{self, Variant};

/// Longest wait for an answer; what a step waits for itself ends after 20 ms.
const LIMIT: Duration = Duration::from_secs(20);

/// Far sockets: two for unicast, two that hear the groups and broadcasts.
const FAR: [&str; 12] = [
    "open 0 4 1",
    "bind 0 10.78.0.2 7000",
    "open 1 4 1",
    "bind 1 10.78.0.12 7001",
    "open 2 4 1",
    "bind 2 0.0.0.0 5000",
    "open 3 4 1",
    "bind 3 0.0.0.0 5001",
    "member 2 index join 239.78.0.1",
    "member 3 index join 239.78.0.2",
    "set 0 broadcast 1",
    "set 2 broadcast 1",
];

/// The near host's network as it was.
const RESTORE: [&str; 6] = [
    "link set veth0 mtu 1500 up",
    "addr replace 10.78.0.11/24 dev veth0",
    "addr del 10.78.0.21/24 dev veth0",
    "route replace 224.0.0.0/4 dev veth0",
    "route del 192.0.2.0/24",
    "route del 10.78.0.12",
];

struct Side {
    near: Talk,
    far: Talk,
}

impl Side {
    fn start(lab: &Lab, mode: Mode) -> Self {
        let source = victim::root().join("tests/differential/interpreter.c");
        let program = victim::compile_file(&source, Variant::Plain);
        let mut far = Talk::start(&Program::new(&program, &["far"]).on(&lab.far));
        for line in FAR.iter().chain(&["set 1 broadcast 1"]) {
            far.say(line);
            far.answer(LIMIT).expect("the far host's program answers");
        }
        let near = Program::new(&program, &["near"])
            .on(&lab.near)
            .mode(mode)
            // Where the engine has something, Linux's part is looked at by ratio (README).
            .env("VMA_RX_UDP_POLL_OS_RATIO", "1")
            .env("VMA_TRACELEVEL", "warn");
        Self {
            near: Talk::start(&near),
            far,
        }
    }
}

/// Where the two sides part.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Number of the step.
    pub(crate) at: usize,
    /// The steps until there, and both outcomes of the last one.
    pub(crate) text: String,
}

/// What the counters of the accelerated side say.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    pub(crate) rx: u64,
    pub(crate) rx_os: u64,
    pub(crate) tx: u64,
    pub(crate) tx_os: u64,
}

/// Both sides.
pub(crate) struct Sides {
    labs: [Lab; 2],
    mode: Mode,
    sides: Vec<Side>,
    pub(crate) counted: Counted,
    /// The near hosts' network is not as it was.
    changed: bool,
}

impl Sides {
    /// `None` where namespaces cannot be made.
    pub(crate) fn start(mode: Mode) -> Option<Self> {
        let labs = Lab::open_two()?;
        for lab in &labs {
            for host in [&lab.near, &lab.far] {
                for (key, value) in [
                    // Each error is told, not one a second.
                    ("net.ipv4.icmp_ratelimit", "0"),
                    ("net.ipv6.icmp.ratelimit", "0"),
                    ("net.ipv4.icmp_echo_ignore_broadcasts", "1"),
                ] {
                    host.sysctl(key, value).expect("our own namespace");
                }
            }
        }
        let sides = Self::both(&labs, mode);
        Some(Self {
            labs,
            mode,
            sides,
            counted: Counted::default(),
            changed: false,
        })
    }

    fn both(labs: &[Lab; 2], mode: Mode) -> Vec<Side> {
        vec![
            Side::start(&labs[0], Mode::Native),
            Side::start(&labs[1], mode),
        ]
    }

    fn restore(&mut self) {
        if std::mem::take(&mut self.changed) {
            for lab in &self.labs {
                for words in RESTORE {
                    let _ = lab.near.ip(words);
                }
                forget_alias(lab);
            }
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn restart(&mut self) {
        self.restore();
        // The old ones first: the far host's ports are theirs.
        self.sides.clear();
        self.sides = Self::both(&self.labs, self.mode);
    }

    /// Runs a sequence on both sides; after each step that may send something, waits `nap`
    /// milliseconds more than it takes to arrive.
    pub(crate) fn run(&mut self, steps: &[String], nap: u32) -> Result<(), Difference> {
        let mut before = String::new();
        let mut result = Ok(());
        for (at, step) in steps.iter().enumerate() {
            let (native, shim) = match self.step(step, nap) {
                [Ok(native), Ok(shim)] if native == shim => {
                    let _ = write!(before, "{step}\n{}", indented(&native, "  "));
                    continue;
                }
                [native, shim] => (native, shim),
            };
            let died = native.is_err() || shim.is_err();
            let told = |text: Result<String, String>, mark| {
                indented(&text.unwrap_or_else(|text| text), mark)
            };
            let (native, shim) = (told(native, "- "), told(shim, "+ "));
            let text = format!("{before}{step}    <== differs (- native, + shim)\n{native}{shim}");
            result = Err(Difference { at, text });
            if died {
                self.restart();
                return result;
            }
            break;
        }
        self.count();
        if self.finish().is_err() {
            let text = format!("{before}NO ANSWER at the end");
            self.restart();
            return result.and(Err(Difference {
                at: steps.len(),
                text,
            }));
        }
        result
    }

    fn finish(&mut self) -> Result<(), String> {
        self.restore();
        for line in ["reset", "settle 0"] {
            for answer in self.near([line, line]) {
                answer?;
            }
        }
        for answer in self.far(["drain", "drain"]) {
            answer?;
        }
        Ok(())
    }

    fn count(&mut self) {
        let Ok(snapshot) = stats::snapshot(self.sides[1].near.pid()) else {
            return;
        };
        let sockets = &snapshot.sockets;
        self.counted.rx += stats::rx(&snapshot);
        self.counted.tx += stats::tx(&snapshot);
        self.counted.rx_os += sockets.iter().map(|s| s.rx_os.packets).sum::<u64>();
        self.counted.tx_os += sockets.iter().map(|s| s.tx_os.packets).sum::<u64>();
    }

    fn answers(&mut self, of: fn(&mut Side) -> &mut Talk) -> [Result<String, String>; 2] {
        [0, 1].map(|at| of(&mut self.sides[at]).answer(LIMIT))
    }

    fn near(&mut self, lines: [&str; 2]) -> [Result<String, String>; 2] {
        for (side, line) in self.sides.iter_mut().zip(lines) {
            side.near.say(line);
        }
        self.answers(|side| &mut side.near)
    }

    fn far(&mut self, lines: [&str; 2]) -> [Result<String, String>; 2] {
        for (side, line) in self.sides.iter_mut().zip(lines) {
            side.far.say(line);
        }
        self.answers(|side| &mut side.far)
    }

    fn step(&mut self, step: &str, nap: u32) -> [Result<String, String>; 2] {
        let settle = format!("settle {nap}");
        if let Some(line) = step.strip_prefix("far ") {
            // @SLOT is the port of a socket of the near host: each side's own.
            let (line, slot) = line.split_once('@').unwrap_or((line, ""));
            let mut lines = [line.to_owned(), line.to_owned()];
            if !slot.is_empty() {
                let ask = format!("port {slot}");
                let ports = self.near([&ask, &ask]);
                for (line, port) in lines.iter_mut().zip(ports) {
                    line.push_str(port.as_deref().unwrap_or("1").trim());
                }
            }
            let answers = self.far([&lines[0], &lines[1]]);
            return joined(answers, self.near([&settle, &settle]));
        }
        if let Some(words) = step.strip_prefix("ip ") {
            self.changed = true;
            let answers = self.labs.each_ref().map(|lab| {
                let outcome = lab.near.ip(words);
                forget_alias(lab);
                Ok(if outcome.is_ok() { "ok\n" } else { "refused\n" }.to_owned())
            });
            // The engine follows netlink; a program cannot know when the kernel is done either.
            std::thread::sleep(Duration::from_millis(30));
            return answers;
        }
        let mut answers = self.near([step, step]);
        if step.contains("send ") {
            answers = joined(answers, self.near([&settle, &settle]));
            if answers.iter().all(Result::is_ok) {
                answers = joined(answers, self.far(["drain", "drain"]));
            }
        }
        answers
    }
}

/// Where the far host has asked for an address that was away, it asks again a second later only.
fn forget_alias(lab: &Lab) {
    let _ = lab.far.ip("neigh del 10.78.0.11 dev veth0");
}

fn joined(
    first: [Result<String, String>; 2],
    second: [Result<String, String>; 2],
) -> [Result<String, String>; 2] {
    let mut second = second.into_iter();
    first.map(|first| {
        let second = second.next().expect("as many as the first");
        match (first, second) {
            (Ok(first), Ok(second)) => Ok(first + &second),
            (Ok(first), Err(second)) => Err(first + &second),
            (first, _) => first,
        }
    })
}

fn indented(text: &str, mark: &str) -> String {
    text.lines().fold(String::new(), |mut all, line| {
        let _ = writeln!(all, "{mark}{line}");
        all
    })
}
