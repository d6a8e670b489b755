//! In place of `engine/src/ring/sync.rs`.

pub(super) use loom::hint::spin_loop;
pub(super) use loom::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// With membarrier(2) on the other side it is what a full fence would be.
pub(super) fn compiler_fence(order: Ordering) {
    loom::sync::atomic::fence(order);
}

/// loom's objects live as long as one execution.
macro_rules! statics {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = $value:expr;)+) => {
        loom::lazy_static! { $(static ref $name: $type = $value;)+ }
    };
}
pub(super) use statics;
