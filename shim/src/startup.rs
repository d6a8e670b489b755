//! Start-up in two steps.
//!
//! **Load** (before main, in every process that inherits the preload), in this order:
//! 1. the environment is read: everything else depends on it;
//! 2. the process is remembered and fork followed: from here on the hooks may act;
//! 3. warnings and banner, one write each, to stderr if that is a place to say something.
//!
//! No file, no thread, no device, no lasting allocation but the configuration.
//!
//! **Start** (at the first UDP socket, in the thread that opens it): a private copy of
//! stderr or the log file, the log, the engine. Whatever fails here leaves the sockets
//! with the kernel. Other threads wait; the starting thread's own calls pass through.

use crate::abi::{self, kernel};
use crate::{banner, guard, process};
use engine::config::{self, BannerMode, Config, Opt, TraceLevel};
use engine::error::Errno;
use engine::stack::Stack;
use engine::sys::fd::move_high;
use engine::sys::{defer, event, leave};
use once_cell::sync::OnceCell;
use std::ffi::CString;
use std::io::Write;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};

/// Set for children once a process of this program has announced itself. Not one of the
/// options: its name has none of their prefixes.
const ANNOUNCED: &std::ffi::CStr = c"LIBSHIM_ANNOUNCED";

const STDERR: RawFd = 2;
/// Numbers below this are the program's.
const LOWEST_OWN: usize = 64;

/// Hooks pass everything through.
const UNLOADED: u8 = 0;
/// Ready to start the engine.
const LOADED: u8 = 1;
/// One thread starts the engine, or forks: others wait.
const BUSY: u8 = 2;
/// The engine runs.
const RUNNING: u8 = 3;

/// Every store is a Release that makes ENGINE or CONFIG visible to the Acquire loads.
static STATE: AtomicU8 = AtomicU8::new(UNLOADED);
static CONFIG: OnceCell<Arc<Config>> = OnceCell::new();
static ENGINE: OnceCell<Arc<Stack>> = OnceCell::new();
/// Where lines go: nowhere, stderr (until the engine starts), our own copy, the log file.
static LOG: AtomicI32 = AtomicI32::new(-1);
/// What number 2 named when it was last trusted, for when LOG is that number itself.
static STDERR_IDENTITY: OnceCell<(u64, u64)> = OnceCell::new();

/// Step one, by the constructor.
pub(crate) fn load() {
    let (config, warnings) = Config::from_process();
    let config = CONFIG.get_or_init(|| Arc::new(config));
    process::initialise();
    STATE.store(LOADED, Ordering::Release);
    let level = config.trace_level();
    if !may_speak(STDERR) || !config.text(Opt::LogFile).is_empty() {
        return;
    }
    log_to_stderr();
    let fresh = process::environment(ANNOUNCED).is_none();
    speak(config, fresh, &warnings);
    if fresh && level >= TraceLevel::Info {
        let pid = CString::new(kernel::getpid().to_string());
        process::set_environment(ANNOUNCED, &pid.unwrap_or_default());
    }
    LOG.store(-1, Ordering::Relaxed);
}

/// Warnings and banner.
fn speak(config: &Config, fresh: bool, warnings: &[config::Warning]) {
    let show = match config.banner() {
        BannerMode::Always => true,
        BannerMode::Auto => fresh,
        BannerMode::Never => false,
    };
    let level = config.trace_level();
    if fresh && level >= TraceLevel::Warn {
        for warning in warnings {
            say(&banner::warning_line(warning));
        }
    }
    if show && level >= TraceLevel::Info {
        let mut text = String::new();
        for line in banner::lines(config, env!("CARGO_PKG_VERSION"), &process::command_line()) {
            text.push_str(&line);
            text.push('\n');
        }
        emit(text.as_bytes());
    }
}

/// False if there is no such descriptor, or if a write to it would be a message on a socket.
fn may_speak(fd: RawFd) -> bool {
    kernel::file_type(fd).is_ok_and(|kind| kind != libc::S_IFSOCK)
}

fn log_to_stderr() {
    if let Some(identity) = kernel::identity(STDERR) {
        let _ = STDERR_IDENTITY.set(identity);
        LOG.store(STDERR, Ordering::Relaxed);
    }
}

fn emit(text: &[u8]) {
    let fd = LOG.load(Ordering::Relaxed);
    // Only our own numbers are certain to be what they were.
    if fd >= 0 && (fd != STDERR || kernel::identity(STDERR) == STDERR_IDENTITY.get().copied()) {
        let _ = kernel::write(fd, text);
    }
}

/// One line for a person, in one write.
pub(crate) fn say(line: &str) {
    let mut text = String::with_capacity(line.len() + 1);
    text.push_str(line);
    text.push('\n');
    emit(text.as_bytes());
}

/// What the engine wants a person to see.
fn announce(level: TraceLevel, text: &str) {
    if CONFIG
        .get()
        .is_some_and(|config| config.trace_level() >= level)
    {
        say(&banner::line(level, text));
    }
}

/// The engine, if it runs. One load; never waits.
#[inline]
pub(crate) fn running() -> Option<&'static Arc<Stack>> {
    if STATE.load(Ordering::Acquire) == RUNNING {
        ENGINE.get()
    } else {
        None
    }
}

/// The engine, started if need be. None before the library is initialised and in the
/// starting thread itself.
pub(crate) fn engine() -> Option<&'static Arc<Stack>> {
    loop {
        match STATE.compare_exchange(LOADED, BUSY, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                start();
                return ENGINE.get();
            }
            Err(RUNNING) => return ENGINE.get(),
            Err(BUSY) if !guard::inside() => std::thread::yield_now(),
            Err(_) => return None,
        }
    }
}

/// Step two. The caller has made the state BUSY.
#[cold]
fn start() {
    let inside = guard::enter();
    let errno = abi::errno();
    let config = CONFIG
        .get_or_init(|| Arc::new(Config::default_config()))
        .clone();
    open_log(&config);
    event::set_cancellation(
        process::next_symbol(c"pthread_testcancel").addr(),
        process::next_symbol(c"ppoll").addr(),
    );
    leave::set_cleanup(
        process::next_symbol(c"_pthread_cleanup_push").addr(),
        process::next_symbol(c"_pthread_cleanup_pop").addr(),
    );
    let _ = ENGINE.set(Stack::start(config, &process::command_line(), announce));
    abi::set_errno(errno);
    drop(inside);
    STATE.store(RUNNING, Ordering::Release);
}

/// The log's own descriptor: number 2 may be closed and become anything later. Where our
/// copy would take a number that the program expects to get, number 2 is used as long as
/// it is what it was. A log file that cannot be had leaves standard error, too.
fn open_log(config: &Config) {
    let name = config.text(Opt::LogFile);
    let file = (!name.is_empty()).then(|| {
        let name = config::expand_pid(name, std::process::id());
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        kernel::open_log(&name).map(move_high)
    });
    match file {
        Some(Ok(fd)) => LOG.store(fd, Ordering::Relaxed),
        _ if !may_speak(STDERR) => return,
        _ => match kernel::duplicate_from(STDERR, LOWEST_OWN).map(move_high) {
            Some(fd) => LOG.store(fd, Ordering::Relaxed),
            None => log_to_stderr(),
        },
    }
    start_logger(config.trace_level().filter());
    if let Some(Err(errno)) = file {
        let text =
            format!("VMA_LOG_FILE={name:?} cannot be opened ({errno}): standard error is used");
        announce(TraceLevel::Warn, &text);
    }
    if file.is_some() {
        let (_, warnings) = Config::from_process();
        speak(config, true, &warnings);
    }
}

/// Starts the log crate's logger: env_logger puts a record together, [`say`] writes it.
fn start_logger(level: log::LevelFilter) {
    let format = |out: &mut env_logger::fmt::Formatter, record: &log::Record<'_>| {
        let level = match record.level() {
            log::Level::Error => TraceLevel::Error,
            log::Level::Warn => TraceLevel::Warn,
            log::Level::Info => TraceLevel::Info,
            log::Level::Debug => TraceLevel::Debug,
            log::Level::Trace => TraceLevel::Fine,
        };
        out.write_all(banner::line(level, &record.args().to_string()).as_bytes())
    };
    let _ = env_logger::Builder::new()
        .filter_level(level)
        .format(format)
        .target(env_logger::Target::Pipe(Box::new(LogLine)))
        .try_init();
}

/// Takes whole records, each one line.
struct LogLine;

impl Write for LogLine {
    fn write(&mut self, record: &[u8]) -> std::io::Result<usize> {
        say(&String::from_utf8_lossy(record));
        Ok(record.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Before fork: nobody is in the middle of a start, and nobody begins one.
pub(crate) fn hold() {
    if guard::inside() {
        return;
    }
    loop {
        match STATE.compare_exchange(LOADED, BUSY, Ordering::Acquire, Ordering::Acquire) {
            Err(BUSY) => std::thread::yield_now(),
            _ => return,
        }
    }
}

/// After fork, on both sides.
pub(crate) fn release() {
    if !guard::inside() {
        let _ = STATE.compare_exchange(BUSY, LOADED, Ordering::Release, Ordering::Relaxed);
    }
}

/// The destructor: the process that started the engine takes it down.
pub(crate) fn unload() {
    let _scope = defer::enter();
    if let Some(stack) = running()
        && process::is_own()
    {
        stack.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, IntoRawFd};
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn only_a_stderr_that_is_no_socket_is_spoken_to() {
        let (one, two) = UnixDatagram::pair().unwrap();
        assert!(!may_speak(one.as_raw_fd()));
        assert!(!may_speak(-1));
        let closed = two.into_raw_fd();
        kernel::close(closed).unwrap();
        assert!(!may_speak(closed));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(may_speak(file.as_raw_fd()));
    }
}
