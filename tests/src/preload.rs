//! Starts a program natively or under the library: on a host, bounded in time,
//! output captured, ended by its process group.

use crate::backend::Backend;
use crate::netns::Netns;
use crate::stats;
use crate::victim;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// With or without the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Linux as it is: the oracle.
    Native,
    /// `LD_PRELOAD=libshim.so` with these variables beside it.
    Shim(&'static [(&'static str, &'static str)]),
}

/// The library under test: `SHIM_LIBRARY`, else the release build.
///
/// # Panics
/// When it has not been built.
#[must_use]
pub fn library() -> PathBuf {
    let path = std::env::var_os("SHIM_LIBRARY").map_or_else(
        || victim::target().join("release/libshim.so"),
        PathBuf::from,
    );
    assert!(
        path.is_file(),
        "{} is missing: cargo build --release first",
        path.display()
    );
    path
}

/// A directory with copies that any user may read and execute; the tree itself may
/// lie where only its owner may look. Removed with its value.
#[derive(Debug)]
pub struct PublicCopies(PathBuf);

impl PublicCopies {
    /// An empty directory.
    ///
    /// # Panics
    /// When the temporary directory is not writable.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "makes a directory")]
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("shim-tests-{}-public", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
            .expect("our own directory");
        Self(path)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A copy of `file`.
    ///
    /// # Panics
    /// When it cannot be copied.
    #[must_use]
    pub fn of(&self, file: &Path) -> PathBuf {
        let copy = self.0.join(file.file_name().unwrap_or_default());
        std::fs::copy(file, &copy).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755))
            .expect("our own file");
        copy
    }
}

impl Drop for PublicCopies {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program of ours from the release build (`shim-stats`, …).
///
/// # Panics
/// When it has not been built.
#[must_use]
pub fn tool(name: &str) -> PathBuf {
    let path = victim::target().join("release").join(name);
    assert!(
        path.is_file(),
        "{} is missing: cargo build --release first",
        path.display()
    );
    path
}

/// A program to be started.
#[derive(Clone, Debug)]
pub struct Program {
    words: Vec<String>,
    wrapper: Vec<String>,
    env: Vec<(String, String)>,
    host: Option<String>,
    mode: Mode,
    limit: Duration,
    input: Option<PathBuf>,
    close_stderr: bool,
    library: Option<PathBuf>,
    device: Option<Vec<(String, String)>>,
}

impl Program {
    /// `path args…`, native, in the test's own namespace, 20 s at most.
    #[must_use]
    pub fn new(path: impl AsRef<Path>, args: &[&str]) -> Self {
        let mut words = vec![path.as_ref().display().to_string()];
        words.extend(args.iter().map(|&a| a.to_owned()));
        Self {
            words,
            wrapper: Vec::new(),
            env: Vec::new(),
            host: None,
            mode: Mode::Native,
            limit: Duration::from_secs(20),
            input: None,
            close_stderr: false,
            library: None,
            device: None,
        }
    }

    /// Natively or under the library.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Runs on this host.
    #[must_use]
    pub fn on(mut self, host: &Netns) -> Self {
        self.host = Some(host.name().to_owned());
        self
    }

    /// One more variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A launcher in front (`prlimit`, `setpriv`, …); the library is not loaded into it.
    #[must_use]
    pub fn wrapper(mut self, words: &[&str]) -> Self {
        self.wrapper.extend(words.iter().map(|&w| w.to_owned()));
        self
    }

    /// Longest run.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Standard input from a file; else empty.
    #[must_use]
    pub fn input(mut self, path: &Path) -> Self {
        self.input = Some(path.to_owned());
        self
    }

    /// Another copy of the library.
    #[must_use]
    pub fn library(mut self, path: PathBuf) -> Self {
        self.library = Some(path);
        self
    }

    /// Variables that choose another device than [`Backend::current`].
    #[must_use]
    pub fn device(mut self, variables: Vec<(String, String)>) -> Self {
        self.device = Some(variables);
        self
    }

    /// Starts with descriptor 2 closed.
    #[must_use]
    pub fn without_stderr(mut self) -> Self {
        self.close_stderr = true;
        self
    }

    pub(crate) fn command(&self) -> Command {
        let mut line: Vec<String> = Vec::new();
        if let Some(host) = &self.host {
            line.extend(["ip", "netns", "exec", host].map(String::from));
        }
        line.extend(self.wrapper.iter().cloned());
        if self.close_stderr {
            line.extend(["sh", "-c", "exec \"$@\" 2>&-", "sh"].map(String::from));
        }
        // env(1) comes last, so that no launcher runs under the library.
        line.push("env".into());
        if let Mode::Shim(vars) = self.mode {
            let device = self
                .device
                .clone()
                .unwrap_or_else(|| Backend::current().variables());
            line.extend(device.iter().map(|(k, v)| format!("{k}={v}")));
            line.extend(self.env.iter().map(|(k, v)| format!("{k}={v}")));
            line.extend(vars.iter().map(|(k, v)| format!("{k}={v}")));
            let library = self.library.clone().unwrap_or_else(library);
            line.push(format!("LD_PRELOAD={}", library.display()));
        } else {
            line.extend(self.env.iter().map(|(k, v)| format!("{k}={v}")));
        }
        line.extend(self.words.iter().cloned());
        let mut command = Command::new(&line[0]);
        command.args(&line[1..]).process_group(0);
        // What the harness itself was started with must not leak into a case.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["VMA_", "SHIM_", "SOFTVERBS_", "LD_PRELOAD"]
                .iter()
                .any(|p| text.starts_with(p))
            {
                command.env_remove(&name);
            }
        }
        command
    }

    /// Starts it.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn spawn(&self) -> Running {
        let (out, out_reader) = capture();
        let (err, err_reader) = capture();
        let input = self.input.as_ref().map_or_else(Stdio::null, |path| {
            Stdio::from(File::open(path).expect("the input file is there"))
        });
        let mut command = self.command();
        command.stdin(input).stdout(out).stderr(err);
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Running {
            child,
            out: out_reader,
            err: err_reader,
            started: Instant::now(),
            limit: self.limit,
            name: self.words.join(" "),
            status: None,
        }
    }

    /// Starts it and waits for its end.
    ///
    /// # Panics
    /// When it does not end in time.
    #[must_use]
    pub fn run(&self) -> Finished {
        self.spawn().wait()
    }
}

/// A file with no name: the writer's end and ours. A file, not a pipe, so that a
/// daemon that keeps it open does not keep us waiting.
pub(crate) fn capture() -> (File, File) {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("shim-tests-{}-{serial}", std::process::id()));
    let writer = File::options()
        .append(true)
        .create_new(true)
        .open(&path)
        .expect("the temporary directory is writable");
    let reader = File::open(&path).expect("a file just made can be read");
    std::fs::remove_file(&path).expect("a file just made can be removed");
    (writer, reader)
}

pub(crate) fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().expect("a regular file seeks");
    file.read_to_end(&mut bytes).expect("a regular file reads");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A program that runs; killed with its process group when dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    out: File,
    err: File,
    started: Instant,
    limit: Duration,
    name: String,
    status: Option<ExitStatus>,
}

impl Running {
    /// Its pid (the launchers exec, they do not fork).
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to standard output so far.
    pub fn stdout(&mut self) -> String {
        text(&mut self.out)
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&mut self) -> String {
        text(&mut self.err)
    }

    /// Waits until standard output contains `what`.
    ///
    /// # Panics
    /// When it ends before, or within the limit does not.
    pub fn wait_for(&mut self, what: &str) {
        loop {
            if self.stdout().contains(what) {
                return;
            }
            let ended = self.poll().is_some();
            let late = self.started.elapsed() > self.limit;
            if (ended || late) && !self.stdout().contains(what) {
                self.complain(&format!("did not print {what:?}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// When it is gone already.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.rustix_pid(), signal).expect("the process is there");
    }

    fn rustix_pid(&self) -> Pid {
        i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .expect("a pid fits")
    }

    fn poll(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().expect("our own child");
        }
        self.status
    }

    fn complain(&mut self, what: &str) -> ! {
        let (out, err) = (self.stdout(), self.stderr());
        let status = self.poll();
        panic!(
            "{} {what} (status {status:?})\n--- stdout\n{out}\n--- stderr\n{err}",
            self.name
        );
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end in time; it is killed then.
    #[must_use]
    pub fn wait(mut self) -> Finished {
        let status = loop {
            if let Some(status) = self.poll() {
                break status;
            }
            if self.started.elapsed() > self.limit {
                self.complain("did not end in time");
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        Finished {
            status,
            elapsed: self.started.elapsed(),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    /// Kills it and returns what it wrote.
    ///
    /// # Panics
    /// When it had ended by itself.
    #[must_use]
    pub fn kill(mut self) -> Finished {
        if self.poll().is_some() {
            self.complain("ended by itself");
        }
        self.signal(Signal::KILL);
        self.wait()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The group also holds what the program itself forked.
        let _ = kill_process_group(self.rustix_pid(), Signal::KILL);
        let _ = self.child.wait();
        // A killed program cannot remove its statistics.
        let pid = self.child.id();
        let _ = std::fs::remove_file(Path::new(stats::DIRECTORY).join(format!("vmastat.{pid}")));
    }
}

/// A program that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How.
    pub status: ExitStatus,
    /// After how long.
    pub elapsed: Duration,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Finished {
    /// Exit code, or the signal's number made negative.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| -self.status.signal().unwrap_or(0))
    }

    /// Itself, if the program succeeded.
    ///
    /// # Panics
    /// When it did not.
    #[must_use]
    pub fn success(self, what: &str) -> Self {
        assert!(
            self.status.success(),
            "{what}: {:?}\n--- stdout\n{}\n--- stderr\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }
}
