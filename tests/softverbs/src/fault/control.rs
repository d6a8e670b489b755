//! The file that faults can be written to while the process runs.
//!
//! Source: inotify(7).

use super::{apply, spec};
use crate::{strict, trace};
use rustix::fs::{Mode, OFlags, fstat, inotify, open};
use rustix::io::{Errno, pread, read};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;

/// Starts watching, for the rest of the process's life. The file is made if it is not there.
pub(super) fn watch(path: &OsStr) {
    let opened = prepare(path);
    let (changes, file) = match opened {
        Ok(fds) => fds,
        Err(errno) => strict::give_up(format_args!("SOFTVERBS_CONTROL: {path:?}: {errno}")),
    };
    // What is there already holds before anything else happens.
    let mut reader = Reader {
        file,
        done: 0,
        rest: Vec::new(),
    };
    reader.follow();
    let spawned = crate::interrupts::without_signals(|| {
        std::thread::Builder::new()
            .name("softverbs-fault".to_owned())
            .spawn(move || {
                let mut events = [0u8; 1024];
                while let Ok(1..) | Err(Errno::INTR) = read(&changes, &mut events) {
                    reader.follow();
                }
            })
    });
    if spawned.is_err() {
        strict::give_up(format_args!("SOFTVERBS_CONTROL: no thread"));
    }
}

fn prepare(path: &OsStr) -> Result<(OwnedFd, OwnedFd), Errno> {
    let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::CLOEXEC;
    let file = high(open(path, flags, Mode::RUSR | Mode::WUSR)?)?;
    let changes = high(inotify::init(inotify::CreateFlags::CLOEXEC)?)?;
    inotify::add_watch(&changes, path, inotify::WatchFlags::MODIFY)?;
    Ok((changes, file))
}

/// Out of the application's range of numbers.
fn high(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(&fd, 64)
}

struct Reader {
    file: OwnedFd,
    /// Bytes read so far.
    done: u64,
    /// The beginning of a line whose end is not written yet.
    rest: Vec<u8>,
}

impl Reader {
    fn follow(&mut self) {
        if fstat(&self.file).is_ok_and(|s| s.st_size.cast_unsigned() < self.done) {
            // Written anew.
            self.done = 0;
            self.rest.clear();
        }
        let mut buffer = [0u8; 1024];
        while let Ok(len @ 1..) = pread(&self.file, &mut buffer, self.done) {
            self.done += len as u64;
            self.rest.extend_from_slice(&buffer[..len]);
        }
        while let Some(end) = self.rest.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line);
            for item in spec::parse(&text) {
                match item {
                    Ok(item) => apply(item),
                    Err(word) => strict::say(format_args!("SOFTVERBS_CONTROL: {word}: what?")),
                }
            }
            trace::line(format_args!("fault {}", text.trim()));
        }
    }
}
