//! What the locks here are made of. `tests/models` puts loom's in its place.

pub(super) use std::hint::spin_loop;
pub(super) use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering, compiler_fence};

/// Statics as they are.
macro_rules! statics {
    ($(static $name:ident: $type:ty = $value:expr;)+) => { $(static $name: $type = $value;)+ };
}
pub(super) use statics;
