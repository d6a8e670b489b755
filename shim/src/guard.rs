//! Who is running, application or library: the thread that starts the engine (or calls
//! into a foreign library for it) has its own calls passed straight through.
//!
//! A second mark is the engine's own, for its stays in libibverbs at any later time.
//!
//! One thread at a time can be inside. It is known by its thread pointer, so asking
//! costs two loads and needs no thread-local storage.

use engine::sys::foreign;
use engine::sys::raw::thread_pointer;
use std::sync::atomic::{AtomicUsize, Ordering};

static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// The calling thread is inside until this is dropped.
#[derive(Debug)]
pub(crate) struct Inside(usize);

/// Marks the calling thread. Only the thread that owns the start-up step may call this.
pub(crate) fn enter() -> Inside {
    Inside(INSIDE.swap(thread_pointer(), Ordering::Relaxed))
}

/// True in the marked thread. A thread only needs to see its own mark, hence Relaxed.
pub(crate) fn inside() -> bool {
    INSIDE.load(Ordering::Relaxed) == thread_pointer() || foreign::inside()
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.store(self.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_marked_thread_is_inside() {
        assert!(!inside());
        let mark = enter();
        assert!(inside());
        std::thread::scope(|s| s.spawn(|| assert!(!inside())).join().unwrap());
        drop(mark);
        assert!(!inside());
    }
}
