//! The lock's source, beside a `sync` of loom's.

#[path = "../../../../engine/src/ring/lock.rs"]
mod lock;
mod sync;

pub use lock::{Guard, Lock, Visit, is_single, mode, renew_in_child, set_mode, switches, visit};
