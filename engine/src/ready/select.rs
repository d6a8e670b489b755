//! select(2) and pselect(2), by way of poll: the kernel's own equivalence
//! (`fs/select.c`, POLLIN_SET, POLLOUT_SET, POLLEX_SET).

use super::poll::poll_counted;
use super::{Lookup, Timeout};
use crate::clock;
use crate::error::Errno;
use smallvec::SmallVec;

const IN_SET: i16 =
    libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLIN | libc::POLLHUP | libc::POLLERR;
const OUT_SET: i16 = libc::POLLWRBAND | libc::POLLWRNORM | libc::POLLOUT | libc::POLLERR;
const EX_SET: i16 = libc::POLLPRI;

/// The three sets of a select call, as arrays of 64-bit words of the caller's length.
#[derive(Debug)]
pub struct FdSets<'a> {
    /// As the caller gave it.
    pub nfds: usize,
    /// Wanted readable; replaced by those that are.
    pub read: Option<&'a mut [u64]>,
    /// Wanted writable.
    pub write: Option<&'a mut [u64]>,
    /// Wanted for exceptional conditions.
    pub except: Option<&'a mut [u64]>,
}

fn has(set: Option<&[u64]>, fd: usize) -> bool {
    set.and_then(|s| s.get(fd / 64))
        .is_some_and(|word| word >> (fd % 64) & 1 != 0)
}

/// An entry of poll, and the descriptor that it stands for also when it is not watched any
/// more.
type Watched = (usize, libc::pollfd);

/// Replaces a set by what is ready, whole words as Linux does; the number of bits.
fn store(
    set: Option<&mut [u64]>,
    nfds: usize,
    watched: &[Watched],
    bits: i16,
    wanted: i16,
) -> usize {
    let Some(set) = set else { return 0 };
    if let Some(last) = set.get_mut(nfds / 64) {
        *last &= (1 << (nfds % 64)) - 1;
    }
    let mut count = 0;
    for (fd, entry) in watched {
        if let Some(word) = set.get_mut(fd / 64)
            && *word >> (fd % 64) & 1 != 0
        {
            if entry.events & wanted != 0 && entry.revents & bits != 0 {
                count += 1;
            } else {
                *word &= !(1 << (fd % 64));
            }
        }
    }
    count
}

/// select and pselect; `mask` as in [`super::poll()`].
///
/// # Errors
/// As select(2); the sets are left alone then.
pub fn select(
    sets: FdSets<'_>,
    lookup: Lookup<'_>,
    timeout: Timeout,
    mask: Option<u64>,
) -> Result<usize, Errno> {
    let FdSets {
        nfds,
        mut read,
        mut write,
        mut except,
    } = sets;
    let mut fds: SmallVec<[libc::pollfd; 16]> = SmallVec::new();
    for fd in 0..nfds {
        let mut events = 0;
        if has(read.as_deref(), fd) {
            events |= libc::POLLIN | libc::POLLRDNORM;
        }
        if has(write.as_deref(), fd) {
            events |= libc::POLLOUT | libc::POLLWRNORM;
        }
        if has(except.as_deref(), fd) {
            events |= libc::POLLPRI;
        }
        if events != 0 {
            fds.push(libc::pollfd {
                fd: fd as i32,
                events,
                revents: 0,
            });
        }
    }
    let mut watched: SmallVec<[Watched; 16]> = fds.iter().map(|f| (f.fd as usize, *f)).collect();
    let deadline = timeout.map(|t| clock::monotonic().saturating_add(t));
    loop {
        let left = deadline.map(|d| d.saturating_sub(clock::monotonic()));
        let left = if timeout == Some(0) { timeout } else { left };
        let found = poll_counted(&mut fds, lookup, left, mask, |c| c.select_stats())?;
        if fds.iter().any(|f| f.revents & libc::POLLNVAL != 0) {
            return Err(Errno::BADF);
        }
        for ((_, seen), entry) in watched.iter_mut().zip(&fds) {
            seen.revents = entry.revents;
        }
        let is_ready = |(_, f): &Watched| {
            let ready = |bits, wanted| f.events & wanted != 0 && f.revents & bits != 0;
            ready(IN_SET, libc::POLLIN) || ready(OUT_SET, libc::POLLOUT) || ready(EX_SET, EX_SET)
        };
        if found == 0 || watched.iter().any(is_ready) {
            let found = &watched;
            return Ok(
                store(read.as_deref_mut(), nfds, found, IN_SET, libc::POLLIN)
                    + store(write.as_deref_mut(), nfds, found, OUT_SET, libc::POLLOUT)
                    + store(except.as_deref_mut(), nfds, found, EX_SET, libc::POLLPRI),
            );
        }
        // poll reports a hang-up or error that select has no set for here: only descriptors
        // watched for something else do that. Without them, the wait goes on.
        for entry in fds.iter_mut().filter(|e| e.revents != 0) {
            entry.fd = -1;
        }
    }
}
