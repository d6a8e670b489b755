//! poll, select and epoll: ours only if one of the descriptors is.

use super::fd::{adopt_new, removed};
use crate::fdtable::Held;
use crate::verdict::Verdict;
use crate::{FDS, process, startup};
use engine::error::Errno;
use engine::ready::{self, Epoll, FdSets, Object, Timeout};
use engine::sys::defer;
use engine::sys::leave::Kept;
use libc::{c_int, epoll_event, pollfd};
use std::os::fd::RawFd;
use std::sync::Arc;

fn lookup(fd: RawFd) -> Option<Object> {
    FDS.get(fd).map(|held| held.object.clone())
}

/// poll and ppoll.
pub(crate) fn poll(set: Option<&mut [pollfd]>, timeout: Timeout, mask: Option<u64>) -> Verdict {
    match set {
        Some(set) if set.iter().any(|entry| !FDS.is_foreign(entry.fd)) => {
            ready::poll(set, &lookup, timeout, mask).into()
        }
        _ => Verdict::PassThrough,
    }
}

/// True if a set names a descriptor of ours.
fn has_ours(set: Option<&[u64]>, nfds: usize) -> bool {
    let words = set.unwrap_or(&[]).iter().enumerate();
    words.into_iter().any(|(index, &word)| {
        let mut left = word;
        std::iter::from_fn(|| {
            let bit = left.trailing_zeros();
            (left != 0).then(|| {
                left &= left - 1;
                index * 64 + bit as usize
            })
        })
        .take_while(|&fd| fd < nfds)
        .any(|fd| RawFd::try_from(fd).is_ok_and(|fd| !FDS.is_foreign(fd)))
    })
}

/// select and pselect.
pub(crate) fn select(sets: FdSets<'_>, timeout: Timeout, mask: Option<u64>) -> Verdict {
    let all = [
        sets.read.as_deref(),
        sets.write.as_deref(),
        sets.except.as_deref(),
    ];
    if all.into_iter().any(|set| has_ours(set, sets.nfds)) {
        ready::select(sets, &lookup, timeout, mask).into()
    } else {
        Verdict::PassThrough
    }
}

/// After a successful epoll_create: followed from the start if there is an engine already,
/// else when the first socket of ours is added.
pub(crate) fn epoll_created(epfd: RawFd) {
    super::fd::purge(epfd);
    if process::is_own()
        && let Some(stack) = startup::running()
    {
        let _scope = defer::enter();
        let object = Object::Epoll(stack.open_epoll(epfd, false));
        super::fd::adopt(epfd, Held { object, v6: false });
    }
}

fn epoll_of(epfd: RawFd) -> Option<Arc<Epoll>> {
    match FDS.get(epfd)?.object {
        Object::Epoll(ref epoll) => Some(epoll.clone()),
        Object::Udp(_) => None,
    }
}

/// epoll_ctl(2). `event` is the address of the caller's structure.
pub(crate) fn epoll_ctl(epfd: RawFd, op: c_int, fd: RawFd, event: usize) -> Verdict {
    if FDS.is_foreign(epfd) && FDS.is_foreign(fd) || !process::is_own() {
        return Verdict::PassThrough;
    }
    let target = lookup(fd);
    if let Some(epoll) = epoll_of(epfd) {
        return epoll.ctl(epfd, op, fd, target.as_ref(), event).into();
    }
    if target.is_none() || op != libc::EPOLL_CTL_ADD || !FDS.is_foreign(epfd) {
        return Verdict::PassThrough;
    }
    let Some(stack) = startup::running() else {
        return Verdict::PassThrough;
    };
    let object = Object::Epoll(stack.open_epoll(epfd, true));
    let Some(Object::Epoll(epoll)) = adopt_new(epfd, Held { object, v6: false }) else {
        return Verdict::PassThrough;
    };
    let result = epoll.ctl(epfd, op, fd, target.as_ref(), event);
    if matches!(result, Err(Errno(libc::EINVAL | libc::EBADF)))
        && epoll.is_plain()
        && let Some(held) = FDS.unlink(epfd)
    {
        // Not an epoll descriptor after all, perhaps.
        removed(&held, epfd);
    }
    result.into()
}

/// epoll_wait, epoll_pwait, epoll_pwait2.
#[inline]
pub(crate) fn epoll_wait(
    epfd: RawFd,
    out: Option<&mut [epoll_event]>,
    timeout: Timeout,
    mask: Option<u64>,
) -> Verdict {
    let mut found = Kept::new(FDS.get(epfd));
    let found = found.arm_if(timeout != Some(0));
    match (found.as_deref(), out) {
        (
            Some(Held {
                object: Object::Epoll(epoll),
                ..
            }),
            Some(out),
        ) if !epoll.is_plain() => {
            if out.is_empty() {
                // The array cannot be written: Linux says so once there is an event.
                let mut nowhere = [epoll_event { events: 0, u64: 0 }];
                let result = epoll.wait(epfd, &mut nowhere, timeout, mask);
                let fault = |count| if count > 0 { Err(Errno::FAULT) } else { Ok(0) };
                return result.and_then(fault).into();
            }
            epoll.wait(epfd, out, timeout, mask).into()
        }
        _ => Verdict::PassThrough,
    }
}
