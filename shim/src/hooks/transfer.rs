//! The read and write families.

use super::hooks;
use crate::FDS;
use crate::abi::receive::{self, Incoming, Many};
use crate::abi::send::{Outgoing, Simple};
use crate::abi::{self, wait};
use crate::ops::transfer as ops;
use crate::process;
use crate::verdict::Verdict;
use engine::sys::defer;
use libc::{
    c_int, c_uint, c_void, iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t,
    timespec,
};
use std::ptr;

/// One buffer as a vector.
fn one(buffer: *const c_void, len: size_t) -> iovec {
    iovec {
        iov_base: buffer.cast_mut(),
        iov_len: len,
    }
}

/// recvfrom and all that are a special case of it.
///
/// # Safety
/// recvfrom(2)'s contract; the number is not foreign.
#[inline(always)]
unsafe fn receive_one(
    fd: c_int,
    buffer: *mut c_void,
    len: size_t,
    flags: c_int,
    name: *mut sockaddr,
    name_len: *mut socklen_t,
) -> Verdict {
    if abi::is_kernels(buffer, 0) {
        return Verdict::PassThrough;
    }
    // SAFETY: the caller's arguments.
    let call = unsafe { receive::Simple::new(buffer, len, flags, name.cast(), name_len) };
    // SAFETY: by the caller's promise.
    let slot = unsafe { FDS.find_known(fd) };
    ops::receive_simple(fd, slot, &call)
}

/// read(2): of length 0 it does not touch the socket (`sock_read_iter`).
///
/// # Safety
/// read(2)'s contract; the number is not foreign.
#[inline(always)]
unsafe fn read_one(fd: c_int, buffer: *mut c_void, len: size_t) -> Verdict {
    if len == 0 || abi::is_kernels(buffer, len) {
        return Verdict::PassThrough;
    }
    // SAFETY: passed on.
    unsafe { receive_one(fd, buffer, len, 0, ptr::null_mut(), ptr::null_mut()) }
}

/// readv and preadv2, whose flags are RWF_*.
///
/// # Safety
/// readv(2)'s contract.
unsafe fn read_vectors(fd: c_int, iov: *const iovec, count: c_int, flags: c_int) -> Verdict {
    if flags & !(libc::RWF_HIPRI | libc::RWF_NOWAIT) != 0 {
        return Verdict::PassThrough;
    }
    let flags = if flags & libc::RWF_NOWAIT == 0 {
        0
    } else {
        libc::MSG_DONTWAIT
    };
    // SAFETY: passed on. A negative count is one too many.
    let vectors = unsafe { abi::vectors(iov, count as usize) };
    let call = vectors.filter(|v| abi::total(v) > 0).map(|v| {
        // SAFETY: the caller's vectors, as above; no address.
        unsafe { Incoming::plain(v, flags, ptr::null_mut(), ptr::null_mut()) }
    });
    ops::receive(fd, call)
}

/// sendto and all that are a special case of it.
///
/// # Safety
/// sendto(2)'s contract; the number is not foreign.
#[inline(always)]
unsafe fn send_one(
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
    name: *const sockaddr,
    name_len: socklen_t,
) -> Verdict {
    if len > isize::MAX as usize {
        return Verdict::PassThrough;
    }
    // SAFETY: sendto(2)'s contract with the caller.
    if let Some(call) = unsafe { Simple::new(buffer, len, flags, name.cast(), name_len) } {
        // SAFETY: by the caller's promise.
        let slot = unsafe { FDS.find_known(fd) };
        return ops::send_simple(fd, slot, &call);
    }
    // SAFETY: as above.
    unsafe { send_one_general(fd, buffer, len, flags, name, name_len) }
}

/// # Safety
/// As [`send_one`].
#[inline(never)]
unsafe fn send_one_general(
    fd: c_int,
    buffer: *const c_void,
    len: size_t,
    flags: c_int,
    name: *const sockaddr,
    name_len: socklen_t,
) -> Verdict {
    let _scope = defer::enter();
    let errno = abi::KeptErrno::new();
    let vector = [one(buffer, len)];
    // SAFETY: the caller's arguments, and a local vector.
    let verdict = ops::send(fd, unsafe {
        Outgoing::plain(&vector, flags, name.cast(), name_len)
    });
    if matches!(verdict, Verdict::Handled(_)) {
        errno.restore();
    }
    verdict
}

/// A message on a socket that is not ours may still carry one that is.
///
/// # Safety
/// sendmsg(2)'s contract.
#[inline]
unsafe fn passing(header: *const msghdr) {
    if !FDS.is_empty() {
        // SAFETY: passed on.
        unsafe { process::before_passing(header) };
    }
}

hooks! {
    fn read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t = shim_read,
    pass if FDS.is_foreign(fd), keeping errno => {
        // SAFETY: read(2)'s contract with the caller.
        unsafe { read_one(fd, buffer, len) }
    };

    fn __read(fd: c_int, buffer: *mut c_void, len: size_t) -> ssize_t = shim_alias_read,
    pass if FDS.is_foreign(fd), keeping errno => {
        // SAFETY: read(2)'s contract with the caller.
        unsafe { read_one(fd, buffer, len) }
    };

    // A length beyond the buffer's is libc's to abort on, here and below.
    fn __read_chk(fd: c_int, buffer: *mut c_void, len: size_t, room: size_t)
        -> ssize_t = shim_read_chk,
    pass if len > room || FDS.is_foreign(fd), keeping errno => {
        // SAFETY: read(2)'s contract with the caller.
        unsafe { read_one(fd, buffer, len) }
    };

    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t = shim_readv,
    pass if FDS.is_foreign(fd) => {
        // SAFETY: readv(2)'s contract with the caller.
        unsafe { read_vectors(fd, iov, count, 0) }
    };

    // With an offset it is the kernel's to refuse.
    fn preadv2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int)
        -> ssize_t = shim_preadv2,
    pass if offset != -1 || FDS.is_foreign(fd) => {
        // SAFETY: preadv2(2)'s contract with the caller.
        unsafe { read_vectors(fd, iov, count, flags) }
    };

    fn preadv64v2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, flags: c_int)
        -> ssize_t = shim_preadv64v2,
    pass if offset != -1 || FDS.is_foreign(fd) => {
        // SAFETY: preadv2(2)'s contract with the caller.
        unsafe { read_vectors(fd, iov, count, flags) }
    };

    fn splice(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t,
        flags: c_uint) -> ssize_t = shim_splice,
    pass if FDS.is_foreign(from) && FDS.is_foreign(to) || !from_at.is_null() => {
        ops::splice(from, to, len, flags)
    };

    fn recv(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t = shim_recv,
    pass if FDS.is_foreign(fd), keeping errno => {
        // SAFETY: recv(2)'s contract with the caller.
        unsafe { receive_one(fd, buffer, len, flags, ptr::null_mut(), ptr::null_mut()) }
    };

    fn __recv_chk(fd: c_int, buffer: *mut c_void, len: size_t, room: size_t, flags: c_int)
        -> ssize_t = shim_recv_chk,
    pass if len > room || FDS.is_foreign(fd), keeping errno => {
        // SAFETY: recv(2)'s contract with the caller.
        unsafe { receive_one(fd, buffer, len, flags, ptr::null_mut(), ptr::null_mut()) }
    };

    fn recvfrom(fd: c_int, buffer: *mut c_void, len: size_t, flags: c_int,
        name: *mut sockaddr, name_len: *mut socklen_t) -> ssize_t = shim_recvfrom,
    pass if FDS.is_foreign(fd), keeping errno => {
        // SAFETY: recvfrom(2)'s contract with the caller.
        unsafe { receive_one(fd, buffer, len, flags, name, name_len) }
    };

    fn __recvfrom_chk(fd: c_int, buffer: *mut c_void, len: size_t, room: size_t, flags: c_int,
        name: *mut sockaddr, name_len: *mut socklen_t) -> ssize_t = shim_recvfrom_chk,
    pass if len > room || FDS.is_foreign(fd), keeping errno => {
        // SAFETY: recvfrom(2)'s contract with the caller.
        unsafe { receive_one(fd, buffer, len, flags, name, name_len) }
    };

    fn recvmsg(fd: c_int, header: *mut msghdr, flags: c_int) -> ssize_t = shim_recvmsg,
    pass if FDS.is_foreign(fd) => {
        // SAFETY: recvmsg(2)'s contract with the caller.
        ops::receive(fd, unsafe { Incoming::message(header, flags) })
    };

    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int,
        timeout: *mut timespec) -> c_int = shim_recvmmsg,
    pass if FDS.is_foreign(fd) => {
        // SAFETY: recvmmsg(2)'s contract with the caller.
        let many = unsafe { Many::new(messages, count) };
        // SAFETY: as above.
        let left = unsafe { wait::timespec(timeout) };
        match (many, left) {
            (Some(mut many), Ok(mut left)) => {
                let verdict = ops::receive_many(fd, &mut many, flags, &mut left);
                if let (Verdict::Handled(1..), Some(left)) = (&verdict, left) {
                    // SAFETY: as above.
                    unsafe { wait::put_timespec(timeout, left) };
                }
                verdict
            }
            _ => Verdict::PassThrough,
        }
    };

    fn write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t = shim_write,
    pass if FDS.is_foreign(fd), keeping errno => {
        // SAFETY: write(2)'s contract with the caller.
        unsafe { send_one(fd, buffer, len, 0, ptr::null(), 0) }
    };

    fn __write(fd: c_int, buffer: *const c_void, len: size_t) -> ssize_t = shim_alias_write,
    pass if FDS.is_foreign(fd), keeping errno => {
        // SAFETY: write(2)'s contract with the caller.
        unsafe { send_one(fd, buffer, len, 0, ptr::null(), 0) }
    };

    // Of no bytes at all it sends nothing (`vfs_writev`), unlike write.
    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t = shim_writev,
    pass if FDS.is_foreign(fd) => {
        // SAFETY: writev(2)'s contract with the caller. A negative count is one too many.
        let vectors = unsafe { abi::vectors(iov, count as usize) };
        // SAFETY: as above; no address.
        ops::send(fd, vectors.filter(|v| abi::total(v) > 0).and_then(|v| unsafe {
            Outgoing::plain(v, 0, ptr::null(), 0)
        }))
    };

    fn send(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int) -> ssize_t = shim_send,
    pass if FDS.is_foreign(fd), keeping errno => {
        // SAFETY: send(2)'s contract with the caller.
        unsafe { send_one(fd, buffer, len, flags, ptr::null(), 0) }
    };

    fn sendto(fd: c_int, buffer: *const c_void, len: size_t, flags: c_int,
        name: *const sockaddr, name_len: socklen_t) -> ssize_t = shim_sendto,
    pass if FDS.is_foreign(fd), keeping errno => {
        // SAFETY: sendto(2)'s contract with the caller.
        unsafe { send_one(fd, buffer, len, flags, name, name_len) }
    };

    fn sendmsg(fd: c_int, header: *const msghdr, flags: c_int) -> ssize_t = shim_sendmsg,
    pass if FDS.is_foreign(fd) && {
        // SAFETY: sendmsg(2)'s contract with the caller.
        unsafe { passing(header) };
        true
    } => {
        // SAFETY: sendmsg(2)'s contract with the caller.
        ops::send(fd, unsafe { Outgoing::message(header, flags) })
    };

    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int)
        -> c_int = shim_sendmmsg,
    pass if FDS.is_foreign(fd) && {
        if !FDS.is_empty() {
            // SAFETY: sendmmsg(2)'s contract with the caller.
            let many = unsafe { Many::new(messages, count) };
            // SAFETY: as above.
            many.iter().flat_map(Many::headers).for_each(|header| unsafe { passing(header) });
        }
        true
    } => {
        // SAFETY: sendmmsg(2)'s contract with the caller.
        match unsafe { Many::new(messages, count) } {
            Some(mut many) => ops::send_many(fd, &mut many, flags),
            None => Verdict::PassThrough,
        }
    };
}
