//! System calls by instruction, for what rustix does not cover: bpf(2) and a few forms of mmap
//! and fcntl. Nothing here goes through libc, whose symbols may be another library's.

use rustix::io::Errno;
use std::arch::asm;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd as _, OwnedFd, RawFd};

/// Descriptors of ours start here, so that the application's numbers stay the kernel's; at the
/// second if the limit does not allow the first.
const FIRST_DESCRIPTORS: [usize; 2] = [700, 64];

/// Makes a system call.
///
/// # Safety
/// The arguments must be what call `nr` asks for: each pointer valid for what the kernel reads
/// or writes through it, as long as the call lasts.
pub(super) unsafe fn call(nr: libc::c_long, args: [usize; 6]) -> Result<usize, Errno> {
    let ret: isize;
    // SAFETY: the instruction follows the kernel's calling convention (rcx and r11 are
    // clobbered); what it does with memory is the caller's promise.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") nr as isize => ret,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    if (-4095..0).contains(&ret) {
        Err(Errno::from_raw_os_error(-(ret as i32)))
    } else {
        Ok(ret as usize)
    }
}

/// A descriptor that this library owns; closed when dropped.
#[derive(Debug)]
pub(super) struct Fd(RawFd);

impl Fd {
    /// Takes over a fresh descriptor and moves it out of the application's range.
    pub(super) fn adopt(low: RawFd) -> Result<Self, Errno> {
        let low = Self(low);
        for first in FIRST_DESCRIPTORS {
            let args = [
                low.0 as usize,
                libc::F_DUPFD_CLOEXEC as usize,
                first,
                0,
                0,
                0,
            ];
            // SAFETY: integers only.
            if let Ok(high) = unsafe { call(libc::SYS_fcntl, args) } {
                return Ok(Self(high as RawFd));
            }
        }
        // No room up there, by the limit: it stays where it is.
        Ok(low)
    }

    /// Takes over a descriptor that rustix made.
    pub(super) fn own(fd: OwnedFd) -> Result<Self, Errno> {
        Self::adopt(fd.into_raw_fd())
    }

    /// Its number.
    pub(super) fn raw(&self) -> RawFd {
        self.0
    }
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: open as long as self.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: integers only; the number is this value's alone.
        let _ = unsafe { call(libc::SYS_close, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}

/// A mapping of a file; unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: *mut u8,
    len: usize,
}

// SAFETY: an address range; whoever makes references into it answers for their use.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of a descriptor, shared. `write` asks for a writable mapping. Pages
    /// come when they are touched, or by [`Mapping::populate`].
    pub(super) fn new(fd: RawFd, offset: usize, len: usize, write: bool) -> Result<Self, Errno> {
        let protection = if write {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe {
            call(
                libc::SYS_mmap,
                [
                    0,
                    len,
                    protection as usize,
                    libc::MAP_SHARED as usize,
                    fd as usize,
                    offset,
                ],
            )?
        };
        Ok(Self {
            start: start as *mut u8,
            len,
        })
    }

    /// Has the first `len` bytes there, so that no access to them enters the kernel.
    pub(super) fn populate(&self, len: usize, write: bool) -> Result<(), Errno> {
        let advice = if write {
            libc::MADV_POPULATE_WRITE
        } else {
            libc::MADV_POPULATE_READ
        };
        let len = len.min(self.len);
        // SAFETY: within the mapping; the contents stay as they are.
        unsafe {
            call(
                libc::SYS_madvise,
                [self.start as usize, len, advice as usize, 0, 0, 0],
            )
        }
        .map(|_| ())
    }

    /// First byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`; users keep this value as long as references.
        let _ = unsafe {
            call(
                libc::SYS_munmap,
                [self.start as usize, self.len, 0, 0, 0, 0],
            )
        };
    }
}
