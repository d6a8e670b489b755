//! close, dup and their kin: the same object under a new number, nothing stale under a reused one.
//!
//! A number is taken out of the table, and the engine told, *before* the kernel closes
//! it: the moment after, another thread may own it. Creators purge the number that the
//! kernel gave them, in case it was closed by a call that passes no hook (a raw system
//! call, libc's inside). A number that is reused without passing a hook either is found
//! out when the kernel says ENOTSOCK.
//!
//! The engine's own descriptors do not exist for the application.

use crate::abi::kernel;
use crate::fdtable::Held;
use crate::verdict::Verdict;
use crate::{FDS, process, startup};
use engine::error::Reason;
use engine::ready::Object;
use engine::socket::UdpSocket;
use engine::sys::defer;
use engine::sys::fd::is_internal;
use libc::{c_int, c_uint};
use std::os::fd::RawFd;
use std::sync::Arc;

/// Numbers that the engine's own can have.
const INTERNAL_LIMIT: c_uint = 1 << 16;

const BAD: Verdict = Verdict::Failed(engine::error::Errno::BADF);

/// The engine is told that a number of its object is about to go. A socket that has no
/// number left leaves the epoll sets that it was in, as the kernel's does.
/// The socket, if it was in groups: see [`UdpSocket::fd_removed`].
pub(crate) fn removed(held: &Held, fd: RawFd) -> Option<Arc<UdpSocket>> {
    match &held.object {
        Object::Udp(socket) => socket.fd_removed(fd).then(|| Arc::clone(socket)),
        Object::Epoll(epoll) => {
            epoll.fd_removed(fd);
            None
        }
    }
}

fn added(held: &Held, fd: RawFd) {
    match &held.object {
        Object::Udp(socket) => socket.fd_added(fd),
        Object::Epoll(epoll) => epoll.fd_added(fd),
    }
}

/// Puts an object under the number that the kernel gave.
pub(crate) fn adopt(fd: RawFd, held: Held) {
    match FDS.insert(fd, held.clone()) {
        Ok(stale) => {
            if let Some(stale) = stale {
                removed(&stale, fd);
            }
            added(&held, fd);
        }
        // Nobody would ask the engine for this number: the kernel must serve it.
        Err(_) => {
            if let Object::Udp(socket) = &held.object {
                socket.hand_back(Reason::NoResources);
            }
        }
    }
}

/// As [`adopt`], but keeps what another thread put there first. The object that counts.
pub(crate) fn adopt_new(fd: RawFd, held: Held) -> Option<Object> {
    let there = FDS.insert_new(fd, held.clone()).ok()?;
    let ours = match (&there.object, &held.object) {
        (Object::Epoll(a), Object::Epoll(b)) => std::sync::Arc::ptr_eq(a, b),
        (Object::Udp(a), Object::Udp(b)) => std::sync::Arc::ptr_eq(a, b),
        _ => false,
    };
    if ours {
        added(&held, fd);
    }
    Some(there.object)
}

/// A number that the kernel has just given to something else.
#[inline]
pub(crate) fn purge(fd: RawFd) {
    if !FDS.is_foreign(fd) {
        let _scope = defer::enter();
        if let Some(member) = release(fd) {
            member.groups_left();
        }
    }
}

/// The same before the kernel closes it: the socket that leaves its groups then.
#[inline]
fn retire(fd: RawFd) -> Option<Arc<UdpSocket>> {
    if FDS.is_foreign(fd) {
        None
    } else {
        release(fd)
    }
}

/// Takes a number out before it is closed. Not in a vfork child: its table is another.
#[cold]
pub(crate) fn release(fd: RawFd) -> Option<Arc<UdpSocket>> {
    if process::is_own() {
        removed(&FDS.unlink(fd)?, fd)
    } else {
        None
    }
}

/// close(2).
pub(crate) fn close(fd: RawFd) -> Verdict {
    if is_internal(fd) && process::is_own() {
        return BAD;
    }
    let Some(member) = retire(fd) else {
        return Verdict::PassThrough;
    };
    let _scope = defer::enter();
    let result = kernel::close(fd);
    member.groups_left();
    result.into()
}

/// True for the commands of fcntl that make a descriptor number.
pub(crate) fn makes_number(command: c_int) -> bool {
    matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC)
}

/// dup(2) and fcntl's F_DUPFD: `make` is the kernel call.
pub(crate) fn duplicate(fd: RawFd, make: impl FnOnce() -> Verdict) -> Verdict {
    let held = FDS.get(fd);
    let verdict = make();
    if let Verdict::Handled(new) = &verdict
        && let Ok(new) = RawFd::try_from(*new)
    {
        match held {
            Some(held) if process::is_own() => adopt(new, held.clone()),
            _ => purge(new),
        }
    }
    verdict
}

/// dup2 and dup3.
pub(crate) fn duplicate_to(old: RawFd, new: RawFd, flags: c_int) -> Verdict {
    if FDS.is_foreign(old) && FDS.is_foreign(new) {
        let internal = is_internal(old) || is_internal(new);
        return if internal && process::is_own() {
            BAD
        } else {
            Verdict::PassThrough
        };
    }
    if old == new || !process::is_own() {
        return Verdict::PassThrough;
    }
    if is_internal(old) || is_internal(new) {
        return BAD;
    }
    // Linux keeps the target when the source is bad.
    if let Err(errno) = kernel::fcntl_int(old, libc::F_GETFD, 0) {
        return Verdict::Failed(errno);
    }
    if flags & !libc::O_CLOEXEC != 0 {
        return Verdict::PassThrough;
    }
    let source = FDS.get(old);
    let member = retire(new);
    let result = kernel::dup3(old, new, flags);
    if let Some(member) = member {
        let _scope = defer::enter();
        member.groups_left();
    }
    if result.is_ok()
        && let Some(source) = source
    {
        adopt(new, source.clone());
    }
    result.into()
}

/// fcntl(2); `make` is the kernel call.
pub(crate) fn fcntl(
    fd: RawFd,
    command: c_int,
    value: usize,
    make: impl FnOnce() -> Verdict,
) -> Verdict {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicate(fd, make),
        libc::F_SETFL => {
            let verdict = make();
            if let (Verdict::Handled(_), Some(held)) = (&verdict, FDS.get(fd))
                && let Object::Udp(socket) = &held.object
            {
                socket.flags_changed(value as i32);
            }
            verdict
        }
        _ => make(),
    }
}

/// close_range(2) and closefrom(3).
pub(crate) fn close_range(first: c_uint, last: c_uint, flags: c_int) -> Verdict {
    let known = libc::CLOSE_RANGE_UNSHARE | libc::CLOSE_RANGE_CLOEXEC;
    let flags_bits = flags.cast_unsigned();
    let nothing_closes = flags_bits & libc::CLOSE_RANGE_CLOEXEC != 0;
    if first > last || flags_bits & !known != 0 || nothing_closes {
        return Verdict::PassThrough;
    }
    if startup::running().is_none() || !process::is_own() {
        return Verdict::PassThrough;
    }
    let _scope = defer::enter();
    let inside = |fd: RawFd| (first..=last).contains(&fd.cast_unsigned());
    let mut flags = flags;
    if flags_bits & libc::CLOSE_RANGE_UNSHARE != 0 {
        if kernel::single_thread() {
            // The engine's would keep the sockets open. A program with one
            // thread has nobody to share with, so for it the flag means nothing.
            flags = 0;
        } else {
            // Other threads keep the numbers that this one loses: the kernel serves both.
            FDS.for_each(|fd, held| {
                if inside(fd) {
                    process::hand_over(fd, held);
                }
            });
        }
    }
    // One that was in groups speaks for all.
    let mut member = None;
    FDS.for_each(|fd, _| {
        if inside(fd)
            && let Some(left) = release(fd)
        {
            member = Some(left);
        }
    });
    // Around the engine's own.
    let mut from = first;
    let mut result = Ok(0);
    for number in first..=last.min(INTERNAL_LIMIT) {
        if result.is_ok() && is_internal(number.cast_signed()) {
            if number > from {
                result = kernel::close_range(from, number - 1, flags);
            }
            from = number + 1;
        }
    }
    if result.is_ok() && from <= last {
        result = kernel::close_range(from, last, flags);
    }
    if let Some(member) = member {
        member.groups_left();
    }
    result.into()
}
