//! close, dup, fcntl, and creators of numbers.

use super::hooks;
use crate::FDS;
use crate::abi::{self, kernel};
use crate::ops::fd as ops;
use crate::process::Optional;
use crate::verdict::Verdict;
use engine::sys::fd::is_internal;
use libc::{FILE, c_char, c_int, c_uint, c_void};

/// libc's answer as a verdict.
fn as_made(result: c_int) -> Verdict {
    match usize::try_from(result) {
        Ok(count) => Verdict::Handled(count),
        Err(_) => Verdict::Failed(abi::errno()),
    }
}

hooks! {
    fn close(fd: c_int) -> c_int = shim_close,
    pass if FDS.is_foreign(fd) && !is_internal(fd) => ops::close(fd);

    fn __close(fd: c_int) -> c_int = shim_alias_close,
    pass if FDS.is_foreign(fd) && !is_internal(fd) => ops::close(fd);

    fn dup(fd: c_int) -> c_int = shim_dup,
    pass if false => {
        // SAFETY: no memory is involved.
        ops::duplicate(fd, || as_made(unsafe { redhook::real!(dup)(fd) }))
    };

    fn dup2(old: c_int, new: c_int) -> c_int = shim_dup2,
    pass if false => ops::duplicate_to(old, new, 0);

    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int = shim_dup3,
    pass if false => ops::duplicate_to(old, new, flags);

    // Variadic in C; the one optional argument travels in the same register.
    fn fcntl(fd: c_int, command: c_int, value: *mut c_void) -> c_int = shim_fcntl,
    pass if FDS.is_foreign(fd) && !ops::makes_number(command) => {
        // SAFETY: the caller's own arguments.
        let make = || as_made(unsafe { redhook::real!(fcntl)(fd, command, value) });
        ops::fcntl(fd, command, value.expose_provenance(), make)
    };

    fn fcntl64(fd: c_int, command: c_int, value: *mut c_void) -> c_int = shim_fcntl64,
    pass if FDS.is_foreign(fd) && !ops::makes_number(command) => {
        // SAFETY: the caller's own arguments.
        let make = || as_made(unsafe { redhook::real!(fcntl64)(fd, command, value) });
        ops::fcntl(fd, command, value.expose_provenance(), make)
    };

    // A stream over one of our sockets (fdopen): libc closes it by an internal call.
    fn fclose(stream: *mut FILE) -> c_int = shim_fclose,
    pass if FDS.is_empty() || stream.is_null() => {
        // SAFETY: fclose(3)'s contract with the caller.
        ops::purge(unsafe { abi::stream_number(stream) });
        Verdict::PassThrough
    };
}

// A stream reads by internal calls of libc.
redhook::hook! {
    unsafe fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE => shim_fdopen {
        if !FDS.is_foreign(fd) {
            super::super::ops::socket::give_up(fd);
        }
        // SAFETY: the caller's own arguments.
        unsafe { redhook::real!(fdopen)(fd, mode) }
    }
}

redhook::hook! {
    unsafe fn pipe(pair: *mut c_int) -> c_int => shim_pipe {
        // SAFETY: the caller's own arguments.
        let result = unsafe { redhook::real!(pipe)(pair) };
        if result == 0 {
            // SAFETY: the kernel has just written the two numbers.
            unsafe { abi::pair(pair) }.into_iter().for_each(ops::purge);
        }
        result
    }
}

redhook::hook! {
    unsafe fn pipe2(pair: *mut c_int, flags: c_int) -> c_int => shim_pipe2 {
        // SAFETY: the caller's own arguments.
        let result = unsafe { redhook::real!(pipe2)(pair, flags) };
        if result == 0 {
            // SAFETY: the kernel has just written the two numbers.
            unsafe { abi::pair(pair) }.into_iter().for_each(ops::purge);
        }
        result
    }
}

// The system call itself is all that glibc's close_range (2.34) makes.
redhook::hook! {
    unsafe fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int => shim_close_range {
        ops::close_range(first, last, flags)
            .or_else(|| Verdict::from(kernel::close_range(first, last, flags)).or_else(|| -1))
    }
}

static CLOSEFROM: Optional = Optional::new(c"closefrom");

redhook::hook! {
    unsafe fn closefrom(lowest: c_int) => shim_closefrom {
        let first = lowest.max(0).cast_unsigned();
        let errno = abi::errno();
        let done: c_int = ops::close_range(first, c_uint::MAX, 0)
            .or_else(|| kernel::close_range(first, c_uint::MAX, 0).map_or(-1, |_| 0));
        let original = CLOSEFROM.get();
        if done != 0 && !original.is_null() {
            // A kernel before 5.9: libc walks /proc.
            // SAFETY: libc's function of this name has this type.
            let original = unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int)>(original)
            };
            // SAFETY: no memory is involved.
            unsafe { original(lowest) };
        }
        abi::set_errno(errno);
    }
}
