//! An owned descriptor of the engine itself.
//!
//! Not std's `OwnedFd`: its drop calls libc's `close`, which is our own hook.

use super::raw::syscall6;
use crate::error::Errno;
use std::os::fd::{AsRawFd, RawFd};

/// A descriptor that is closed on drop.
#[derive(Debug)]
pub struct Handle {
    fd: RawFd,
    /// [`super::fd::forks`] when it was opened: a forked child has it closed already.
    forks: u32,
}

impl Handle {
    /// Takes a new descriptor over and moves it out of the application's way
    /// (see [`super::fd::move_high`]).
    ///
    /// # Errors
    /// EMFILE when only numbers are free that the application may count on; the
    /// descriptor is closed then.
    pub fn new(fd: RawFd) -> Result<Self, Errno> {
        let handle = Self::inherited(fd)?;
        super::fd::register_owned(handle.fd);
        Ok(handle)
    }

    /// As [`Handle::new`], but it stays open in forked children.
    ///
    /// # Errors
    /// As above.
    pub fn inherited(fd: RawFd) -> Result<Self, Errno> {
        match super::fd::move_above(fd) {
            Some(high) => Ok(Self {
                fd: high,
                forks: super::fd::forks(),
            }),
            None => {
                super::raw::close(fd);
                Err(Errno(libc::EMFILE))
            }
        }
    }
}

impl Handle {
    /// Moves it to the number of a descriptor of the engine that nobody closes, in place of
    /// what is there.
    ///
    /// # Errors
    /// dup3(2)'s; the descriptor is closed then.
    pub(super) fn take_number(self, number: RawFd) -> Result<Self, Errno> {
        let flags = libc::O_CLOEXEC as usize;
        // SAFETY: dup3 takes integers only; both numbers are the engine's.
        unsafe {
            syscall6(
                libc::SYS_dup3,
                [self.fd as usize, number as usize, flags, 0, 0, 0],
            )
        }?;
        Ok(Self {
            fd: number,
            forks: self.forks,
        })
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.forks != super::fd::forks() {
            return; // the number may be anything by now
        }
        super::fd::unregister(self.fd);
        // SAFETY: closing a descriptor that this value owns touches no memory.
        let _ = unsafe { syscall6(libc::SYS_close, [self.fd as usize, 0, 0, 0, 0, 0]) };
    }
}
