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
    // NONBLOCK: a FIFO that nobody writes has no end to wait for.
    let fd = rustix::fs::open(
        path,
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK,
        Mode::empty(),
    )?;
    let file = Handle::new(fd.into_raw_fd())?;
    let mut bytes = vec![0; max];
    let mut filled = 0;
    while filled < max {
        let rest = &mut bytes[filled..];
        let args = [
            file.as_raw_fd() as usize,
            rest.as_mut_ptr() as usize,
            rest.len(),
            0,
            0,
            0,
        ];
        // SAFETY: the kernel writes at most `rest.len()` bytes into the exclusively
        // borrowed buffer.
        match unsafe { syscall6(libc::SYS_read, args) } {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_to_its_end() {
        let whole = read(c"/proc/self/stat", 1 << 16).unwrap();
        assert!(whole.ends_with(b"\n"));
        assert_eq!(read(c"/proc/self/stat", 5).unwrap().len(), 5);
        assert_eq!(read(c"/proc/no-such-file", 5), Err(Errno(libc::ENOENT)));
    }
}
