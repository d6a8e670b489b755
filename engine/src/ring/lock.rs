//! The data path's lock. What it does is VMA_THREAD_MODE:
//!
//! - single: no atomic read-modify-write at all. The lock is biased to the first
//!   thread; a second one revokes the bias for the whole process, once.
//! - spin (default), yield: an owner word taken by compare-and-swap.
//! - mutex: parking_lot's raw mutex in front of the owner word.
//!
//! Rank: a ring's lock before a socket's queue lock; never two of the same rank but
//! by the control plane, which takes rings in ascending order.
//!
//! A signal handler may run while its thread holds a lock: [`Lock::lock`] answers
//! None then, and the caller takes the kernel's path.

use super::sync::{AtomicU8, AtomicU64, AtomicUsize, Ordering, compiler_fence, spin_loop, statics};
use crate::config::ThreadMode;
use crate::sys::mutex::Mutex;
use crate::sys::{event, raw::thread_pointer};
use parking_lot::lock_api::RawMutex as _;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

const SINGLE: u8 = 0;
const SPIN: u8 = 1;
const MUTEX: u8 = 2;
const YIELD: u8 = 3;
/// Single mode, while the control thread is inside ([`visit`]).
const VISIT: u8 = 4;

statics! {
    static MODE: AtomicU8 = AtomicU8::new(SPIN);
    // The thread that may skip atomics in single mode; 0 until the first lock.
    static BIASED_TO: AtomicUsize = AtomicUsize::new(0);
    static VISITOR: AtomicUsize = AtomicUsize::new(0);
    static SWITCHES: AtomicU64 = AtomicU64::new(0);
    static REVOKING: Mutex<()> = Mutex::new(());
}

/// Sets the mode once, before any lock is used.
pub fn set_mode(wanted: ThreadMode) {
    let mode = match wanted {
        // Without membarrier the bias could not be taken back safely.
        ThreadMode::Single if event::register_heavy_barrier() => SINGLE,
        ThreadMode::Single | ThreadMode::Spin => SPIN,
        ThreadMode::Mutex => MUTEX,
        ThreadMode::Yield => YIELD,
    };
    MODE.store(mode, Ordering::SeqCst);
}

/// The mode in force.
#[must_use]
pub fn mode() -> ThreadMode {
    match MODE.load(Ordering::Relaxed) {
        SINGLE | VISIT => ThreadMode::Single,
        MUTEX => ThreadMode::Mutex,
        YIELD => ThreadMode::Yield,
        _ => ThreadMode::Spin,
    }
}

/// Only one thread of the program uses the data path.
#[inline]
#[must_use]
pub fn is_single() -> bool {
    MODE.load(Ordering::Relaxed) == SINGLE
}

/// How often single mode was left because a second thread came.
#[must_use]
pub fn switches() -> u64 {
    SWITCHES.load(Ordering::Relaxed)
}

/// In a forked child, before it leaves any lock: threads that slept on one in the parent are in
/// the table of parking_lot still, so no mutex is used any more. A bias is the one thread's.
pub fn renew_in_child() {
    let _ = MODE.compare_exchange(MUTEX, YIELD, Ordering::SeqCst, Ordering::SeqCst);
    let single = MODE.compare_exchange(VISIT, SINGLE, Ordering::SeqCst, Ordering::SeqCst);
    if single.is_ok() || MODE.load(Ordering::SeqCst) == SINGLE {
        BIASED_TO.store(thread_pointer(), Ordering::SeqCst);
    }
}

/// During a visit: a thread that is neither the biased one nor the visitor ends single mode.
#[cold]
fn stranger(me: usize) {
    if me != VISITOR.load(Ordering::SeqCst) && me != BIASED_TO.load(Ordering::SeqCst) {
        revoke();
    }
}

#[cold]
fn revoke() {
    let _one = REVOKING.lock();
    if matches!(MODE.load(Ordering::SeqCst), SINGLE | VISIT) {
        MODE.store(SPIN, Ordering::SeqCst);
        // After this every thread sees the new mode before it enters a lock again,
        // and we see the `biased` word of whoever is inside one.
        let _ = event::heavy_barrier();
        SWITCHES.fetch_add(1, Ordering::Relaxed);
    }
}

/// The control thread's stay in the data path: single mode gives way to the owner word
/// for as long, and comes back unless a second application thread appeared.
#[derive(Debug)]
pub struct Visit(());

/// Begins a stay. Only the control thread may.
#[must_use]
pub fn visit() -> Visit {
    let _one = REVOKING.lock();
    if MODE.load(Ordering::SeqCst) == SINGLE {
        VISITOR.store(thread_pointer(), Ordering::SeqCst);
        MODE.store(VISIT, Ordering::SeqCst);
        let _ = event::heavy_barrier();
    }
    Visit(())
}

impl Drop for Visit {
    fn drop(&mut self) {
        let _one = REVOKING.lock();
        let _ = MODE.compare_exchange(VISIT, SINGLE, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// A value behind the data path's lock.
pub struct Lock<T> {
    /// Thread pointer of the holder, 0 when free (spin, yield, mutex).
    owner: AtomicUsize,
    /// Thread pointer of the biased holder, 0 when it is outside (single).
    biased: AtomicUsize,
    /// How it is held across fork: a [`Held`].
    held: AtomicU8,
    mutex: parking_lot::RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only by the holder, one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: Send> Send for Lock<T> {}

impl<T> std::fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// How a guard came in, and so how it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Held {
    /// By the owner word.
    Owned = 0,
    /// By the owner word behind the mutex.
    Mutexed = 1,
    /// By bias.
    Biased = 2,
}

enum Entered {
    Biased,
    Owned,
    Refused,
}

impl<T> Lock<T> {
    /// A free lock.
    pub fn new(value: T) -> Self {
        Self {
            owner: AtomicUsize::new(0),
            biased: AtomicUsize::new(0),
            held: AtomicU8::new(Held::Owned as u8),
            mutex: parking_lot::RawMutex::INIT,
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock; None when this very thread holds it (a signal handler).
    #[inline]
    pub fn lock(&self) -> Option<Guard<'_, T>> {
        let me = thread_pointer();
        // The default mode's way in, short enough to be inlined.
        if MODE.load(Ordering::Relaxed) == SPIN && self.take_free(me) {
            return Some(self.guard(Held::Owned));
        }
        self.lock_slow(me)
    }

    #[inline(never)]
    fn lock_slow(&self, me: usize) -> Option<Guard<'_, T>> {
        match self.enter_biased(me) {
            Entered::Biased => Some(self.guard(Held::Biased)),
            Entered::Refused => None,
            Entered::Owned => self.enter_owned(me),
        }
    }

    #[inline]
    fn guard(&self, held: Held) -> Guard<'_, T> {
        Guard { lock: self, held }
    }

    /// Takes the owner word if nobody is inside in any way.
    #[inline(always)]
    fn take_free(&self, me: usize) -> bool {
        let free = self
            .owner
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed);
        if free.is_err() {
            return false;
        }
        if self.biased.load(Ordering::Acquire) == 0 {
            return true;
        }
        self.owner.store(0, Ordering::Release);
        false
    }

    /// Holds the lock across fork, so that the child finds the value whole. False: it is not
    /// free.
    #[must_use]
    pub fn hold_for_fork(&self) -> bool {
        let Some(guard) = self.try_lock() else {
            return false;
        };
        guard.hold_for_fork();
        true
    }

    /// Ends a successful [`Self::hold_for_fork`], in the parent and in the child.
    pub fn release_after_fork(&self) {
        let held = match self.held.load(Ordering::Relaxed) {
            0 => Held::Owned,
            1 => Held::Mutexed,
            _ => Held::Biased,
        };
        drop(self.guard(held));
    }

    /// Takes the lock if it is free.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let me = thread_pointer();
        if MODE.load(Ordering::Relaxed) == SPIN {
            return self.take_free(me).then(|| self.guard(Held::Owned));
        }
        self.try_lock_slow(me)
    }

    #[inline(never)]
    fn try_lock_slow(&self, me: usize) -> Option<Guard<'_, T>> {
        match self.enter_biased(me) {
            Entered::Biased => return Some(self.guard(Held::Biased)),
            Entered::Refused => return None,
            Entered::Owned => {}
        }
        if MODE.load(Ordering::Relaxed) != MUTEX {
            return self.take_free(me).then(|| self.guard(Held::Owned));
        }
        if !self.mutex.try_lock() {
            return None;
        }
        if self.take_free(me) {
            return Some(self.guard(Held::Mutexed));
        }
        // SAFETY: taken above by this thread.
        unsafe { self.mutex.unlock() };
        None
    }

    /// `Owned` means: not biased, go on with the owner word.
    #[inline]
    fn enter_biased(&self, me: usize) -> Entered {
        let mode = MODE.load(Ordering::Relaxed);
        if mode != SINGLE {
            if mode == VISIT {
                stranger(me);
            }
            return Entered::Owned;
        }
        let owner = BIASED_TO.load(Ordering::Relaxed);
        if owner != me {
            let first = BIASED_TO.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed);
            if owner != 0 || first.is_err() {
                revoke();
                return Entered::Owned;
            }
        }
        // By bias, or since a visit by the owner word.
        if self.biased.load(Ordering::Relaxed) != 0 || self.owner.load(Ordering::Relaxed) == me {
            return Entered::Refused;
        }
        self.biased.store(me, Ordering::Relaxed);
        // Pairs with the heavy barrier in `revoke`: no instruction is needed here.
        compiler_fence(Ordering::SeqCst);
        // Acquire: what a visitor wrote that has left since the first look.
        if MODE.load(Ordering::Acquire) == SINGLE {
            return Entered::Biased;
        }
        self.biased.store(0, Ordering::Release);
        Entered::Owned
    }

    #[inline]
    fn enter_owned(&self, me: usize) -> Option<Guard<'_, T>> {
        let mode = MODE.load(Ordering::Relaxed);
        let inside = |word: &AtomicUsize| word.load(Ordering::Relaxed) == me;
        if inside(&self.owner) || inside(&self.biased) {
            return None;
        }
        if mode == MUTEX {
            self.mutex.lock();
        }
        if self
            .owner
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.wait(me, mode);
        }
        // Whoever was inside by bias when the bias was revoked leaves soon.
        while self.biased.load(Ordering::Acquire) != 0 {
            spin_loop();
        }
        Some(self.guard(if mode == MUTEX {
            Held::Mutexed
        } else {
            Held::Owned
        }))
    }

    #[cold]
    fn wait(&self, me: usize, mode: u8) {
        let patience = if mode == YIELD { 16 } else { 512 };
        let mut turns = 0u32;
        loop {
            if self.owner.load(Ordering::Relaxed) == 0
                && self
                    .owner
                    .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
            turns += 1;
            if turns.is_multiple_of(patience) {
                // The holder may wait for this very core.
                event::yield_now();
            } else {
                spin_loop();
            }
        }
    }

    /// Leaves in any other way than by the owner word alone.
    #[inline(never)]
    fn leave_slow(&self, held: Held) {
        if held == Held::Biased {
            self.biased.store(0, Ordering::Release);
            return;
        }
        self.owner.store(0, Ordering::Release);
        if held == Held::Mutexed && MODE.load(Ordering::Relaxed) == MUTEX {
            // SAFETY: a guard of this kind is made only with the mutex taken by this
            // thread, and is dropped once.
            unsafe { self.mutex.unlock() };
        }
    }
}

/// The right to use the value; gives it back on drop.
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
    held: Held,
}

impl<T> Guard<'_, T> {
    /// Keeps the lock until [`Lock::release_after_fork`].
    pub fn hold_for_fork(self) {
        self.lock.held.store(self.held as u8, Ordering::Relaxed);
        let _ = std::mem::ManuallyDrop::new(self);
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the proof that this thread alone is inside.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in deref, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.held == Held::Owned {
            self.lock.owner.store(0, Ordering::Release);
        } else {
            self.lock.leave_slow(self.held);
        }
    }
}

// By its path, for `tests/models` has this file at another place.
#[cfg(test)]
#[path = "lock/tests.rs"]
mod tests;
