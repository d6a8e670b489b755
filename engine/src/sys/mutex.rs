//! The control plane's locks, which fork(2) can live with.
//!
//! A child has one thread. A lock that another one held in the parent would stay locked in it
//! for ever, what it guards half changed, and one with sleepers in a table of the process's
//! (parking_lot) would wake the dead. So these are a word each, and before a fork
//! [`quiesce`] lets nobody begin with a lock and waits until nobody has one: the child finds
//! all of them free and whole. Not for the data path: see the layer `ring`.
//!
//! Source: futex(2); Drepper, "Futexes are tricky", mutex2.

use super::defer;
use super::event::give_way;
use super::raw::{syscall6, thread_pointer};
use crate::clock::{self, Nanos};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Thread pointer of the one that forks; 0: nobody does.
static GATE: AtomicUsize = AtomicUsize::new(0);
/// Threads that hold a lock or wait for one.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// Threads that wait until the gate is open.
static OUTSIDE: AtomicU32 = AtomicU32::new(0);

/// Looks at a taken lock before its waiter sleeps.
const TURNS: u32 = 100;

/// Waits until no fork is under way, unless the thread has a lock already.
fn begin() {
    let held = &defer::thread().mutexes;
    let count = held.load(Ordering::Relaxed);
    held.store(count + 1, Ordering::Relaxed);
    if count != 0 {
        return;
    }
    let me = thread_pointer();
    let open = || matches!(GATE.load(Ordering::SeqCst), gate if gate == 0 || gate == me);
    let enter = || {
        if open() {
            INSIDE.fetch_add(1, Ordering::SeqCst);
            // Pairs with `quiesce`: the gate first, the count then.
            if open() {
                return true;
            }
            INSIDE.fetch_sub(1, Ordering::SeqCst);
        }
        false
    };
    if !enter() {
        OUTSIDE.fetch_add(1, Ordering::SeqCst);
        let mut turns = 0;
        while !enter() {
            give_way(&mut turns);
        }
        OUTSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

fn end() {
    let held = &defer::thread().mutexes;
    let count = held.load(Ordering::Relaxed) - 1;
    held.store(count, Ordering::Relaxed);
    if count == 0 {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Nobody else holds a lock until this ends.
#[derive(Debug)]
pub struct Quiet {
    outermost: bool,
}

/// How long it is waited behind a closed gate. Whoever has a lock may wait for one of the data
/// path, and who has that may wait at the gate: then all go on for a while. But who has a lock
/// may also be long about it, so it is longer each time.
const PATIENCE: Nanos = 2_000_000;
/// How long those who waited at the gate have to come in. They take far less.
const OPEN: Nanos = 100_000_000;

/// Waits until the count is 0; false: not within the time.
fn until_none(count: &AtomicU32, time: Nanos) -> bool {
    let end = clock::monotonic() + time;
    let mut turns = 0;
    loop {
        if count.load(Ordering::SeqCst) == 0 {
            return true;
        }
        if clock::monotonic() > end {
            return false;
        }
        give_way(&mut turns);
    }
}

/// Before a fork. The calling thread holds no lock.
#[must_use]
pub fn quiesce() -> Quiet {
    let me = thread_pointer();
    let mut patience = PATIENCE;
    let mut turns = 0;
    loop {
        match GATE.compare_exchange(0, me, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => {
                if until_none(&INSIDE, patience) {
                    return Quiet { outermost: true };
                }
                patience = patience.saturating_mul(2);
                GATE.store(0, Ordering::SeqCst);
                let _ = until_none(&OUTSIDE, OPEN);
            }
            Err(owner) if owner == me => return Quiet { outermost: false },
            Err(_) => give_way(&mut turns),
        }
    }
}

impl Quiet {
    /// In the child: whoever was on the way in is not there. The calling thread holds no lock.
    pub fn end_in_child(self) {
        debug_assert_eq!(defer::thread().mutexes.load(Ordering::Relaxed), 0);
        INSIDE.store(0, Ordering::SeqCst);
        OUTSIDE.store(0, Ordering::SeqCst);
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if self.outermost {
            GATE.store(0, Ordering::SeqCst);
        }
    }
}

fn futex(word: &AtomicU32, operation: i32, value: u32) {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    let args = [
        word.as_ptr().addr(),
        operation as usize,
        value as usize,
        0,
        0,
        0,
    ];
    // SAFETY: a word that lives as long as the borrow; no time-out.
    let _ = unsafe { syscall6(libc::SYS_futex, args) };
}

/// A value that one thread at a time has.
pub struct Mutex<T: ?Sized> {
    /// 0 free, 1 taken, 2 taken and perhaps waited for.
    state: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached by the holder alone.
unsafe impl<T: Send + ?Sized> Sync for Mutex<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: Send + ?Sized> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// A free one.
    pub const fn new(value: T) -> Self {
        Self {
            state: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for it. The thread must not have it already.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        begin();
        if !self.take() {
            self.wait();
        }
        MutexGuard::new(self)
    }

    /// Takes it if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        begin();
        if self.take() {
            return Some(MutexGuard::new(self));
        }
        end();
        None
    }

    fn take(&self) -> bool {
        let free = self
            .state
            .compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        free.is_ok()
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..TURNS {
            if self.state.load(Ordering::Relaxed) == 0 && self.take() {
                return;
            }
            std::hint::spin_loop();
        }
        while self.state.swap(2, Ordering::Acquire) != 0 {
            futex(&self.state, libc::FUTEX_WAIT, 2);
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// Keeps a guard in its thread, which counts it.
type OneThread = PhantomData<*const ()>;

/// The right to use a mutex's value.
#[derive(Debug)]
pub struct MutexGuard<'a, T> {
    lock: &'a Mutex<T>,
    _thread: OneThread,
}

impl<'a, T> MutexGuard<'a, T> {
    fn new(lock: &'a Mutex<T>) -> Self {
        Self {
            lock,
            _thread: PhantomData,
        }
    }
}

// SAFETY: by a borrowed guard the value is only read.
unsafe impl<T: Sync> Sync for MutexGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for ReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for WriteGuard<'_, T> {}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard is the proof that this thread alone is inside.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in deref, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.lock.state.swap(0, Ordering::Release) == 2 {
            futex(&self.lock.state, libc::FUTEX_WAKE, 1);
        }
        end();
    }
}

/// A value that many threads may read, or one write.
pub struct RwLock<T> {
    /// Readers, or [`WRITER`].
    state: AtomicU32,
    waiting: AtomicU32,
    value: UnsafeCell<T>,
}

const WRITER: u32 = u32::MAX;

// SAFETY: readers share the value, a writer is alone.
unsafe impl<T: Send + Sync> Sync for RwLock<T> {}
// SAFETY: owning the lock is owning the value.
unsafe impl<T: Send> Send for RwLock<T> {}

impl<T> RwLock<T> {
    /// A free one.
    pub const fn new(value: T) -> Self {
        Self {
            state: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until nobody writes.
    pub fn read(&self) -> ReadGuard<'_, T> {
        self.enter(|now| (now != WRITER).then(|| now + 1));
        ReadGuard {
            lock: self,
            _thread: PhantomData,
        }
    }

    /// Waits until nobody else uses it.
    pub fn write(&self) -> WriteGuard<'_, T> {
        self.enter(|now| (now == 0).then_some(WRITER));
        WriteGuard {
            lock: self,
            _thread: PhantomData,
        }
    }

    fn enter(&self, next: impl Fn(u32) -> Option<u32>) {
        begin();
        loop {
            let now = self.state.load(Ordering::Relaxed);
            if let Some(next) = next(now) {
                let taken =
                    self.state
                        .compare_exchange(now, next, Ordering::SeqCst, Ordering::Relaxed);
                if taken.is_ok() {
                    return;
                }
                continue;
            }
            self.waiting.fetch_add(1, Ordering::SeqCst);
            futex(&self.state, libc::FUTEX_WAIT, now);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn leave(&self) {
        let free = match self.state.load(Ordering::Relaxed) {
            WRITER => {
                self.state.store(0, Ordering::SeqCst);
                true
            }
            _ => self.state.fetch_sub(1, Ordering::SeqCst) == 1,
        };
        if free && self.waiting.load(Ordering::SeqCst) != 0 {
            futex(&self.state, libc::FUTEX_WAKE, i32::MAX.cast_unsigned());
        }
        end();
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").finish_non_exhaustive()
    }
}

/// The right to read.
#[derive(Debug)]
pub struct ReadGuard<'a, T> {
    lock: &'a RwLock<T>,
    _thread: OneThread,
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: no writer while a reader is counted.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.leave();
    }
}

/// The right to write.
#[derive(Debug)]
pub struct WriteGuard<'a, T> {
    lock: &'a RwLock<T>,
    _thread: OneThread,
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the writer is alone.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in deref, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::event::yield_now;
    use std::time::{Duration, Instant};

    /// Ambiguous, and so no build, if a guard could go to another thread.
    const _: () = {
        trait Stays<Marker> {
            fn stays() {}
        }
        impl<T> Stays<()> for T {}
        struct Sent;
        impl<T: Send> Stays<Sent> for T {}
        let _ = <MutexGuard<'static, ()> as Stays<_>>::stays;
        let _ = <ReadGuard<'static, ()> as Stays<_>>::stays;
        let _ = <WriteGuard<'static, ()> as Stays<_>>::stays;
    };

    /// Some are always inside, and long: a fork has its turn all the same.
    #[test]
    fn a_fork_is_not_kept_out() {
        static DONE: AtomicU32 = AtomicU32::new(0);
        let end = Instant::now() + Duration::from_secs(3);
        std::thread::scope(|s| {
            for more in 0..8 {
                s.spawn(move || {
                    let lock = Mutex::new(());
                    while DONE.load(Ordering::SeqCst) == 0 && Instant::now() < end {
                        let held = lock.lock();
                        std::thread::sleep(Duration::from_millis(40 + 7 * more));
                        drop(held);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(20));
            drop(quiesce());
            assert!(Instant::now() < end);
            DONE.store(1, Ordering::SeqCst);
        });
    }

    /// One holds a mutex and waits for a lock of the data path, whose holder waits at the gate.
    #[test]
    fn a_fork_does_not_stand_between_two_threads() {
        static OUTER: Mutex<()> = Mutex::new(());
        static INNER: Mutex<()> = Mutex::new(());
        // It stands for a ring's: one that is not counted here.
        static DATA: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let ready = std::sync::Barrier::new(3);
        std::thread::scope(|s| {
            s.spawn(|| {
                let data = DATA.lock().unwrap();
                ready.wait();
                while GATE.load(Ordering::SeqCst) == 0 {
                    yield_now();
                }
                drop(INNER.lock());
                drop(data);
            });
            s.spawn(|| {
                let outer = OUTER.lock();
                ready.wait();
                drop(DATA.lock().unwrap());
                drop(outer);
            });
            ready.wait();
            drop(quiesce());
        });
    }

    #[test]
    fn every_thread_has_its_turn_and_a_fork_finds_nobody_inside() {
        static COUNT: Mutex<(u64, u64)> = Mutex::new((0, 0));
        static TABLE: RwLock<(u64, u64)> = RwLock::new((0, 0));
        std::thread::scope(|s| {
            for writes in [true, true, false, false] {
                s.spawn(move || {
                    for _ in 0..5000 {
                        let mut both = COUNT.lock();
                        both.0 += 1;
                        if writes {
                            let mut table = TABLE.write();
                            table.0 += 1;
                            table.1 += 1;
                        } else {
                            let table = TABLE.read();
                            assert_eq!(table.0, table.1);
                        }
                        both.1 += 1;
                    }
                });
            }
            for _ in 0..200 {
                let quiet = quiesce();
                assert_eq!(COUNT.state.load(Ordering::SeqCst), 0);
                assert_eq!(TABLE.state.load(Ordering::SeqCst), 0);
                let both = COUNT.lock();
                assert_eq!(both.0, both.1);
                drop(both);
                drop(quiet);
            }
        });
        assert_eq!(*COUNT.lock(), (20_000, 20_000));
        assert!(COUNT.try_lock().is_some());
        let held = COUNT.lock();
        std::thread::scope(|s| {
            s.spawn(|| assert!(COUNT.try_lock().is_none()))
                .join()
                .unwrap()
        });
        drop(held);
    }
}
