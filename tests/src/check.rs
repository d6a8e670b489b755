//! A case: one victim, run natively and under the library in several
//! configurations; the transcripts must be equal, and the counters must show what
//! the case promises.

use crate::backend::{self, Backend};
use crate::peer::Peer;
use crate::preload::{self, Finished, Mode, Program, PublicCopies};
use crate::stats::{self, Snapshot};
use crate::topology::Lab;
use crate::victim::{self, Variant};
use std::fmt::Write as _;
use std::time::Duration;

/// Spin for a while, then sleep: the defaults.
pub const DEFAULTS: Mode = Mode::Shim(&[]);
/// Never spin: every wait is a sleep in the kernel.
pub const SLEEP: Mode = Mode::Shim(&[("VMA_RX_POLL", "0"), ("VMA_SELECT_POLL", "0")]);
/// Spin for ever: no wait ever sleeps.
pub const SPIN: Mode = Mode::Shim(&[("VMA_SPEC", "latency")]);

/// Tests of a victim's scenes: `scenes!("victim": name rx 1 tx 0; …)`. Two configurations are
/// enough for what does not wait.
#[macro_export]
macro_rules! scenes {
    ($victim:literal: $($name:ident rx $rx:literal tx $tx:literal;)+) => { $(
        #[test]
        fn $name() {
            $crate::check::Case::new($victim)
                .args(&[stringify!($name)])
                .modes(&[$crate::check::DEFAULTS, $crate::check::SLEEP])
                .engine($rx, $tx)
                .run();
        }
    )+ };
}

/// What the counters of the shimmed run must show.
#[derive(Clone, Debug)]
enum Promise {
    /// At least so many datagrams went through the engine.
    Engine { rx: u64, tx: u64 },
    /// Some socket stays with the kernel, and this is the stated reason.
    Kernel(engine::error::Reason),
    /// The counters say nothing; why not.
    Unobserved(#[expect(dead_code, reason = "a note for the reader")] &'static str),
}

/// One victim and what is expected of it.
#[derive(Clone, Debug)]
pub struct Case {
    name: &'static str,
    args: Vec<&'static str>,
    variant: Variant,
    promise: Promise,
    modes: Vec<Mode>,
    limit: Duration,
    cold: bool,
    wrapper: Vec<&'static str>,
    public: bool,
    packet: bool,
    one_lab: bool,
}

impl Case {
    /// `tests/victims/NAME.c`; nothing promised yet.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            args: Vec::new(),
            variant: Variant::Plain,
            promise: Promise::Unobserved("nothing promised"),
            modes: vec![DEFAULTS, SLEEP, SPIN],
            limit: Duration::from_secs(20),
            cold: false,
            wrapper: Vec::new(),
            public: false,
            packet: false,
            one_lab: false,
        }
    }

    /// Arguments of the victim.
    #[must_use]
    pub fn args(mut self, args: &[&'static str]) -> Self {
        self.args.extend(args);
        self
    }

    /// Compiled with `-D_FORTIFY_SOURCE=3`.
    #[must_use]
    pub fn fortified(mut self) -> Self {
        self.variant = Variant::Fortified;
        self
    }

    /// At least `rx` datagrams received and `tx` sent by the engine.
    #[must_use]
    pub fn engine(mut self, rx: u64, tx: u64) -> Self {
        self.promise = Promise::Engine { rx, tx };
        self
    }

    /// Stays with the kernel for this reason.
    #[must_use]
    pub fn kernel(mut self, reason: engine::error::Reason) -> Self {
        self.promise = Promise::Kernel(reason);
        self
    }

    /// The counters show nothing; says why.
    #[must_use]
    pub fn unobserved(mut self, why: &'static str) -> Self {
        self.promise = Promise::Unobserved(why);
        self
    }

    /// Only these configurations.
    #[must_use]
    pub fn modes(mut self, modes: &[Mode]) -> Self {
        self.modes = modes.to_vec();
        self
    }

    /// One of many small ones: natively and with the defaults, on the same two hosts.
    #[must_use]
    pub fn brief(mut self) -> Self {
        self.modes = vec![DEFAULTS];
        self.one_lab = true;
        self
    }

    /// Longest run.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Neighbours are unresolved at the start of each run.
    #[must_use]
    pub fn cold(mut self) -> Self {
        self.cold = true;
        self
    }

    /// A launcher in front of the victim, in both runs.
    #[must_use]
    pub fn wrapper(mut self, words: &[&'static str]) -> Self {
        self.wrapper.extend(words);
        self
    }

    /// The victim runs as a user who may not look into the source tree.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.public = true;
        self
    }

    /// Its configurations name the packet device, whatever the run is about.
    #[must_use]
    pub fn on_packet(mut self) -> Self {
        self.packet = true;
        self
    }

    /// Runs it natively, then in every configuration.
    ///
    /// # Panics
    /// When a transcript differs, or the counters do not show what was promised.
    pub fn run(&self) {
        let Some(lab) = self.lab() else { return };
        let (oracle, _) = self.once(&lab, Mode::Native);
        let mut lab = Some(lab);
        assert!(
            oracle.status.success() && oracle.stdout.ends_with("done\n"),
            "{} fails natively: {:?}\n{}\n{}",
            self.name,
            oracle.status,
            oracle.stdout,
            oracle.stderr
        );
        if std::env::var_os("SHOW").is_some() {
            eprintln!(
                "--- {} {}\n{}",
                self.name,
                self.args.join(" "),
                oracle.stdout
            );
        }
        for &mode in &self.modes {
            // A fresh lab each time: no membership, neighbour or route carries over.
            if !self.one_lab {
                lab = None;
            }
            let Some(hosts) = lab.take().or_else(|| self.lab()) else {
                return;
            };
            let (shimmed, reports) = self.once(&hosts, mode);
            lab = Some(hosts);
            let what = format!("{} {} under {mode:?}", self.name, self.args.join(" "));
            assert!(
                shimmed.stdout == oracle.stdout && shimmed.code() == oracle.code(),
                "{what}: status {:?}, transcript (- native, + shim):\n{}--- stderr\n{}",
                shimmed.status,
                difference(&oracle.stdout, &shimmed.stdout),
                shimmed.stderr
            );
            self.keep_promise(&what, &reports, &shimmed);
        }
    }

    /// The device whose rings serve it, by the statistics.
    fn backend(&self) -> &'static str {
        let backend = if self.packet {
            Backend::Packet
        } else {
            Backend::current()
        };
        backend.name()
    }

    fn lab(&self) -> Option<Lab> {
        if self.cold {
            Lab::open_cold()
        } else {
            Lab::open()
        }
    }

    fn once(&self, lab: &Lab, mode: Mode) -> (Finished, Vec<Result<Snapshot, String>>) {
        let peer = Peer::start(lab, mode != Mode::Native);
        let mut victim = victim::compile(self.name, self.variant);
        let copies = self.public.then(PublicCopies::new);
        if let Some(copies) = &copies {
            victim = copies.of(&victim);
        }
        let mut program = Program::new(victim, &self.args)
            .on(&lab.near)
            .mode(mode)
            .wrapper(&self.wrapper)
            .env("PEER", &peer.address())
            .limit(self.limit);
        if let (Some(copies), Mode::Shim(_)) = (&copies, mode) {
            program = program.library(copies.of(&preload::library()));
            if Backend::current() == Backend::Verbs {
                let _ = copies.of(&backend::softverbs().join("libibverbs.so.1"));
                program = program.device(backend::on_software("packet", copies.path()));
            }
        }
        let finished = program.run();
        let reports = peer.reports();
        (finished, reports)
    }

    fn keep_promise(&self, what: &str, reports: &[Result<Snapshot, String>], run: &Finished) {
        let told: String = reports
            .iter()
            .map(|r| {
                r.as_ref()
                    .map_or_else(|e| format!("  {e}\n"), stats::summary)
            })
            .collect();
        let taken: Vec<&Snapshot> = reports.iter().flatten().collect();
        let best = |count: fn(&Snapshot) -> u64| taken.iter().map(|s| count(s)).max().unwrap_or(0);
        match &self.promise {
            Promise::Engine { rx, tx } => {
                let (got_rx, got_tx) = (best(stats::rx), best(stats::tx));
                let accelerated = taken.iter().any(|s| {
                    s.sockets.iter().any(|s| s.accelerated)
                        && s.rings.iter().any(|r| r.backend == self.backend())
                });
                assert!(
                    accelerated && got_rx >= *rx && got_tx >= *tx,
                    "{what}: the engine received {got_rx} (promised {rx}) and sent {got_tx} \
                     (promised {tx}):\n{told}--- stderr\n{}",
                    run.stderr
                );
            }
            Promise::Kernel(reason) => {
                let stays = taken
                    .iter()
                    .flat_map(|s| &s.sockets)
                    .any(|s| !s.accelerated && s.reason == Some(*reason));
                assert!(stays, "{what}: no socket says {reason}:\n{told}");
            }
            Promise::Unobserved(_) => {}
        }
    }
}

/// The lines that differ, with the last equal line before each for orientation.
#[must_use]
pub fn difference(native: &str, shim: &str) -> String {
    let (native, shim): (Vec<_>, Vec<_>) = (native.lines().collect(), shim.lines().collect());
    let same = native.iter().zip(&shim).take_while(|(a, b)| a == b).count();
    let mut text = String::new();
    for line in &native[same.saturating_sub(3)..same] {
        let _ = writeln!(text, "  {line}");
    }
    for line in native.iter().skip(same).take(12) {
        let _ = writeln!(text, "- {line}");
    }
    for line in shim.iter().skip(same).take(12) {
        let _ = writeln!(text, "+ {line}");
    }
    text
}
