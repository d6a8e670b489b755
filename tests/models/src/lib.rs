//! The engine's lock as loom sees it: `engine/src/ring/lock.rs` itself, with what is around
//! it replaced by loom's. `tests/` holds the models.
#![allow(
    unsafe_code,
    missing_docs,
    dead_code,
    reason = "the engine's source, and stand-ins for what it uses"
)]

pub mod config {
    pub use engine::config::ThreadMode;
}

pub mod ring;

pub mod sys {
    pub mod event {
        use loom::sync::atomic::{Ordering, fence};

        pub fn register_heavy_barrier() -> bool {
            true
        }

        /// membarrier(2): a fence here, and one in every thread where the lock has a
        /// `compiler_fence`; see [`crate::ring`].
        pub fn heavy_barrier() -> bool {
            fence(Ordering::SeqCst);
            true
        }

        pub fn yield_now() {
            loom::thread::yield_now();
        }
    }

    pub mod raw {
        use std::sync::atomic::{AtomicUsize, Ordering};

        static NEXT: AtomicUsize = AtomicUsize::new(1);

        loom::thread_local! {
            static SELF: usize = NEXT.fetch_add(1, Ordering::Relaxed);
        }

        /// loom's threads share one of the system's.
        pub fn thread_pointer() -> usize {
            SELF.with(|number| *number)
        }
    }

    pub mod mutex {
        #[derive(Debug)]
        pub struct Mutex<T>(loom::sync::Mutex<T>);

        impl<T> Mutex<T> {
            pub fn new(value: T) -> Self {
                Self(loom::sync::Mutex::new(value))
            }

            pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
                self.0.lock().expect("nobody panics inside")
            }
        }
    }
}
