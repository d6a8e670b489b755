//! What the engine carried for programs that nobody can ask: the counters of every process
//! of a run, read while they live and once more at the end.

use crate::stats;
use engine::error::Reason;
use engine::stats::read::{Reader, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Often enough to meet a process that lives for a moment.
const PERIOD: Duration = Duration::from_millis(4);

/// Looks until it is asked what it saw.
#[derive(Debug)]
pub struct Sampler {
    directory: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Seen>>,
}

/// What the processes' counters showed.
#[derive(Debug, Default)]
pub struct Seen {
    /// Datagrams that rings received for a socket of the process.
    pub rx: u64,
    /// Frames that rings sent.
    pub tx: u64,
    /// Processes that had counters.
    pub processes: usize,
    /// Why sockets stayed with the kernel, also for a while.
    pub reasons: Vec<Reason>,
    /// Line by line, for a failure's message.
    pub told: String,
}

impl Sampler {
    /// Begins to look.
    ///
    /// # Panics
    /// When the temporary directory is not writable.
    #[must_use]
    pub fn start() -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!("shim-tests-{}-{serial}-stats", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("the temporary directory is writable");
        // For programs that run as a plain user.
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o777))
            .expect("our own directory");
        let stop = Arc::new(AtomicBool::new(false));
        let (place, end) = (directory.clone(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || look(&place, &end));
        Self {
            directory,
            stop,
            thread: Some(thread),
        }
    }

    /// The variable that makes a program tell its counters here, and its value.
    #[must_use]
    pub fn variable(&self) -> (&'static str, String) {
        ("VMA_STATS_SHMEM_DIR", self.directory.display().to_string())
    }

    /// What it has seen.
    ///
    /// # Panics
    /// When the thread that looks has panicked.
    #[must_use]
    pub fn finish(mut self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("taken once");
        thread.join().expect("it only reads")
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// One process.
#[derive(Default)]
struct Process {
    reader: Option<Reader>,
    rings: BTreeMap<(usize, u32), (u64, u64)>,
    reasons: BTreeMap<String, Reason>,
    sockets: BTreeSet<String>,
}

impl Process {
    fn take(&mut self, snapshot: &Snapshot) {
        for ring in &snapshot.rings {
            let rx = ring.rx.frames.saturating_sub(ring.rx.not_ours);
            let most = self.rings.entry((ring.slot, ring.generation)).or_default();
            *most = (most.0.max(rx), most.1.max(ring.tx.frames));
        }
        let reasons = snapshot.sockets.iter().filter_map(|s| s.reason);
        self.reasons.extend(reasons.map(|r| (r.to_string(), r)));
        // Bounded: a failure's message, not a log.
        if self.sockets.len() < 64 {
            let lines = stats::summary(snapshot);
            self.sockets.extend(lines.lines().map(str::to_owned));
        }
    }
}

fn look(directory: &Path, end: &AtomicBool) -> Seen {
    let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
    loop {
        let last = end.load(Ordering::Relaxed);
        for pid in pids(directory) {
            let process = processes.entry(pid).or_default();
            if process.reader.is_none() {
                let path = directory.display().to_string();
                process.reader = Reader::open(&path, pid).ok();
            }
        }
        for process in processes.values_mut() {
            let Some(reader) = &process.reader else {
                continue;
            };
            if let Ok(snapshot) = reader.snapshot() {
                let ended = snapshot.ended;
                process.take(&snapshot);
                if ended {
                    process.reader = None;
                }
            }
        }
        if last {
            return sum(&processes);
        }
        std::thread::sleep(PERIOD);
    }
}

fn pids(directory: &Path) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let names = entries
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok());
    names
        .filter_map(|n| n.strip_prefix("vmastat.")?.parse().ok())
        .collect()
}

fn sum(processes: &BTreeMap<u32, Process>) -> Seen {
    let mut seen = Seen {
        processes: processes.len(),
        ..Seen::default()
    };
    let mut reasons = BTreeMap::new();
    for (pid, process) in processes {
        for (rx, tx) in process.rings.values() {
            seen.rx += rx;
            seen.tx += tx;
        }
        reasons.extend(process.reasons.clone());
        seen.told.push_str(&format!("process {pid}\n"));
        for line in &process.sockets {
            seen.told.push_str(line);
            seen.told.push('\n');
        }
    }
    seen.reasons = reasons.into_values().collect();
    seen
}
