//! Arguments of poll, select and epoll_wait: sets, events, times, signal masks.
//!
//! Sources: poll(2), select(2), epoll_wait(2).

use super::{is_nowhere, kernel};
use engine::error::Errno;
use engine::ready::Timeout;
use libc::{c_int, epoll_event, pollfd, sigset_t, timespec, timeval};

/// Descriptors that a set of poll may have before RLIMIT_NOFILE is asked.
const FEW: usize = 64;

const NANOS: i64 = 1_000_000_000;

/// A time-out given in milliseconds; negative waits for ever.
pub(crate) fn millis(timeout: c_int) -> Timeout {
    u64::try_from(timeout).ok().map(|ms| ms * 1_000_000)
}

fn nanos(seconds: i64, nanos: i64) -> Result<u64, Errno> {
    let seconds = u64::try_from(seconds).map_err(|_| Errno::INVAL)?;
    let nanos = u64::try_from(nanos).map_err(|_| Errno::INVAL)?;
    Ok(seconds.saturating_mul(NANOS as u64).saturating_add(nanos))
}

/// A timespec; null waits for ever.
///
/// # Errors
/// EFAULT; EINVAL as the kernel's `timespec64_valid`.
///
/// # Safety
/// `ptr` is null or readable.
pub(crate) unsafe fn timespec(ptr: *const timespec) -> Result<Timeout, Errno> {
    if ptr.is_null() {
        return Ok(None);
    }
    if is_nowhere(ptr) {
        return Err(Errno::FAULT);
    }
    // SAFETY: readable by the caller's promise.
    let time = unsafe { ptr.read_unaligned() };
    if time.tv_nsec >= NANOS {
        return Err(Errno::INVAL);
    }
    nanos(time.tv_sec, time.tv_nsec).map(Some)
}

/// Writes a time that is left.
///
/// # Safety
/// `ptr` is null or writable.
pub(crate) unsafe fn put_timespec(ptr: *mut timespec, left: u64) {
    if ptr.is_null() {
        return;
    }
    let time = timespec {
        tv_sec: (left / NANOS as u64) as i64,
        tv_nsec: (left % NANOS as u64) as i64,
    };
    // SAFETY: not null, writable by the caller's promise.
    unsafe { ptr.write_unaligned(time) };
}

/// select's timeval; null waits for ever. Microseconds of a second and more are carried,
/// as glibc does.
///
/// # Errors
/// EFAULT; EINVAL for a negative part.
///
/// # Safety
/// `ptr` is null or readable.
pub(crate) unsafe fn timeval(ptr: *const timeval) -> Result<Timeout, Errno> {
    if ptr.is_null() {
        return Ok(None);
    }
    if is_nowhere(ptr) {
        return Err(Errno::FAULT);
    }
    // SAFETY: readable by the caller's promise.
    let time = unsafe { ptr.read_unaligned() };
    nanos(time.tv_sec, time.tv_usec.saturating_mul(1000)).map(Some)
}

/// Linux's select says how much time was left.
///
/// # Safety
/// `ptr` is null or writable.
pub(crate) unsafe fn put_timeval(ptr: *mut timeval, left: u64) {
    if ptr.is_null() {
        return;
    }
    let time = timeval {
        tv_sec: (left / NANOS as u64) as i64,
        tv_usec: (left % NANOS as u64 / 1000) as i64,
    };
    // SAFETY: not null, writable by the caller's promise.
    unsafe { ptr.write_unaligned(time) };
}

/// The kernel's 64 signals of a mask; null: no mask.
///
/// # Errors
/// EFAULT.
///
/// # Safety
/// `ptr` is null or readable.
pub(crate) unsafe fn mask(ptr: *const sigset_t) -> Result<Option<u64>, Errno> {
    if ptr.is_null() {
        return Ok(None);
    }
    if is_nowhere(ptr) {
        return Err(Errno::FAULT);
    }
    // SAFETY: somewhere; a sigset_t begins with the kernel's 64 bits.
    Ok(Some(unsafe { ptr.cast::<u64>().read_unaligned() }))
}

/// The set of a poll call; None: the kernel answers (null, or more than can be).
///
/// # Safety
/// `fds` is null or valid for `count` elements for `'a`, as poll(2) asks.
pub(crate) unsafe fn poll_set<'a>(
    fds: *mut pollfd,
    count: libc::nfds_t,
) -> Option<&'a mut [pollfd]> {
    let count = usize::try_from(count)
        .ok()
        .filter(|&c| c <= FEW || c <= kernel::most_descriptors())?;
    if is_nowhere(fds) || !fds.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned, valid for `count` elements.
    Some(unsafe { std::slice::from_raw_parts_mut(fds, count) })
}

/// A set that is given, and cannot be read: EFAULT.
pub(crate) fn is_bad_set(set: *mut libc::fd_set) -> bool {
    !set.is_null() && is_nowhere(set)
}

/// One set of a select call as 64-bit words: as many as hold `nfds` bits.
///
/// # Safety
/// `set` is null or valid for `nfds` bits, rounded up to words, for `'a`.
pub(crate) unsafe fn select_set<'a>(set: *mut libc::fd_set, nfds: usize) -> Option<&'a mut [u64]> {
    let words: *mut u64 = set.cast();
    if is_nowhere(words) || !words.is_aligned() {
        return None;
    }
    // SAFETY: not null, aligned, valid for these words: the kernel reads and writes the same.
    Some(unsafe { std::slice::from_raw_parts_mut(words, nfds.div_ceil(64)) })
}

/// The event array of epoll_wait; None: the kernel answers. For an array that cannot be
/// written the slice is empty: EFAULT if there is an event to write.
///
/// # Safety
/// `events` is null or writable for `max` elements for `'a`.
pub(crate) unsafe fn events<'a>(
    events: *mut epoll_event,
    max: c_int,
) -> Option<&'a mut [epoll_event]> {
    let count = usize::try_from(max).ok()?;
    let most = i32::MAX as usize / size_of::<epoll_event>();
    if count == 0 || count > most {
        return None;
    }
    if is_nowhere(events) {
        return Some(&mut []);
    }
    // SAFETY: not null, packed, writable for `max` elements; any bit pattern is an epoll_event.
    Some(unsafe { std::slice::from_raw_parts_mut(events, count) })
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::multiple_unsafe_ops_per_block,
        reason = "one argument after the other on the same local"
    )]

    use super::*;
    use std::ptr;

    fn spec(tv_sec: i64, tv_nsec: i64) -> Result<Timeout, Errno> {
        let time = timespec { tv_sec, tv_nsec };
        // SAFETY: a local.
        unsafe { super::timespec(&raw const time) }
    }

    #[test]
    fn times() {
        assert_eq!(millis(-1), None);
        assert_eq!(millis(0), Some(0));
        assert_eq!(millis(i32::MAX), Some(2_147_483_647_000_000));
        assert_eq!(spec(1, 5), Ok(Some(1_000_000_005)));
        assert_eq!(spec(i64::MAX, 0), Ok(Some(u64::MAX)));
        for bad in [(-1, 0), (0, -1), (0, 1_000_000_000)] {
            assert_eq!(spec(bad.0, bad.1), Err(Errno::INVAL));
        }
        // SAFETY: null.
        assert_eq!(unsafe { super::timespec(ptr::null()) }, Ok(None));
        let mut time = timeval {
            tv_sec: 1,
            tv_usec: 1_500_000,
        };
        // SAFETY: a local.
        let carried = unsafe { super::timeval(&raw const time) };
        assert_eq!(carried, Ok(Some(2_500_000_000)));
        // SAFETY: a local.
        unsafe { put_timeval(&raw mut time, 3_000_004_999) };
        assert_eq!((time.tv_sec, time.tv_usec), (3, 4));
        time.tv_usec = -1;
        // SAFETY: a local.
        let negative = unsafe { super::timeval(&raw const time) };
        assert_eq!(negative, Err(Errno::INVAL));
    }

    #[test]
    fn sets() {
        let mut events_array = [epoll_event { events: 0, u64: 0 }; 2];
        let at = events_array.as_mut_ptr();
        // SAFETY: a local array, or null.
        unsafe {
            assert_eq!(events(at, 2).map(|e| e.len()), Some(2));
            assert!(events(at, 0).is_none() && events(at, -1).is_none());
            assert!(events(at, i32::MAX).is_none());
            assert!(events(ptr::null_mut(), 1).is_some_and(|e| e.is_empty()));
        }
        let mut words = [0_u64; 2];
        let at = words.as_mut_ptr().cast();
        // SAFETY: a local array, or null.
        unsafe {
            assert_eq!(select_set(at, 64).map(|s| s.len()), Some(1));
            assert_eq!(select_set(at, 65).map(|s| s.len()), Some(2));
            assert!(select_set(ptr::null_mut(), 5).is_none());
        }
    }
}
