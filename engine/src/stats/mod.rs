//! Counters in shared memory, one file a process, readable while the program runs.
//!
//! [`table`] lists the counters, [`layout`] says where they lie, [`publish`] hands out
//! blocks to the engine, [`read`] copies them in another process. Owns the file
//! `<directory>/vmastat.<pid>`. Must never stop the program: where there can be no
//! file the same blocks lie in private memory. Writers take no lock; a value read is
//! recent, not part of a consistent cut.

mod describe;
pub mod layout;
pub mod publish;
pub mod read;
pub mod table;

pub use layout::{IomuxBlock, ProcessBlock, RingBlock, SocketBlock};
pub use publish::Publisher;
pub use read::{ReadError, Reader, Snapshot};
pub use table::Counter;

/// Families as [`read::SocketSnapshot::family`] has them.
pub use libc::{AF_INET, AF_INET6};

use std::ffi::CString;

/// What kind of readiness object a block belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum IomuxKind {
    /// poll and ppoll, of all threads.
    Poll = 0,
    /// select and pselect, of all threads.
    Select = 1,
    /// One epoll object.
    Epoll = 2,
}

impl IomuxKind {
    /// Name shown to a person.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Select => "select",
            Self::Epoll => "epoll",
        }
    }
}

/// `<directory>/vmastat.<pid>`; a `%d` in the directory stands for the pid.
/// `None` if the directory holds a zero byte.
#[must_use]
pub fn file_path(directory: &str, pid: u32) -> Option<CString> {
    let directory = directory.replace("%d", &pid.to_string());
    let directory = directory.trim_end_matches('/');
    CString::new(format!("{directory}/vmastat.{pid}")).ok()
}

/// Start time of a process in clock ticks since boot, which tells it from a later one
/// with the same pid. `None` if there is no such process. Source: proc_pid_stat(5).
#[must_use]
pub fn start_ticks(pid: u32) -> Option<u64> {
    let path = CString::new(format!("/proc/{pid}/stat")).ok()?;
    let file = crate::sys::shm::File::open(&path).ok()?;
    let mut buffer = [0; 1024];
    let len = file.read_at(&mut buffer, 0).ok()?;
    let text = String::from_utf8_lossy(&buffer[..len]);
    // The name is in brackets and may hold brackets and blanks itself.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    // A zombie has ended as far as its counters go.
    if matches!(fields.next(), Some("Z" | "X")) {
        return None;
    }
    // Field 3 is gone; 22 is the 19th from 4 on.
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let path = |directory| file_path(directory, 42).unwrap().into_string().unwrap();
        assert_eq!(path("/tmp/"), "/tmp/vmastat.42");
        assert_eq!(path("/run/s%d"), "/run/s42/vmastat.42");
        assert_eq!(path("/"), "/vmastat.42");
        assert_eq!(file_path("a\0b", 1), None);
    }

    #[test]
    fn start_time_of_living_and_ended_processes() {
        let own = start_ticks(std::process::id()).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let ticks = start_ticks(child.id()).unwrap();
        assert!(ticks >= own);
        child.kill().unwrap();
        // Not reaped yet: a zombie.
        for _ in 0..200 {
            if start_ticks(child.id()).is_none() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(start_ticks(child.id()), None);
        child.wait().unwrap();
        assert_eq!(start_ticks(child.id()), None);
    }
}
