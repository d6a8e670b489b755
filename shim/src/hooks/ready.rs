//! select, poll, epoll.

use super::hooks;
use crate::FDS;
use crate::abi::{kernel, wait};
use crate::ops::ready as ops;
use crate::process::Optional;
use crate::verdict::{CResult, Verdict};
use engine::clock;
use engine::ready::{FdSets, Timeout};
use engine::sys::defer;
use libc::{c_int, c_void, epoll_event, fd_set, nfds_t, pollfd, sigset_t, timespec, timeval};

/// # Safety
/// poll(2)'s contract for the set.
unsafe fn poll_on(fds: *mut pollfd, count: nfds_t, timeout: Timeout, mask: Option<u64>) -> Verdict {
    // SAFETY: passed on.
    ops::poll(unsafe { wait::poll_set(fds, count) }, timeout, mask)
}

/// # Safety
/// ppoll(2)'s contract.
unsafe fn ppoll_on(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> Verdict {
    // SAFETY: passed on.
    let Ok(timeout) = (unsafe { wait::timespec(timeout) }) else {
        return Verdict::PassThrough;
    };
    // SAFETY: passed on.
    let Ok(mask) = (unsafe { wait::mask(mask) }) else {
        return Verdict::PassThrough;
    };
    // SAFETY: passed on.
    unsafe { poll_on(fds, count, timeout, mask) }
}

/// # Safety
/// select(2)'s contract for the sets.
unsafe fn select_on(
    nfds: c_int,
    [read, write, except]: [*mut fd_set; 3],
    timeout: Timeout,
    mask: Option<u64>,
) -> Verdict {
    let Ok(nfds) = usize::try_from(nfds) else {
        return Verdict::PassThrough;
    };
    if [read, write, except].into_iter().any(wait::is_bad_set) {
        return Verdict::PassThrough;
    }
    // SAFETY: passed on.
    let set = |set| unsafe { wait::select_set(set, nfds) };
    let sets = FdSets {
        nfds,
        read: set(read),
        write: set(write),
        except: set(except),
    };
    ops::select(sets, timeout, mask)
}

/// # Safety
/// epoll_wait(2)'s contract.
unsafe fn epoll_on(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: Timeout,
    mask: Option<u64>,
) -> Verdict {
    // SAFETY: passed on.
    ops::epoll_wait(epfd, unsafe { wait::events(events, max) }, timeout, mask)
}

hooks! {
    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int = shim_poll,
    pass if FDS.is_empty() => {
        // SAFETY: poll(2)'s contract with the caller.
        unsafe { poll_on(fds, count, wait::millis(timeout), None) }
    };

    fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int = shim_alias_poll,
    pass if FDS.is_empty() => {
        // SAFETY: poll(2)'s contract with the caller.
        unsafe { poll_on(fds, count, wait::millis(timeout), None) }
    };

    // A set larger than its array is libc's to abort on.
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: usize)
        -> c_int = shim_poll_chk,
    pass if FDS.is_empty() || room / size_of::<pollfd>() < count as usize => {
        // SAFETY: poll(2)'s contract with the caller.
        unsafe { poll_on(fds, count, wait::millis(timeout), None) }
    };

    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t)
        -> c_int = shim_ppoll,
    pass if FDS.is_empty() => {
        // SAFETY: ppoll(2)'s contract with the caller.
        unsafe { ppoll_on(fds, count, timeout, mask) }
    };

    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec,
        mask: *const sigset_t, room: usize) -> c_int = shim_ppoll_chk,
    pass if FDS.is_empty() || room / size_of::<pollfd>() < count as usize => {
        // SAFETY: ppoll(2)'s contract with the caller.
        unsafe { ppoll_on(fds, count, timeout, mask) }
    };

    fn select(nfds: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval) -> c_int = shim_select,
    pass if FDS.is_empty() => {
        let sets = [read, write, except];
        // SAFETY: select(2)'s contract with the caller.
        match unsafe { wait::timeval(timeout) } {
            Err(_) => Verdict::PassThrough,
            // SAFETY: as above.
            Ok(None) => unsafe { select_on(nfds, sets, None, None) },
            Ok(Some(whole)) => {
                let start = clock::monotonic();
                // SAFETY: as above.
                let verdict = unsafe { select_on(nfds, sets, Some(whole), None) };
                if !matches!(verdict, Verdict::PassThrough) {
                    let left = whole.saturating_sub(clock::monotonic() - start);
                    // SAFETY: as above.
                    unsafe { wait::put_timeval(timeout, left) };
                }
                verdict
            }
        }
    };

    fn pselect(nfds: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t) -> c_int = shim_pselect,
    pass if FDS.is_empty() => {
        // SAFETY: pselect(2)'s contract with the caller.
        let time = unsafe { wait::timespec(timeout) };
        // SAFETY: as above.
        let signals = unsafe { wait::mask(mask) };
        match (time, signals) {
            // SAFETY: as above.
            (Ok(time), Ok(signals)) => unsafe {
                select_on(nfds, [read, write, except], time, signals)
            },
            _ => Verdict::PassThrough,
        }
    };

    fn epoll_ctl(epfd: c_int, op: c_int, fd: c_int, event: *mut epoll_event)
        -> c_int = shim_epoll_ctl,
    pass if FDS.is_empty() => ops::epoll_ctl(epfd, op, fd, event.expose_provenance());

    fn epoll_wait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int)
        -> c_int = shim_epoll_wait,
    pass if FDS.is_foreign(epfd) => {
        // SAFETY: epoll_wait(2)'s contract with the caller.
        unsafe { epoll_on(epfd, events, max, wait::millis(timeout), None) }
    };

    fn epoll_pwait(epfd: c_int, events: *mut epoll_event, max: c_int, timeout: c_int,
        mask: *const sigset_t) -> c_int = shim_epoll_pwait,
    pass if FDS.is_foreign(epfd) => {
        // SAFETY: epoll_pwait(2)'s contract with the caller.
        match unsafe { wait::mask(mask) } {
            // SAFETY: as above.
            Ok(mask) => unsafe { epoll_on(epfd, events, max, wait::millis(timeout), mask) },
            Err(_) => Verdict::PassThrough,
        }
    };
}

type EpollPwait2 =
    unsafe extern "C" fn(c_int, *mut epoll_event, c_int, *const timespec, *const sigset_t) -> c_int;

static EPOLL_PWAIT2: Optional = Optional::new(c"epoll_pwait2");

/// glibc has it since 2.35, the kernel since 5.11.
///
/// # Safety
/// epoll_pwait2(2)'s contract.
unsafe fn original_epoll_pwait2(
    epfd: c_int,
    events: *mut epoll_event,
    max: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let found = EPOLL_PWAIT2.get();
    if !found.is_null() {
        // SAFETY: libc's function of this name has this type.
        let original = unsafe { std::mem::transmute::<*mut c_void, EpollPwait2>(found) };
        // SAFETY: passed on.
        return unsafe { original(epfd, events, max, timeout, mask) };
    }
    let args = [
        kernel::arg(epfd),
        events.expose_provenance(),
        kernel::arg(max),
        timeout.expose_provenance(),
        mask.expose_provenance(),
        size_of::<u64>(),
    ];
    // SAFETY: passed on.
    let result = unsafe { kernel::forward(libc::SYS_epoll_pwait2, args) };
    Verdict::from(result).or_else(|| c_int::FAILURE)
}

redhook::hook! {
    unsafe fn epoll_pwait2(epfd: c_int, events: *mut epoll_event, max: c_int,
        timeout: *const timespec, mask: *const sigset_t) -> c_int => shim_epoll_pwait2 {
        let verdict = if FDS.is_foreign(epfd) {
            Verdict::PassThrough
        } else {
            let _scope = defer::enter();
            // SAFETY: epoll_pwait2(2)'s contract with the caller.
            let time = unsafe { wait::timespec(timeout) };
            // SAFETY: as above.
            let signals = unsafe { wait::mask(mask) };
            match (time, signals) {
                // SAFETY: as above.
                (Ok(time), Ok(signals)) => unsafe { epoll_on(epfd, events, max, time, signals) },
                _ => Verdict::PassThrough,
            }
        };
        // SAFETY: the caller's own arguments.
        verdict.or_else(|| unsafe { original_epoll_pwait2(epfd, events, max, timeout, mask) })
    }
}

redhook::hook! {
    unsafe fn epoll_create(size: c_int) -> c_int => shim_epoll_create {
        // SAFETY: no memory is involved.
        let epfd = unsafe { redhook::real!(epoll_create)(size) };
        if epfd >= 0 {
            ops::epoll_created(epfd);
        }
        epfd
    }
}

redhook::hook! {
    unsafe fn epoll_create1(flags: c_int) -> c_int => shim_epoll_create1 {
        // SAFETY: no memory is involved.
        let epfd = unsafe { redhook::real!(epoll_create1)(flags) };
        if epfd >= 0 {
            ops::epoll_created(epfd);
        }
        epfd
    }
}
