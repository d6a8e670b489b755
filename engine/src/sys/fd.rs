//! Where the engine's own descriptors live: high numbers, close-on-exec, known by a bit set
//! so that an application that closes everything does not take them away.

use super::raw::syscall6;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Numbers below this are never used for ours while a higher one can be had.
const LOWEST: usize = 1 << 9;
/// Numbers that the registry can hold.
const TRACKED: usize = 1 << 16;

static INTERNAL: [AtomicU64; TRACKED / 64] = [const { AtomicU64::new(0) }; TRACKED / 64];

/// Those of them that a forked child has no use for.
static OWNED: [AtomicU64; TRACKED / 64] = [const { AtomicU64::new(0) }; TRACKED / 64];

fn nofile_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit
        .current
        .map_or(TRACKED, |v| usize::try_from(v).unwrap_or(TRACKED))
}

fn dup_from(fd: RawFd, lowest: usize) -> Option<RawFd> {
    // SAFETY: fcntl(F_DUPFD_CLOEXEC) takes integers only.
    let r = unsafe {
        syscall6(
            libc::SYS_fcntl,
            [fd as usize, libc::F_DUPFD_CLOEXEC as usize, lowest, 0, 0, 0],
        )
    };
    r.ok().map(|v| v as RawFd)
}

/// Numbers that a program under a low limit may need itself: below such a limit the
/// engine takes none.
const RESERVED: usize = 64;

/// Whether the engine may take descriptors: the limit leaves room, and the numbers at its
/// upper end are free.
#[must_use]
pub fn has_room() -> bool {
    let limit = nofile_limit().min(TRACKED);
    let free = |n: &usize| {
        // SAFETY: fcntl(F_GETFD) takes integers only.
        unsafe { syscall6(libc::SYS_fcntl, [*n, libc::F_GETFD as usize, 0, 0, 0, 0]) }.is_err()
    };
    limit >= 2 * RESERVED && (limit - RESERVED..limit).filter(free).count() > RESERVED / 2
}

/// Moves a descriptor to a high number and registers it; None where there is none: the
/// descriptor stays as it is.
#[must_use]
pub fn move_above(fd: RawFd) -> Option<RawFd> {
    let limit = nofile_limit().min(TRACKED);
    let lowest = usize::try_from(fd).ok()?;
    let high = [
        limit.saturating_sub(256).max(LOWEST),
        limit.saturating_sub(RESERVED),
    ]
    .into_iter()
    .filter(|&from| from > lowest.max(RESERVED) && from < limit)
    .find_map(|from| dup_from(fd, from))?;
    super::raw::close(fd);
    register(high);
    Some(high)
}

/// As [`move_above`], but a descriptor for which there is no high number is registered
/// where it is.
#[must_use]
pub fn move_high(fd: RawFd) -> RawFd {
    move_above(fd).unwrap_or_else(|| {
        register(fd);
        fd
    })
}

fn word(set: &'static [AtomicU64], fd: RawFd) -> Option<(&'static AtomicU64, u64)> {
    let n = usize::try_from(fd).ok()?;
    Some((set.get(n / 64)?, 1 << (n % 64)))
}

/// Marks a descriptor as one that a forked child closes.
pub fn register_owned(fd: RawFd) {
    if let Some((bits, bit)) = word(&OWNED, fd) {
        bits.fetch_or(bit, Ordering::Relaxed);
    }
}

/// How often [`close_owned`] was called.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Rises in every forked child: what was opened before is closed.
#[must_use]
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

/// In a forked child: closes the parent's rings and event descriptors, which would
/// otherwise live on in the child.
pub fn close_owned() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    for (i, bits) in OWNED.iter().enumerate() {
        let mut set = bits.swap(0, Ordering::Relaxed);
        while set != 0 {
            let fd = i * 64 + set.trailing_zeros() as usize;
            set &= set - 1;
            unregister(fd as RawFd);
            // SAFETY: a descriptor of the engine, inherited and not used here any more.
            let _ = unsafe { syscall6(libc::SYS_close, [fd, 0, 0, 0, 0, 0]) };
        }
    }
}

/// Remembers a descriptor as the engine's own.
pub fn register(fd: RawFd) {
    if let Some((bits, bit)) = word(&INTERNAL, fd) {
        bits.fetch_or(bit, Ordering::Relaxed);
    }
}

/// Forgets it.
pub fn unregister(fd: RawFd) {
    for set in [&INTERNAL, &OWNED] {
        if let Some((bits, bit)) = word(set, fd) {
            bits.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}

/// True for a descriptor of the engine itself: the application does not know it.
#[must_use]
pub fn is_internal(fd: RawFd) -> bool {
    word(&INTERNAL, fd).is_some_and(|(bits, bit)| bits.load(Ordering::Relaxed) & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registry_keeps_numbers_apart() {
        register(70);
        assert!(is_internal(70));
        assert!(!is_internal(71));
        unregister(70);
        assert!(!is_internal(70));
        assert!(!is_internal(-1));
    }
}
