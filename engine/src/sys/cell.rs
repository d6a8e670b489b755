//! Three numbers per socket that a process and its forked children share.
//!
//! The second counts the datagrams that were queued at the time of a fork and have been
//! taken since, by whichever side. The first says since when (CLOCK_REALTIME, ns) the socket's datagrams are the kernel's
//! again; 0 while they are the engine's. Whoever takes the filter off the kernel socket
//! stores the time, and the process that polls skips everything younger. It is odd once a
//! forked child has used the socket: then it is the kernel's for good.
//! The third is the process whose device keeps the socket's datagrams from the kernel; 0: none.

use super::event;
use super::raw::syscall6;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const CELLS: usize = 1024;
/// Bytes of one.
const SIZE: usize = 32;
/// How long a child waits for its parent's device at the most, and between two looks, ns.
const PATIENCE: u64 = 100_000_000;
const LOOK_EVERY: u64 = 50_000;
/// The kernel's since before any datagram.
const NEVER: u64 = 2;
const BY_CHILD: u64 = 1;

/// The shared page; made at the first use, never unmapped.
static BASE: AtomicUsize = AtomicUsize::new(0);
static GENERATION: AtomicUsize = AtomicUsize::new(0);
static USED: [AtomicU64; CELLS / 64] = [const { AtomicU64::new(0) }; CELLS / 64];

/// In a forked child: new cells come from a page of its own; those of the parent's
/// sockets stay shared with it.
pub fn renew_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    BASE.store(0, Ordering::Release);
    for bits in &USED {
        bits.store(0, Ordering::Relaxed);
    }
}

/// A cell; goes back to the pool on drop.
#[derive(Debug)]
pub struct Cell {
    index: Option<usize>,
    generation: usize,
    word: &'static AtomicU64,
    claimed: &'static AtomicU64,
    steering: &'static AtomicU64,
}

fn base() -> Option<usize> {
    let have = BASE.load(Ordering::Acquire);
    if have != 0 {
        return Some(have);
    }
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping; nothing is unmapped or replaced.
    let made = unsafe {
        syscall6(
            libc::SYS_mmap,
            [
                0,
                CELLS * SIZE,
                prot as usize,
                flags as usize,
                usize::MAX,
                0,
            ],
        )
    }
    .ok()?;
    match BASE.compare_exchange(0, made, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(made),
        Err(other) => Some(other),
    }
}

impl Cell {
    /// A cell of a socket that has never been the engine's. Where the shared page is full it is private: see [`Cell::shared`].
    #[must_use]
    pub fn new() -> Self {
        let generation = GENERATION.load(Ordering::Relaxed);
        let free = USED.iter().enumerate().find_map(|(i, bits)| {
            let set = bits.load(Ordering::Relaxed);
            let bit = (!set).trailing_zeros();
            (bit < 64
                && bits
                    .compare_exchange(set, set | 1 << bit, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok())
            .then_some(i * 64 + bit as usize)
        });
        if let (Some(index), Some(base)) = (free, base()) {
            // SAFETY: index < CELLS, so the word is inside the mapping, aligned, and
            // lives as long as the process.
            let word = unsafe { AtomicU64::from_ptr((base + index * SIZE) as *mut u64) };
            // SAFETY: as above; the second word of the cell.
            let claimed = unsafe { AtomicU64::from_ptr((base + index * SIZE + 8) as *mut u64) };
            // SAFETY: as above; the third word of the cell.
            let steering = unsafe { AtomicU64::from_ptr((base + index * SIZE + 16) as *mut u64) };
            steering.store(0, Ordering::Release);
            word.store(NEVER, Ordering::Release);
            return Self {
                index: Some(index),
                generation,
                word,
                claimed,
                steering,
            };
        }
        Self {
            index: None,
            generation,
            word: Box::leak(Box::new(AtomicU64::new(NEVER))),
            claimed: Box::leak(Box::new(AtomicU64::new(0))),
            steering: Box::leak(Box::new(AtomicU64::new(0))),
        }
    }

    /// This process' device keeps the socket's datagrams from the kernel from now on, or no more.
    pub fn set_steered(&self, steered: bool) {
        let process = if steered { event::process_id() } else { 0 };
        self.steering.store(u64::from(process), Ordering::Release);
    }

    /// Waits until no device of another process does, while that lives.
    #[cold]
    pub fn await_unsteered(&self) {
        for _ in 0..PATIENCE / LOOK_EVERY {
            let process = self.steering.load(Ordering::Acquire);
            if process == 0 || !event::is_alive(process) {
                return;
            }
            let _ = event::ppoll(&mut [], Some(LOOK_EVERY), None);
        }
    }

    /// Whether forked children see it.
    #[must_use]
    pub fn shared(&self) -> bool {
        self.index.is_some()
    }

    /// The value.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.word.load(Ordering::Acquire)
    }

    /// Begins to count at `first`: datagrams from there on are shared.
    pub fn share_from(&self, first: u64) {
        self.claimed.store(first, Ordering::Release);
    }

    /// The first shared datagram that nobody has taken.
    #[must_use]
    pub fn unclaimed(&self) -> u64 {
        self.claimed.load(Ordering::Acquire)
    }

    /// Takes datagram `number` for this process; false: another one has it.
    #[must_use]
    pub fn claim(&self, number: u64) -> bool {
        let next = number + 1;
        self.claimed
            .compare_exchange(number, next, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// The engine's from now on.
    pub fn begin(&self) {
        self.word.store(0, Ordering::Release);
    }

    /// The kernel's since `now`, if it has not been already; true: it had not.
    pub fn end(&self, now: u64) -> bool {
        let new = now & !BY_CHILD;
        let old = self
            .word
            .compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire);
        old.is_ok()
    }

    /// A forked child uses the socket.
    pub fn end_for_good(&self) {
        self.word.fetch_or(BY_CHILD, Ordering::AcqRel);
    }

    /// [`Self::end_for_good`] was called.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.get() & BY_CHILD != 0
    }
}

impl Default for Cell {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        if let Some(index) = self.index
            && self.generation == GENERATION.load(Ordering::Relaxed)
        {
            USED[index / 64].fetch_and(!(1 << (index % 64)), Ordering::AcqRel);
        }
    }
}
