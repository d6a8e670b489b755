//! The stay of a thread inside a library that is not ours: its calls of hooked functions
//! (open, socket, ioctl…) are nobody's but its own.
//!
//! One thread at a time; the shim asks [`inside`] and passes such a thread's calls straight
//! through. errno is put back at the end: a call that the engine handles leaves it alone.
//! For the control plane; rank: below every lock of the engine but those of `sys`.

use super::raw::thread_pointer;
use super::{event, fd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Thread pointer of the one inside; 0: nobody.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// [`fd::forks`] at the time of the last entry: in a forked child the owner may be a
/// thread that does not exist there.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The stay; ends on drop, in the thread that began it.
#[derive(Debug)]
pub struct Foreign {
    errno: i32,
    outermost: bool,
}

/// Begins a stay; waits for another thread's to end. A thread that is inside already stays.
#[must_use]
pub fn enter() -> Foreign {
    let me = thread_pointer();
    let errno = errno();
    if OWNER.load(Ordering::Relaxed) == me {
        return Foreign {
            errno,
            outermost: false,
        };
    }
    let forks = fd::forks();
    if FORKS.swap(forks, Ordering::AcqRel) != forks {
        OWNER.store(0, Ordering::Release);
    }
    while OWNER
        .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        event::yield_now();
    }
    Foreign {
        errno,
        outermost: true,
    }
}

/// As [`enter`]; None: another thread is inside.
#[must_use]
pub fn try_enter() -> Option<Foreign> {
    let me = thread_pointer();
    let errno = errno();
    match OWNER.compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => Some(Foreign {
            errno,
            outermost: true,
        }),
        Err(owner) if owner == me => Some(Foreign {
            errno,
            outermost: false,
        }),
        Err(_) => None,
    }
}

/// For a call that uses nothing that is hooked, or only what passes anyway: errno is kept.
#[must_use]
pub fn brief() -> Foreign {
    Foreign {
        errno: errno(),
        outermost: false,
    }
}

/// True in the thread that is inside. A thread only needs to see its own mark.
#[inline]
#[must_use]
pub fn inside() -> bool {
    OWNER.load(Ordering::Relaxed) == thread_pointer()
}

impl Drop for Foreign {
    fn drop(&mut self) {
        set_errno(self.errno);
        if self.outermost {
            OWNER.store(0, Ordering::Release);
        }
    }
}

/// What the last failed call of a C library left.
#[must_use]
pub fn errno() -> i32 {
    // SAFETY: takes nothing.
    let at = unsafe { libc::__errno_location() };
    // SAFETY: libc's own place for this thread, valid while the thread lives.
    unsafe { at.read() }
}

fn set_errno(value: i32) {
    // SAFETY: takes nothing.
    let at = unsafe { libc::__errno_location() };
    // SAFETY: as in `errno`.
    unsafe { at.write(value) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stay_is_one_threads_and_leaves_errno_alone() {
        set_errno(7);
        let outer = enter();
        let inner = enter();
        assert!(inside());
        set_errno(9);
        std::thread::scope(|s| s.spawn(|| assert!(!inside())).join().unwrap());
        drop(inner);
        assert!(inside(), "the outer stay goes on");
        drop(outer);
        assert_eq!(errno(), 7);
        assert!(!inside());
    }
}
