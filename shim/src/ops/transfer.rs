//! One core for receive, one for send; the multi-message calls are loops around them.
//!
//! Source: linux net/socket.c (`do_recvmmsg`, `__sys_sendmmsg`).

use super::fd::purge;
use crate::FDS;
use crate::abi::receive::{self, Incoming, Many};
use crate::abi::send::{Outgoing, Simple};
use crate::abi::{KeptErrno, MAX_VECTORS, kernel};
use crate::fdtable::{Ref, Slot};
use crate::verdict::Verdict;
use engine::clock;
use engine::error::Errno;
use engine::ready::Object;
use engine::socket::UdpSocket;
use engine::socket::io::{Late, Sent};
use engine::sys::defer::{self, Scope};
use engine::sys::leave::Kept;
use libc::c_int;
use std::io::IoSlice;
use std::os::fd::RawFd;

/// No datagram is longer.
const LONGEST_DATAGRAM: usize = 65_536;
/// Of linux/socket.h.
const MSG_PROBE: c_int = 0x10;

fn receive_from(socket: &UdpSocket, fd: RawFd, call: &mut Incoming<'_>) -> Result<usize, Errno> {
    let flags = call.flags();
    match socket.recv_early(call, flags) {
        Ok(count) => Ok(count),
        Err(late) => socket.recv(fd, call, flags, late),
    }
}

/// The number names something else now: it was closed and used again by calls that pass
/// no hook. It is not ours any more.
#[cold]
fn forget(fd: RawFd) -> Verdict {
    purge(fd);
    Verdict::PassThrough
}

/// read, recv, recvfrom of the number in `slot`. Keeps `errno` and puts handlers off itself.
///
/// Each outcome gives the entry back and ends the scope on its own: where ways meet, the
/// compiler keeps what only one of them needs.
#[inline(always)]
pub(crate) fn receive_simple(fd: RawFd, slot: Slot<'_>, call: &receive::Simple) -> Verdict {
    let scope = defer::enter();
    let Some(found) = FDS.get_at(slot) else {
        drop(scope);
        return Verdict::PassThrough;
    };
    if let Object::Udp(socket) = &found.object {
        match socket.recv_early(&mut call.again(), call.flags()) {
            Ok(count) => {
                drop(found);
                drop(scope);
                return Verdict::Handled(count);
            }
            // Of its own, for the call is needed no more: that saves keeping it meanwhile.
            Err(Late::Failed(errno)) => {
                drop(found);
                drop(scope);
                return Verdict::Failed(errno);
            }
            Err(late) => return receive_slowly(scope, found, fd, call.again(), late),
        }
    }
    drop(found);
    drop(scope);
    Verdict::PassThrough
}

#[inline(never)]
fn receive_slowly(
    _scope: Scope,
    found: Ref<'_>,
    fd: RawFd,
    call: receive::Simple,
    late: Late,
) -> Verdict {
    let Object::Udp(socket) = &found.object else {
        return Verdict::PassThrough;
    };
    if socket.waits(call.flags()) {
        return receive_waiting(found, fd, call, late);
    }
    let late = socket.at_once(late);
    if let Late::Failed(errno) = late {
        return Verdict::Failed(errno);
    }
    receive_on(socket, fd, call, late)
}

/// A call that may never return here.
#[inline(never)]
fn receive_waiting(found: Ref<'_>, fd: RawFd, call: receive::Simple, late: Late) -> Verdict {
    let mut kept = Kept::new(found);
    let found = kept.arm();
    let Object::Udp(socket) = &found.object else {
        return Verdict::PassThrough;
    };
    let verdict = receive_on(socket, fd, call.again(), late);
    if was_overtaken(socket, &verdict) {
        drop(found);
        drop(kept);
        return match FDS.find(fd) {
            Some(slot) => receive_simple(fd, slot, &call),
            None => Verdict::PassThrough,
        };
    }
    verdict
}

/// Another thread closed the number, or gave it to another file, before the call waited: to
/// the program the call came after that.
fn was_overtaken(socket: &UdpSocket, verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Failed(Errno(libc::EBADF))) && socket.fd() < 0
}

#[inline]
fn receive_on(socket: &UdpSocket, fd: RawFd, mut call: receive::Simple, late: Late) -> Verdict {
    let errno = KeptErrno::new();
    let flags = call.flags();
    match socket.recv(fd, &mut call, flags, late) {
        Ok(count) => {
            errno.restore();
            Verdict::Handled(count)
        }
        Err(errno) => failed(fd, errno),
    }
}

#[cold]
fn failed(fd: RawFd, errno: Errno) -> Verdict {
    if errno == Errno(libc::ENOTSOCK) {
        forget(fd)
    } else {
        Verdict::Failed(errno)
    }
}

/// readv, recvmsg.
pub(crate) fn receive(fd: RawFd, call: Option<Incoming<'_>>) -> Verdict {
    let Some(mut call) = call else {
        return Verdict::PassThrough;
    };
    let Some(found) = FDS.get(fd) else {
        return Verdict::PassThrough;
    };
    let Object::Udp(socket) = &found.object else {
        return Verdict::PassThrough;
    };
    let flags = call.flags();
    let late = match socket.recv_early(&mut call, flags) {
        Ok(count) => return Verdict::Handled(count),
        Err(late) => late,
    };
    let waits = socket.waits(flags);
    let mut kept = Kept::new(found);
    let found = kept.arm_if(waits);
    let Object::Udp(socket) = &found.object else {
        return Verdict::PassThrough;
    };
    let verdict = match socket.recv(fd, &mut call, flags, late) {
        Err(Errno(libc::ENOTSOCK)) => forget(fd),
        result => result.into(),
    };
    if was_overtaken(socket, &verdict) {
        drop(found);
        drop(kept);
        return receive(fd, Some(call));
    }
    verdict
}

/// recvmmsg. `timeout` is in nanoseconds and becomes what is left of it. It is looked at
/// only after a datagram, as Linux does; an error after the first message ends the call
/// with the count, and is the next call's.
pub(crate) fn receive_many(
    fd: RawFd,
    messages: &mut Many<'_>,
    flags: c_int,
    timeout: &mut Option<u64>,
) -> Verdict {
    let Some(found) = FDS.get(fd) else {
        return Verdict::PassThrough;
    };
    let waits = matches!(&found.object, Object::Udp(socket) if socket.waits(flags));
    let mut found = Kept::new(found);
    let found = found.arm_if(waits);
    let Object::Udp(socket) = &found.object else {
        return Verdict::PassThrough;
    };
    let start = if timeout.is_some() {
        clock::monotonic()
    } else {
        0
    };
    let end = timeout.map(|t| start.saturating_add(t));
    let mut now_flags = flags & !libc::MSG_WAITFORONE;
    let mut done = 0;
    while done < messages.count() {
        let result = match messages.incoming(done, now_flags) {
            Some(mut call) => receive_from(socket, fd, &mut call),
            // The first header's fault is the call's; the kernel names it.
            None if done == 0 => return Verdict::PassThrough,
            None => break,
        };
        match result {
            Ok(len) => messages.set_len(done, len),
            Err(errno) if done == 0 => return Verdict::Failed(errno),
            Err(Errno::AGAIN | Errno::INTR) => break,
            Err(errno) => {
                socket.leave_error(errno);
                break;
            }
        }
        done += 1;
        if flags & libc::MSG_WAITFORONE != 0 {
            now_flags |= libc::MSG_DONTWAIT;
        }
        if let Some(end) = end {
            let left = end.saturating_sub(clock::monotonic());
            *timeout = Some(left);
            if left == 0 {
                break;
            }
        }
    }
    Verdict::Handled(done)
}

/// splice(2) from a socket into a pipe, or the other way.
pub(crate) fn splice(from: RawFd, to: RawFd, len: usize, flags: libc::c_uint) -> Verdict {
    if let Some(found) = FDS.get(to)
        && let Object::Udp(socket) = &found.object
    {
        if flags & libc::SPLICE_F_MORE != 0 {
            socket.kernel_holds_more();
        }
        return Verdict::PassThrough;
    }
    let pipe = kernel::file_type(to) == Ok(libc::S_IFIFO);
    let Some(slot) = FDS.find(from).filter(|_| pipe && len != 0) else {
        return Verdict::PassThrough;
    };
    let (verdict, data) = receive::into_buffer(len.min(LONGEST_DATAGRAM), |call| {
        receive_simple(from, slot, call)
    });
    match verdict {
        Verdict::Handled(count) if count > 0 => kernel::write_signalling(to, &data).into(),
        verdict => verdict,
    }
}

/// The kernel makes a call, and may wait in it.
#[cold]
#[inline(never)]
fn send_by_kernel(
    found: Ref<'_>,
    kernel: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut found = Kept::new(found);
    let found = found.arm();
    let result = {
        let _open = defer::open();
        kernel()
    };
    if let Object::Udp(socket) = &found.object {
        socket.kernel_sent(result);
    }
    result
}

/// write, send and sendto of one buffer, by the number in `slot`. Keeps `errno` and puts handlers off itself.
#[inline(always)]
pub(crate) fn send_simple(fd: RawFd, slot: Slot<'_>, call: &Simple<'_>) -> Verdict {
    let scope = defer::enter();
    let Some(found) = FDS.get_at(slot) else {
        drop(scope);
        return Verdict::PassThrough;
    };
    if let Object::Udp(socket) = &found.object {
        let (payload, to, flags) = call.parts();
        return match socket.send_again(to, payload, flags) {
            Some(count) => {
                drop(found);
                drop(scope);
                Verdict::Handled(count)
            }
            None => send_slowly(scope, found, fd, call.again()),
        };
    }
    drop(found);
    drop(scope);
    Verdict::PassThrough
}

#[inline(never)]
fn send_slowly(_scope: Scope, found: Ref<'_>, fd: RawFd, call: Simple<'_>) -> Verdict {
    let Object::Udp(socket) = &found.object else {
        return Verdict::PassThrough;
    };
    let errno = KeptErrno::new();
    let (payload, to, flags) = call.parts();
    let payload = [IoSlice::new(payload)];
    let result = match socket.send(fd, to.destination(), &payload, None, flags) {
        Sent::Kernel => send_by_kernel(found, || call.kernel(fd)),
        Sent::Done(count) => Ok(count),
        Sent::Failed(errno) => Err(errno),
    };
    match result {
        Ok(count) => {
            errno.restore();
            Verdict::Handled(count)
        }
        Err(errno) => failed(fd, errno),
    }
}

fn send_on(socket: &UdpSocket, v6: bool, fd: RawFd, call: &Outgoing<'_>) -> Sent {
    let to = call.destination(v6);
    socket.send(fd, to, call.payload(), call.control(), call.flags())
}

/// write, writev, send, sendto, sendmsg. `None`: arguments that the kernel answers.
#[inline]
pub(crate) fn send(fd: RawFd, call: Option<Outgoing<'_>>) -> Verdict {
    let (Some(call), Some(found)) = (call, FDS.get(fd)) else {
        return Verdict::PassThrough;
    };
    let Object::Udp(socket) = &found.object else {
        return Verdict::PassThrough;
    };
    let result = match send_on(socket, found.v6, fd, &call) {
        Sent::Kernel => send_by_kernel(found, || call.kernel(fd)),
        Sent::Done(count) => Ok(count),
        Sent::Failed(errno) => Err(errno),
    };
    match result {
        Err(Errno(libc::ENOTSOCK)) => forget(fd),
        result => result.into(),
    }
}

/// sendmmsg: the first error is the call's, a later one only ends it.
pub(crate) fn send_many(fd: RawFd, messages: &mut Many<'_>, flags: c_int) -> Verdict {
    let Some(found) = FDS.get(fd) else {
        return Verdict::PassThrough;
    };
    let waits = matches!(&found.object, Object::Udp(socket) if socket.waits(flags));
    let mut found = Kept::new(found);
    let found = found.arm_if(waits);
    let Object::Udp(socket) = &found.object else {
        return Verdict::PassThrough;
    };
    if flags & MSG_PROBE != 0 {
        return Verdict::PassThrough; // sends nothing, and ends after the first that has a payload
    }
    let count = messages.count().min(MAX_VECTORS);
    for index in 0..count {
        let call = messages.outgoing(index, flags);
        let sent = match &call {
            Some(call) => send_on(socket, found.v6, fd, call),
            None => Sent::Kernel,
        };
        let result = match sent {
            Sent::Done(count) => Ok(count),
            Sent::Failed(errno) => Err(errno),
            Sent::Kernel => {
                let result = {
                    let _open = defer::open();
                    match &call {
                        Some(call) => call.kernel(fd),
                        None => messages.kernel_send(index, fd, flags),
                    }
                };
                socket.kernel_sent(result);
                result
            }
        };
        match result {
            Ok(len) => messages.set_len(index, len),
            Err(errno) if index == 0 => return Verdict::Failed(errno),
            Err(_) => return Verdict::Handled(index),
        }
    }
    Verdict::Handled(count)
}
