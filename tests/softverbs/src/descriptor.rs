//! A descriptor of this library's own. The standard library's closes through libc, whose symbol
//! may be another library's; this one closes directly.

use std::os::fd::{AsFd, BorrowedFd, IntoRawFd as _, OwnedFd, RawFd};

/// Long-lived descriptors have numbers from here on, if the limit allows: the application's own
/// are then what they would be without this library.
const ASIDE: RawFd = 700;

/// Closed when dropped.
pub(crate) struct Descriptor(RawFd);

impl Descriptor {
    /// Moved out of the application's way.
    pub(crate) fn aside(fd: OwnedFd) -> Self {
        let low = Self::from(fd);
        match rustix::io::fcntl_dupfd_cloexec(&low, ASIDE) {
            Ok(high) => Self::from(high),
            Err(_) => low,
        }
    }
}

impl From<OwnedFd> for Descriptor {
    fn from(fd: OwnedFd) -> Self {
        Self(fd.into_raw_fd())
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as self.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the number is this value's alone.
        unsafe { rustix::io::close(self.0) };
    }
}
