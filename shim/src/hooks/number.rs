//! syscall(2), libc's function: a call by number of what is hooked by name takes the hook's
//! way. Every other number is libc's, the arguments where they were, on the stack, too.
//!
//! The raw calls differ from libc's functions of their names: a mask comes with its size,
//! and what is left of a time-out is written back.

use super::{fd, process, ready, socket, transfer};
use crate::FDS;
use crate::abi::{is_nowhere, kernel, wait};
use crate::process::Optional;
use engine::clock;
use engine::ready::Timeout;
#[cfg(target_arch = "x86_64")]
use libc::timeval;
use libc::{c_int, c_long, sigset_t, timespec};
use std::ptr::with_exposed_provenance_mut as at;

/// Arguments as they travel.
type Args = [usize; 6];

/// Bytes of a signal mask in the kernel's eyes.
const MASK: usize = size_of::<u64>();

static SYSCALL: Optional = Optional::new(c"syscall");

/// So that no signal handler or vfork child has to.
pub(super) fn resolve() {
    let _ = SYSCALL.get();
}

fn libcs() -> *mut libc::c_void {
    SYSCALL.get()
}

/// Where a call of this number goes on.
extern "C" fn target(number: c_long) -> *mut libc::c_void {
    if is_hooked(number) {
        by_number as *mut libc::c_void
    } else {
        libcs()
    }
}

/// # Safety
/// As libc's `syscall`: the arguments are what the number asks for. The seventh is on the
/// stack and may be anything.
unsafe extern "C" fn by_number(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let args = [a, b, c, d, e, f];
    // SAFETY: passed on.
    unsafe { dispatch(number, args) }.unwrap_or_else(|| {
        type Original = unsafe extern "C" fn(c_long, ...) -> c_long;
        // SAFETY: libc's function of this name has this type.
        let original = unsafe { std::mem::transmute::<*mut libc::c_void, Original>(libcs()) };
        // SAFETY: passed on.
        unsafe { original(number, a, b, c, d, e, f) }
    })
}

/// Waits, and writes back what is left of the time-out, as the raw calls do: not of none,
/// and not where nothing can be written.
///
/// # Safety
/// `limit` is null or a timespec, in memory of the caller's.
unsafe fn timed(limit: *mut timespec, wait: impl FnOnce() -> c_int) -> c_long {
    // SAFETY: passed on.
    let whole: Timeout = unsafe { wait::timespec(limit) }.unwrap_or(None);
    let began = clock::monotonic();
    let result = wait();
    if let Some(whole @ 1..) = whole {
        let left = whole.saturating_sub(clock::monotonic() - began);
        // SAFETY: memory of the caller's.
        if unsafe { kernel::takes_time(limit as usize) } {
            // SAFETY: it can be written.
            unsafe { wait::put_timespec(limit, left) };
        }
    }
    c_long::from(result)
}

macro_rules! numbers {
    ($(
        $(#[$attribute:meta])*
        $number:ident => $module:ident::$hook:ident($($place:tt),*);
    )*) => {
        fn is_hooked(number: c_long) -> bool {
            match number {
                $($(#[$attribute])* libc::$number => true,)*
                #[cfg(target_arch = "x86_64")]
                libc::SYS_select => true,
                libc::SYS_ppoll | libc::SYS_pselect6 | libc::SYS_epoll_pwait
                | libc::SYS_epoll_pwait2 => true,
                _ => false,
            }
        }

        /// None: libc makes the call.
        ///
        /// # Safety
        /// As [`by_number`].
        unsafe fn dispatch(number: c_long, args: Args) -> Option<c_long> {
            // The kernel looks at as many bits of an argument as its type has.
            #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap,
                reason = "the kernel's own view of its arguments")]
            match number {
                $($(#[$attribute])* libc::$number => {
                    // SAFETY: the number's own contract, which is the function's.
                    let result = unsafe { $module::$hook($(numbers!(@arg args $place)),*) };
                    Some(result as c_long)
                })*
                // SAFETY: passed on.
                _ => unsafe { masked(number, args) },
            }
        }
    };
    (@arg $args:ident ($place:literal ptr)) => { at($args[$place]) };
    (@arg $args:ident $place:literal) => { $args[$place] as _ };
}

numbers! {
    SYS_read => transfer::shim_read(0, (1 ptr), 2);
    SYS_readv => transfer::shim_readv(0, (1 ptr), 2);
    SYS_recvfrom => transfer::shim_recvfrom(0, (1 ptr), 2, 3, (4 ptr), (5 ptr));
    SYS_recvmsg => transfer::shim_recvmsg(0, (1 ptr), 2);
    SYS_recvmmsg => transfer::shim_recvmmsg(0, (1 ptr), 2, 3, (4 ptr));
    SYS_write => transfer::shim_write(0, (1 ptr), 2);
    SYS_writev => transfer::shim_writev(0, (1 ptr), 2);
    SYS_sendto => transfer::shim_sendto(0, (1 ptr), 2, 3, (4 ptr), 5);
    SYS_sendmsg => transfer::shim_sendmsg(0, (1 ptr), 2);
    SYS_sendmmsg => transfer::shim_sendmmsg(0, (1 ptr), 2, 3);
    SYS_close => fd::shim_close(0);
    SYS_close_range => fd::shim_close_range(0, 1, 2);
    SYS_dup => fd::shim_dup(0);
    #[cfg(target_arch = "x86_64")]
    SYS_dup2 => fd::shim_dup2(0, 1);
    SYS_dup3 => fd::shim_dup3(0, 1, 2);
    SYS_fcntl => fd::shim_fcntl(0, 1, (2 ptr));
    #[cfg(target_arch = "x86_64")]
    SYS_pipe => fd::shim_pipe((0 ptr));
    SYS_pipe2 => fd::shim_pipe2((0 ptr), 1);
    SYS_ioctl => socket::shim_ioctl(0, 1, (2 ptr));
    SYS_socket => socket::shim_socket(0, 1, 2);
    SYS_socketpair => socket::shim_socketpair(0, 1, 2, (3 ptr));
    SYS_bind => socket::shim_bind(0, (1 ptr), 2);
    SYS_connect => socket::shim_connect(0, (1 ptr), 2);
    SYS_accept => socket::shim_accept(0, (1 ptr), (2 ptr));
    SYS_accept4 => socket::shim_accept4(0, (1 ptr), (2 ptr), 3);
    SYS_shutdown => socket::shim_shutdown(0, 1);
    SYS_setsockopt => socket::shim_setsockopt(0, 1, 2, (3 ptr), 4);
    SYS_execve => process::shim_execve((0 ptr), (1 ptr), (2 ptr));
    SYS_execveat => process::shim_execveat(0, (1 ptr), (2 ptr), (3 ptr), 4);
    #[cfg(target_arch = "x86_64")]
    SYS_poll => ready::shim_poll((0 ptr), 1, 2);
    #[cfg(target_arch = "x86_64")]
    SYS_epoll_create => ready::shim_epoll_create(0);
    SYS_epoll_create1 => ready::shim_epoll_create1(0);
    SYS_epoll_ctl => ready::shim_epoll_ctl(0, 1, 2, (3 ptr));
    #[cfg(target_arch = "x86_64")]
    SYS_epoll_wait => ready::shim_epoll_wait(0, (1 ptr), 2, 3);
}

/// The calls that take a mask and its size, or write their time-out. Of another size a mask is
/// the kernel's to refuse.
///
/// # Safety
/// As [`by_number`].
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "the kernel's own view of its arguments"
)]
unsafe fn masked(number: c_long, args: Args) -> Option<c_long> {
    if FDS.is_empty() {
        return None;
    }
    let [a, b, c, d, e, f] = args;
    let fits = |mask: usize, size: usize| mask == 0 || size == MASK;
    match number {
        libc::SYS_ppoll if fits(d, e) => {
            let limit: *mut timespec = at(c);
            // SAFETY: ppoll(2)'s contract with the caller.
            let wait = || unsafe { ready::shim_ppoll(at(a), b as u64, limit, at(d)) };
            // SAFETY: as above.
            Some(unsafe { timed(limit, wait) })
        }
        libc::SYS_pselect6 => {
            let pair: *const [usize; 2] = at(f);
            let [mask, size] = if pair.is_null() {
                [0, MASK]
            } else {
                // SAFETY: pselect6's last argument points to a pointer and a size.
                unsafe { pair.read_unaligned() }
            };
            if !fits(mask, size) {
                return None;
            }
            let limit: *mut timespec = at(e);
            let mask: *const sigset_t = at(mask);
            // SAFETY: pselect(2)'s contract with the caller.
            let wait =
                || unsafe { ready::shim_pselect(a as c_int, at(b), at(c), at(d), limit, mask) };
            // SAFETY: as above.
            Some(unsafe { timed(limit, wait) })
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => {
            let limit: *mut timeval = at(e);
            // SAFETY: select(2)'s contract with the caller.
            let select =
                |limit| unsafe { ready::shim_select(a as c_int, at(b), at(c), at(d), limit) };
            if is_nowhere(limit) {
                return Some(c_long::from(select(limit)));
            }
            // SAFETY: somewhere, and readable by that contract.
            let mut left = unsafe { limit.read_unaligned() };
            let waits = (left.tv_sec, left.tv_usec) != (0, 0);
            let result = select(&raw mut left);
            // SAFETY: memory of the caller's.
            if waits && unsafe { kernel::takes_time(limit as usize) } {
                // SAFETY: it can be written.
                unsafe { limit.write_unaligned(left) };
            }
            Some(c_long::from(result))
        }
        libc::SYS_epoll_pwait if fits(e, f) => {
            // SAFETY: epoll_pwait(2)'s contract with the caller.
            let result = unsafe {
                ready::shim_epoll_pwait(a as c_int, at(b), c as c_int, d as c_int, at(e))
            };
            Some(c_long::from(result))
        }
        libc::SYS_epoll_pwait2 if fits(e, f) => {
            // SAFETY: epoll_pwait2(2)'s contract with the caller.
            let result =
                unsafe { ready::shim_epoll_pwait2(a as c_int, at(b), c as c_int, at(d), at(e)) };
            Some(c_long::from(result))
        }
        _ => None,
    }
}

/// Variadic in C: keep the argument registers, ask `target`, jump.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn syscall() {
    std::arch::naked_asm!(
        "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
        "call {target}",
        "mov r11, rax",
        "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
        "jmp r11",
        target = sym target,
    )
}

#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
unsafe extern "C" fn syscall() {
    std::arch::naked_asm!(
        "stp x0, x1, [sp, #-80]!",
        "stp x2, x3, [sp, #16]", "stp x4, x5, [sp, #32]",
        "stp x6, x7, [sp, #48]", "str x30, [sp, #64]",
        "bl {target}",
        "mov x16, x0",
        "ldp x2, x3, [sp, #16]", "ldp x4, x5, [sp, #32]",
        "ldp x6, x7, [sp, #48]", "ldr x30, [sp, #64]",
        "ldp x0, x1, [sp], #80",
        "br x16",
        target = sym target,
    )
}
