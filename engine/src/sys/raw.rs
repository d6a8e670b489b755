//! System calls that rustix does not cover, by instruction.
//!
//! The convention is that of the Linux ABI: a result in -4095..0 is an error number.

use crate::error::Errno;
use core::arch::asm;

/// Makes a system call with up to six arguments.
///
/// # Safety
/// The arguments must be what system call `nr` asks for: every pointer valid for
/// what the kernel reads or writes through it for the duration of the call.
#[inline]
pub unsafe fn syscall6(nr: libc::c_long, args: [usize; 6]) -> Result<usize, Errno> {
    let ret: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction follows the kernel's calling convention (rcx and r11
    // are clobbered); what it does with memory is the caller's promise.
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
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above, by the aarch64 convention.
    unsafe {
        asm!(
            "svc 0",
            in("x8") nr,
            inlateout("x0") args[0] => ret,
            in("x1") args[1],
            in("x2") args[2],
            in("x3") args[3],
            in("x4") args[4],
            in("x5") args[5],
            options(nostack)
        );
    }
    if (-4095..0).contains(&ret) {
        Err(Errno(-(ret as i32)))
    } else {
        Ok(ret as usize)
    }
}

/// The thread pointer: differs between any two live threads, costs one load and
/// needs no thread-local storage.
#[inline]
#[must_use]
pub fn thread_pointer() -> usize {
    let tp: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the x86-64 psABI keeps the thread pointer itself at %fs:0.
    unsafe {
        asm!("mov {}, fs:0", out(reg) tp, options(nostack, preserves_flags, readonly, pure));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: tpidr_el0 is readable in user mode and holds the thread pointer.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) tp, options(nostack, preserves_flags, nomem, pure));
    }
    tp
}

/// close(2) of a descriptor of the engine.
pub fn close(fd: std::os::fd::RawFd) {
    // SAFETY: takes an integer; the caller owns the descriptor.
    let _ = unsafe { syscall6(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}
