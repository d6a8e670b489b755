//! Small files: those under /proc that say what netlink does not (proc(5)), and the rules file.
//!
//! Not std's `File`: its calls are libc's, which are our own hooks.

use super::handle::Handle;
use super::raw::syscall6;
use crate::error::Errno;
use rustix::fd::IntoRawFd;
use rustix::fs::{Mode, OFlags};
use std::ffi::CStr;
use std::os::fd::AsRawFd;

/// Reads a file, at most `max` bytes of it.
///
/// # Errors
/// The kernel's: ENOENT, EACCES, EISDIR, EMFILE.
pub fn read(path: &CStr, max: usize) -> Result<Vec<u8>, Errno> {
    Text::open(path)?.read(max)
}

/// A file that is read again and again: one descriptor, out of the application's way. To
/// open it each time would take a low number for a moment, which another thread may miss.
#[derive(Debug)]
pub struct Text(Handle);

impl Text {
    /// Opens it.
    ///
    /// # Errors
    /// The kernel's: ENOENT, EACCES, EMFILE.
    pub fn open(path: &CStr) -> Result<Self, Errno> {
        // NONBLOCK: a FIFO that nobody writes has no end to wait for.
        let fd = rustix::fs::open(
            path,
            OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
            Mode::empty(),
        )?;
        Ok(Self(Handle::new(fd.into_raw_fd())?))
    }

    /// At most `max` bytes of what it holds now.
    ///
    /// # Errors
    /// The kernel's: EISDIR.
    pub fn read(&self, max: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; max];
        let mut filled = 0;
        while filled < max {
            let rest = &mut bytes[filled..];
            let args = [
                self.0.as_raw_fd() as usize,
                rest.as_mut_ptr() as usize,
                rest.len(),
                filled,
                0,
                0,
            ];
            // SAFETY: the kernel writes at most `rest.len()` bytes into the exclusively
            // borrowed buffer.
            match unsafe { syscall6(libc::SYS_pread64, args) } {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end() {
        let text = Text::open(c"/proc/self/stat").unwrap();
        for _ in 0..2 {
            assert!(text.read(1 << 16).unwrap().ends_with(b"\n"));
        }
        let whole = read(c"/proc/self/stat", 1 << 16).unwrap();
        assert!(whole.ends_with(b"\n"));
        assert_eq!(read(c"/proc/self/stat", 5).unwrap().len(), 5);
        assert_eq!(read(c"/proc/no-such-file", 5), Err(Errno(libc::ENOENT)));
    }
}
