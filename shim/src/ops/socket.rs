//! socket, bind, connect, options: the kernel's verdict is the call's verdict, the engine follows.

use super::fd::{adopt, purge};
use crate::abi;
use crate::fdtable::Held;
use crate::verdict::Verdict;
use crate::{FDS, guard, process, startup};
use engine::error::Reason;
use engine::ready::Object;
use engine::socket::{Family, SockAddrArg, UdpSocket};
use engine::sys::defer;
use libc::c_int;
use std::os::fd::RawFd;

/// SOCK_TYPE_MASK of linux/net.h.
const TYPE_MASK: c_int = 0xf;

/// After a successful socket(2): UDP becomes the engine's.
///
/// UDP-Lite (136), ping sockets (IPPROTO_ICMP) and every other family stay the kernel's.
pub(crate) fn created(fd: RawFd, domain: c_int, kind: c_int, protocol: c_int) {
    purge(fd);
    let family = match domain {
        libc::AF_INET => Family::V4,
        libc::AF_INET6 => Family::V6,
        _ => return,
    };
    let udp = kind & TYPE_MASK == libc::SOCK_DGRAM && matches!(protocol, 0 | libc::IPPROTO_UDP);
    if !udp || guard::inside() || !process::is_own() {
        return;
    }
    let _scope = defer::enter();
    let Some(stack) = startup::engine() else {
        return;
    };
    let errno = abi::errno();
    let socket = stack.open_udp(fd, family, kind & libc::SOCK_NONBLOCK != 0);
    adopt(
        fd,
        Held {
            object: Object::Udp(socket),
            v6: family == Family::V6,
        },
    );
    abi::set_errno(errno);
}

/// A call that changes a UDP socket of ours. Left to the kernel in a vfork child.
fn with_udp(fd: RawFd, call: impl FnOnce(&UdpSocket) -> Verdict) -> Verdict {
    match FDS.get(fd).as_deref() {
        Some(Held {
            object: Object::Udp(socket),
            ..
        }) if process::is_own() => call(socket),
        _ => Verdict::PassThrough,
    }
}

/// bind(2).
pub(crate) fn bind(fd: RawFd, address: &SockAddrArg) -> Verdict {
    with_udp(fd, |socket| socket.bind(fd, address).into())
}

/// connect(2).
pub(crate) fn connect(fd: RawFd, address: &SockAddrArg) -> Verdict {
    with_udp(fd, |socket| socket.connect(fd, address).into())
}

/// shutdown(2).
pub(crate) fn shutdown(fd: RawFd, how: c_int) -> Verdict {
    with_udp(fd, |socket| socket.shutdown(fd, how).into())
}

/// setsockopt(2).
pub(crate) fn setsockopt(fd: RawFd, level: c_int, name: c_int, ptr: usize, len: u32) -> Verdict {
    with_udp(fd, |socket| {
        socket.setsockopt(fd, level, name, ptr, len).into()
    })
}

/// Something reads or writes it from now on that passes no hook.
pub(crate) fn give_up(fd: RawFd) {
    let errno = abi::errno();
    with_udp(fd, |socket| {
        socket.hand_back(Reason::Option);
        Verdict::PassThrough
    });
    abi::set_errno(errno);
}

/// getsockopt(2).
pub(crate) fn getsockopt(fd: RawFd, level: c_int, name: c_int, len: usize) -> Verdict {
    with_udp(fd, |socket| match socket.getsockopt(level, name, len) {
        Some(result) => result.into(),
        None => Verdict::PassThrough,
    })
}

/// ioctl(2).
pub(crate) fn ioctl(fd: RawFd, request: libc::c_ulong, arg: usize) -> Verdict {
    with_udp(fd, |socket| match socket.ioctl(fd, request, arg) {
        Some(result) => result.into(),
        None => Verdict::PassThrough,
    })
}
