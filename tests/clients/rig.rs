//! A conversation between two hosts: a server on the near one, a client on the far one.

use engine::error::Reason;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tests::check::DEFAULTS;
use tests::netns::Netns;
use tests::preload::{Finished, Mode, Program, Running};
use tests::sampler::{Sampler, Seen};
use tests::topology::Lab;

/// The oracle, and what is compared with it.
pub(crate) const BOTH: [Mode; 2] = [Mode::Native, DEFAULTS];

/// A directory that goes with its value.
#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("shim-tests-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    /// Writes a file; its path.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a directory of ours");
        path.display().to_string()
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program at one end, with its counters.
pub(crate) struct End {
    sampler: Sampler,
    program: Program,
}

impl End {
    pub(crate) fn new(host: &Netns, mode: Mode, name: &str, args: &[&str]) -> Self {
        let sampler = Sampler::start();
        let (variable, value) = sampler.variable();
        let program = Program::new(name, args)
            .on(host)
            .mode(mode)
            .env(variable, &value)
            // What it says is compared.
            .env("VMA_TRACELEVEL", "none")
            .limit(Duration::from_secs(30));
        Self { sampler, program }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(Program) -> Program) -> Self {
        self.program = change(self.program);
        self
    }

    pub(crate) fn run(self) -> (Finished, Seen) {
        let finished = self.program.run();
        (finished, self.sampler.finish())
    }

    /// A server: until it has this UDP port, or TCP port.
    pub(crate) fn serve(self, port: u16) -> Server {
        let running = self.program.spawn();
        wait_for_port(&running, port);
        Server {
            running,
            sampler: self.sampler,
        }
    }
}

/// A server that runs.
pub(crate) struct Server {
    running: Running,
    sampler: Sampler,
}

impl Server {
    /// Ends it; what its counters showed.
    pub(crate) fn end(self) -> Seen {
        // What is still on its way.
        std::thread::sleep(Duration::from_millis(50));
        let seen = self.sampler.finish();
        drop(self.running);
        seen
    }

    /// Asks it to end.
    pub(crate) fn interrupt(&self) {
        self.running.signal(rustix::process::Signal::INT);
    }

    /// Waits for its own end.
    pub(crate) fn wait(self) -> (Finished, Seen) {
        let finished = self.running.wait();
        (finished, self.sampler.finish())
    }
}

fn wait_for_port(running: &Running, port: u16) {
    let hex = format!(":{port:04X} ");
    let deadline = Instant::now() + Duration::from_secs(15);
    let has = |table: &str| {
        let path = format!("/proc/{}/net/{table}", running.pid());
        std::fs::read_to_string(path).is_ok_and(|text| text.contains(&hex))
    };
    while !["udp", "udp6", "tcp", "tcp6"].iter().any(|t| has(t)) {
        assert!(Instant::now() < deadline, "port {port} does not open");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What one run of a conversation gave.
pub(crate) struct Said {
    pub(crate) client: Finished,
    pub(crate) server: Seen,
    pub(crate) seen: Seen,
}

/// `server` on the near host, then `client` on the far one.
pub(crate) fn conversation(
    port: u16,
    server: impl FnOnce(&Lab) -> End,
    client: impl FnOnce(&Lab) -> End,
) -> Option<Said> {
    let lab = Lab::open()?;
    let serving = server(&lab).serve(port);
    let (client, seen) = client(&lab).run();
    Some(Said {
        client,
        server: serving.end(),
        seen,
    })
}

/// Received and sent by rings at least so often.
#[track_caller]
pub(crate) fn carried(what: &str, seen: &Seen, rx: u64, tx: u64) {
    assert!(
        seen.rx >= rx && seen.tx >= tx,
        "{what}: rings received {} (promised {rx}) and sent {} (promised {tx})\n{}",
        seen.rx,
        seen.tx,
        seen.told
    );
}

/// As [`carried`], or for this reason not received by rings; they send all the same.
#[track_caller]
pub(crate) fn carried_or(what: &str, seen: &Seen, reason: Reason, rx: u64, tx: u64) {
    let rx = if seen.reasons.contains(&reason) {
        0
    } else {
        rx
    };
    carried(what, seen, rx, tx);
}
