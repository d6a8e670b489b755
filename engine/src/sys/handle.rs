//! An owned descriptor of the engine itself.
//!
//! Not std's `OwnedFd`: its drop calls libc's `close`, which is our own hook.

use super::raw::syscall6;
use crate::error::Errno;
use std::os::fd::{AsRawFd, RawFd};

/// A descriptor that is closed on drop.
#[derive(Debug)]
pub struct Handle(RawFd);

impl Handle {
    /// Takes a new descriptor over and moves it out of the application's way
    /// (see [`super::fd::move_high`]).
    ///
    /// # Errors
    /// EMFILE when only numbers are free that the application may count on; the
    /// descriptor is closed then.
    pub fn new(fd: RawFd) -> Result<Self, Errno> {
        match super::fd::move_above(fd) {
            Some(high) => {
                super::fd::register_owned(high);
                Ok(Self(high))
            }
            None => {
                super::raw::close(fd);
                Err(Errno(libc::EMFILE))
            }
        }
    }
}

impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        super::fd::unregister(self.0);
        // SAFETY: closing a descriptor that this value owns touches no memory.
        let _ = unsafe { syscall6(libc::SYS_close, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}
