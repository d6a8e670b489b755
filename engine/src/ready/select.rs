//! select(2) and pselect(2), by way of poll: the kernel's own equivalence
//! (`fs/select.c`, POLLIN_SET, POLLOUT_SET, POLLEX_SET).

use super::poll::poll_counted;
use super::{Lookup, Timeout};
use crate::error::Errno;

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

/// Replaces a set by what is ready; the number of bits.
fn store(
    set: Option<&mut [u64]>,
    nfds: usize,
    fds: &[libc::pollfd],
    bits: i16,
    wanted: i16,
) -> usize {
    let Some(set) = set else { return 0 };
    let mut count = 0;
    for fd in 0..nfds {
        if let Some(word) = set.get_mut(fd / 64)
            && *word >> (fd % 64) & 1 != 0
        {
            let entry = fds.iter().find(|e| e.fd == fd as i32);
            let ready = entry.is_some_and(|e| e.events & wanted != 0 && e.revents & bits != 0);
            if ready {
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
    let mut fds = Vec::new();
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
    let mut ignore_hangups = timeout;
    loop {
        let found = poll_counted(&mut fds, lookup, ignore_hangups, mask, |c| c.select_stats())?;
        if fds.iter().any(|f| f.revents & libc::POLLNVAL != 0) {
            return Err(Errno::BADF);
        }
        let count = store(read.as_deref_mut(), nfds, &fds, IN_SET, libc::POLLIN)
            + store(write.as_deref_mut(), nfds, &fds, OUT_SET, libc::POLLOUT)
            + store(except.as_deref_mut(), nfds, &fds, EX_SET, libc::POLLPRI);
        if count > 0 || found == 0 {
            return Ok(count);
        }
        // poll reports a hang-up or error that select has no set for here: only descriptors
        // watched for something else do that. Drop them and ask again without waiting.
        for entry in fds.iter_mut().filter(|e| e.revents != 0) {
            entry.fd = -1;
        }
        ignore_hangups = Some(0);
    }
}
