//! `shim-stats`: shows the statistics of a process that runs under libshim, with the
//! command line of vma_stats. Reads only; it needs no more than the right to read the
//! process's file.
#![forbid(unsafe_code)]

use clap::Parser;
use engine::stats::{ReadError, Reader, Snapshot, start_ticks};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tools::stats_view::{SEPARATOR, Style, View};
use tools::{stats_find, stats_json};

/// Heading lines are repeated after so many lines.
const PAGE: usize = 24;

/// Shows the statistics of a process that runs under libshim.
///
/// Without -p the first running one in the directory is taken.
#[derive(Debug, Parser)]
#[command(name = "shim-stats", version, disable_version_flag = true)]
struct Options {
    /// Process to watch
    #[arg(short, long, value_name = "PID")]
    pid: Option<u32>,
    /// Directory of the statistics files, as VMA_STATS_SHMEM_DIR of the process; %d is its pid
    #[arg(short = 'k', long, value_name = "DIR", default_value = "/tmp/")]
    directory: String,
    /// Watch the first running process of this program
    #[arg(short, long, value_name = "APP", conflicts_with = "pid")]
    name: Option<String>,
    /// Watch the first running process (what happens without -p and -n)
    #[arg(short, long = "find_pid", alias = "find-pid", conflicts_with = "pid")]
    find_pid: bool,
    /// Leave the files of finished processes alone
    #[arg(short = 'F', long = "forbid_clean", alias = "forbid-clean")]
    forbid_clean: bool,
    /// Seconds between two cycles
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Number of cycles, 0 for no end
    #[arg(short, long, value_name = "N", default_value_t = 0)]
    cycles: u64,
    /// 1 basic, 2 with receive queues, 3 full, 4 multicast groups
    #[arg(short, long, value_name = "1..4", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=4))]
    view: u8,
    /// 1 totals, 2 differences by the second
    #[arg(short, long, value_name = "1|2", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(1..=2))]
    details: u8,
    /// Only these descriptors: 7 or 4-16 or 1,9,12-14
    #[arg(short, long, value_name = "LIST", value_parser = descriptors)]
    sockets: Option<Descriptors>,
    /// One JSON document a cycle, a line each; with -d 2 counters since the one before
    #[arg(long)]
    json: bool,
    /// Print the version
    #[arg(short = 'V', long, action = clap::ArgAction::Version)]
    version: (),
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(interval) if interval >= Duration::from_millis(1) => Ok(interval),
        _ => Err("must be 0.001 or more".to_owned()),
    }
}

/// Ranges of descriptors, both ends included.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Descriptors(Vec<(i32, i32)>);

impl Descriptors {
    fn contains(&self, fd: i32) -> bool {
        self.0
            .iter()
            .any(|&(first, last)| (first..=last).contains(&fd))
    }
}

fn descriptors(text: &str) -> Result<Descriptors, String> {
    let number = |text: &str| {
        text.parse::<i32>()
            .map_err(|_| format!("{text:?} is no descriptor"))
    };
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Ok((number(first)?, number(last)?)),
        None => number(part).map(|fd| (fd, fd)),
    };
    text.split(',')
        .map(range)
        .collect::<Result<_, _>>()
        .map(Descriptors)
}

/// Why watching stopped early.
enum Failure {
    Read(ReadError),
    NotFound(String),
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let stdout = io::stdout();
    let clear = stdout.is_terminal();
    let failed = match watch(&options, &mut stdout.lock(), clear) {
        Ok(()) => return ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            return ExitCode::SUCCESS;
        }
        Err(Failure::Output(error)) => format!("cannot write: {error}"),
        Err(Failure::Read(error)) => error.to_string(),
        Err(Failure::NotFound(what)) => what,
    };
    // Where stderr is closed the exit status has to do.
    let _ = writeln!(io::stderr(), "vmastat: {failed}");
    ExitCode::FAILURE
}

fn choose(options: &Options) -> Result<Reader, Failure> {
    if let Some(pid) = options.pid {
        return Ok(Reader::open(&options.directory, pid)?);
    }
    let name = options.name.as_deref();
    let running = stats_find::running(&options.directory, name, !options.forbid_clean);
    running.into_iter().next().ok_or_else(|| {
        let program = name.map_or(String::new(), |name| format!(" of {name}"));
        Failure::NotFound(format!(
            "no running process{program} with statistics in {}",
            options.directory
        ))
    })
}

fn watch(options: &Options, out: &mut impl Write, clear: bool) -> Result<(), Failure> {
    let reader = choose(options)?;
    let view = match options.view {
        1 => View::Basic,
        2 => View::Medium,
        3 => View::Full,
        _ => View::Multicast,
    };
    // Groups are printed once, as vma_stats does.
    let once = view == View::Multicast && !options.json && options.cycles == 0;
    let cycles = if once { 1 } else { options.cycles };
    let process = Process::new(reader.pid());
    let mut output = Output {
        out,
        json: options.json,
        clear,
        since_heading: None,
    };

    let mut seen = reader.snapshot()?;
    output.begin(&seen)?;
    let mut taken = Instant::now();
    let mut cycle = 0;
    if options.details == 1 {
        output.cycle(
            &limited(seen.clone(), options),
            Style {
                view,
                seconds: None,
            },
        )?;
        cycle += 1;
    }
    while !seen.ended && (cycles == 0 || cycle < cycles) {
        process.wait(options.interval);
        let now = reader.snapshot()?;
        let elapsed = taken.elapsed();
        taken += elapsed;
        if options.details == 1 {
            output.cycle(
                &limited(now.clone(), options),
                Style {
                    view,
                    seconds: None,
                },
            )?;
        } else {
            let style = Style {
                view,
                seconds: Some(elapsed.as_secs_f64()),
            };
            output.cycle(&limited(now.since(&seen), options), style)?;
        }
        seen = now;
        cycle += 1;
    }
    if seen.ended {
        output.end(&seen, process.is_gone())?;
    }
    Ok(())
}

fn limited(mut snapshot: Snapshot, options: &Options) -> Snapshot {
    if let Some(wanted) = &options.sockets {
        snapshot.sockets.retain(|socket| wanted.contains(socket.fd));
    }
    snapshot
}

/// The watched process, to be woken by its end instead of finding out a cycle later.
struct Process {
    pid: u32,
    handle: Option<OwnedFd>,
}

impl Process {
    fn new(pid: u32) -> Self {
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let handle = raw.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self { pid, handle }
    }

    /// Returns after `time`, or when the process ends.
    fn wait(&self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return;
            }
            let Some(handle) = &self.handle else {
                std::thread::sleep(rest);
                return;
            };
            let timeout = Timespec {
                tv_sec: i64::try_from(rest.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: rest.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(handle, PollFlags::IN)], Some(&timeout)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return,
                Err(_) => {
                    std::thread::sleep(rest);
                    return;
                }
            }
        }
    }

    /// Whether it has ended rather than gone on as another program. The file goes a
    /// moment before the process.
    fn is_gone(&self) -> bool {
        if start_ticks(self.pid).is_some() {
            self.wait(Duration::from_millis(500));
        }
        start_ticks(self.pid).is_none()
    }
}

struct Output<'a, W> {
    out: &'a mut W,
    json: bool,
    /// The full view begins at the top of the screen.
    clear: bool,
    /// Lines since the heading was printed; `None` before the first.
    since_heading: Option<usize>,
}

impl<W: Write> Output<'_, W> {
    fn begin(&mut self, seen: &Snapshot) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        writeln!(
            self.out,
            "vmastat: application {}, pid {}",
            seen.program, seen.pid
        )?;
        self.out.flush()
    }

    fn cycle(&mut self, seen: &Snapshot, style: Style) -> io::Result<()> {
        if self.json {
            writeln!(self.out, "{}", stats_json::document(seen, style.seconds))?;
            return self.out.flush();
        }
        if style.view == View::Full && self.clear {
            write!(self.out, "\x1b[H\x1b[2J")?;
        }
        if self.since_heading.is_none_or(|lines| lines >= PAGE) {
            write!(self.out, "{}", style.heading())?;
            self.since_heading = Some(0);
        }
        let text = style.render(seen);
        write!(self.out, "{text}")?;
        writeln!(self.out, "{SEPARATOR}")?;
        let lines = text.lines().count() + 1;
        self.since_heading = self.since_heading.map(|so_far| so_far + lines);
        self.out.flush()
    }

    fn end(&mut self, seen: &Snapshot, gone: bool) -> io::Result<()> {
        let what = if gone {
            "has ended"
        } else {
            "no longer publishes these statistics"
        };
        let line = format!("vmastat: process {} ({}) {what}", seen.pid, seen.program);
        if self.json {
            let _ = writeln!(io::stderr(), "{line}");
            return Ok(());
        }
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line() {
        Options::command().debug_assert();
        let parse = |text: &str| Options::try_parse_from(text.split(' '));
        let options = parse("shim-stats -p 7 -i 0.5 -c 3 -v 3 -d 2 -k /run/x -s 4-16,20").unwrap();
        assert_eq!(
            (options.pid, options.cycles, options.view, options.details),
            (Some(7), 3, 3, 2)
        );
        assert_eq!(options.interval, Duration::from_millis(500));
        let sockets = options.sockets.unwrap();
        assert!(sockets.contains(16) && sockets.contains(20) && !sockets.contains(17));
        assert_eq!(parse("shim-stats").unwrap().directory, "/tmp/");
        assert!(parse("shim-stats -n java -F --find_pid").unwrap().find_pid);
        for bad in [
            "-v 5",
            "-d 3",
            "-i 0",
            "-i -1",
            "-i nan",
            "-s x",
            "-p 1 -n java",
            "-p x",
        ] {
            assert!(parse(&format!("shim-stats {bad}")).is_err(), "{bad}");
        }
    }

    #[test]
    fn headings_return_after_a_page() {
        let mut text = Vec::new();
        let mut output = Output {
            out: &mut text,
            json: false,
            clear: false,
            since_heading: None,
        };
        let style = Style {
            view: View::Basic,
            seconds: None,
        };
        let snapshot = Snapshot::default();
        for _ in 0..PAGE {
            output.cycle(&snapshot, style).unwrap();
        }
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.matches("total offloaded").count(), 2);
        assert_eq!(text.matches(SEPARATOR).count(), PAGE);
    }
}
