//! socket, bind, connect, options, names.

use super::hooks;
use crate::FDS;
use crate::abi;
use crate::ops::{fd as descriptors, socket as ops};
use crate::verdict::Verdict;
use libc::{c_int, c_ulong, c_void, sockaddr, socklen_t};

redhook::hook! {
    unsafe fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int => shim_socket {
        // SAFETY: no memory is involved.
        let fd = unsafe { redhook::real!(socket)(domain, kind, protocol) };
        if fd >= 0 {
            ops::created(fd, domain, kind, protocol);
        }
        fd
    }
}

hooks! {
    fn bind(fd: c_int, name: *const sockaddr, len: socklen_t) -> c_int = shim_bind,
    pass if FDS.is_foreign(fd) => {
        // SAFETY: bind(2)'s contract with the caller.
        ops::bind(fd, &unsafe { abi::address(name.cast(), len) })
    };

    fn connect(fd: c_int, name: *const sockaddr, len: socklen_t) -> c_int = shim_connect,
    pass if FDS.is_foreign(fd) => {
        // SAFETY: connect(2)'s contract with the caller.
        ops::connect(fd, &unsafe { abi::address(name.cast(), len) })
    };

    fn shutdown(fd: c_int, how: c_int) -> c_int = shim_shutdown,
    pass if FDS.is_foreign(fd) => ops::shutdown(fd, how);

    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, len: socklen_t)
        -> c_int = shim_setsockopt,
    pass if FDS.is_foreign(fd) => {
        ops::setsockopt(fd, level, name, value.expose_provenance(), len)
    };

    // Variadic in C; the one optional argument travels in the same register.
    fn ioctl(fd: c_int, request: c_ulong, arg: *mut c_void) -> c_int = shim_ioctl,
    pass if FDS.is_foreign(fd) => ops::ioctl(fd, request, arg.expose_provenance());

    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, len: *mut socklen_t)
        -> c_int = shim_getsockopt,
    pass if FDS.is_foreign(fd) => ops::getsockopt(fd, level, name, len.expose_provenance());

    // The kernel socket knows these answers; the hooks keep a place for the day it does not.

    fn getsockname(fd: c_int, name: *mut sockaddr, len: *mut socklen_t)
        -> c_int = shim_getsockname,
    pass if true => Verdict::PassThrough;

    fn getpeername(fd: c_int, name: *mut sockaddr, len: *mut socklen_t)
        -> c_int = shim_getpeername,
    pass if true => Verdict::PassThrough;
}

redhook::hook! {
    unsafe fn accept(fd: c_int, name: *mut sockaddr, len: *mut socklen_t) -> c_int => shim_accept {
        // SAFETY: the caller's own arguments.
        let new = unsafe { redhook::real!(accept)(fd, name, len) };
        descriptors::purge(new);
        new
    }
}

redhook::hook! {
    unsafe fn accept4(fd: c_int, name: *mut sockaddr, len: *mut socklen_t, flags: c_int)
        -> c_int => shim_accept4 {
        // SAFETY: the caller's own arguments.
        let new = unsafe { redhook::real!(accept4)(fd, name, len, flags) };
        descriptors::purge(new);
        new
    }
}

redhook::hook! {
    unsafe fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int)
        -> c_int => shim_socketpair {
        // SAFETY: the caller's own arguments.
        let result = unsafe { redhook::real!(socketpair)(domain, kind, protocol, pair) };
        if result == 0 {
            // SAFETY: the kernel has just written the two numbers.
            unsafe { abi::pair(pair) }.into_iter().for_each(descriptors::purge);
        }
        result
    }
}
