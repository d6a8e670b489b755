//! The library's own heap, apart from the program's.
//!
//! A handler that interrupts malloc may make a socket call, and that may allocate: by malloc
//! it would wait for the very thread that it interrupted. All of the library's allocations are
//! made in a [`super::defer::Scope`] or by its own threads, so nothing ever interrupts one here.
//! Held across fork, after everything else.

use super::event::give_way;
use super::raw::thread_pointer;
use dlmalloc::Dlmalloc;
use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// To be the global allocator of the library.
#[derive(Debug)]
pub struct Heap;

struct Locked {
    /// Thread pointer of the holder; 0: free.
    owner: AtomicUsize,
    /// It is held across a fork, and whole: the owner may use it.
    forking: AtomicBool,
    heap: UnsafeCell<Dlmalloc>,
}

// SAFETY: the heap is reached by the owner alone.
unsafe impl Sync for Locked {}

static HEAP: Locked = Locked {
    owner: AtomicUsize::new(0),
    forking: AtomicBool::new(false),
    heap: UnsafeCell::new(Dlmalloc::new()),
};

/// Looks at a taken heap before the core is given away.
const SPINS: u32 = 200;

/// Waits for the heap. False: the thread has it already.
fn take() -> bool {
    let me = thread_pointer();
    let mut spins = 0;
    let mut turns = 0;
    loop {
        match HEAP
            .owner
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        {
            Ok(_) => return true,
            Err(owner) if owner == me => return false,
            Err(_) if spins < SPINS => spins += 1,
            Err(_) => give_way(&mut turns),
        }
        std::hint::spin_loop();
    }
}

/// None: the thread is in the middle of another operation. No handler comes there, except one
/// that nobody can put off; it does without.
fn with<R>(work: impl FnOnce(&mut Dlmalloc) -> R) -> Option<R> {
    let taken = take();
    if !taken && !HEAP.forking.load(Ordering::Relaxed) {
        return None;
    }
    // SAFETY: this thread is the owner, and in no other operation.
    let result = work(unsafe { &mut *HEAP.heap.get() });
    if taken {
        HEAP.owner.store(0, Ordering::Release);
    }
    Some(result)
}

/// Before fork: no other thread is in the heap until [`release`].
pub fn hold() {
    let _ = take();
    HEAP.forking.store(true, Ordering::Relaxed);
}

/// After it, on both sides.
pub fn release() {
    HEAP.forking.store(false, Ordering::Relaxed);
    HEAP.owner.store(0, Ordering::Release);
}

// SAFETY: blocks are Dlmalloc's, as large and as aligned as asked for, and given back to it.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and any power of two.
        with(|heap| unsafe { heap.malloc(layout.size(), layout.align()) }).unwrap_or(null_mut())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        with(|heap| unsafe { heap.calloc(layout.size(), layout.align()) }).unwrap_or(null_mut())
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: a block of this heap, by the caller's promise.
        let _ = with(|heap| unsafe { heap.free(at, layout.size(), layout.align()) });
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        with(|heap| unsafe { heap.realloc(at, layout.size(), layout.align(), size) })
            .unwrap_or(null_mut())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_apart_and_threads_take_turns() {
        std::thread::scope(|s| {
            for mark in 1..5u8 {
                s.spawn(move || {
                    for round in 1..200usize {
                        let layout = Layout::from_size_align(round * 13, 64).unwrap();
                        // SAFETY: not of size 0.
                        let at = unsafe { Heap.alloc_zeroed(layout) };
                        assert!(!at.is_null() && at.addr() % 64 == 0);
                        // SAFETY: a fresh block of this size.
                        let block = unsafe { std::slice::from_raw_parts_mut(at, layout.size()) };
                        assert!(block.iter().all(|b| *b == 0));
                        block.fill(mark);
                        std::thread::yield_now();
                        assert!(block.iter().all(|b| *b == mark));
                        // SAFETY: from above, with its layout.
                        unsafe { Heap.dealloc(at, layout) };
                    }
                });
            }
        });
        hold();
        let layout = Layout::new::<u64>();
        // SAFETY: not of size 0.
        let at = unsafe { Heap.alloc(layout) };
        assert!(!at.is_null(), "who holds it may use it");
        // SAFETY: from above.
        unsafe { Heap.dealloc(at, layout) };
        release();
        // SAFETY: not of size 0.
        let within = with(|_| unsafe { Heap.alloc(layout) }.is_null());
        assert_eq!(within, Some(true), "no operation in the middle of another");
    }
}
