//! What threads share on the data path: the lock that follows VMA_THREAD_MODE, and
//! the queue of received datagrams.
#![allow(
    unsafe_code,
    reason = "the lock guards its value through an UnsafeCell"
)]

mod lock;
mod queue;
mod spin;
mod sync;

pub use lock::{Guard, Lock, Visit, is_single, mode, renew_in_child, set_mode, switches, visit};
pub use queue::{Queue, Record};
pub use spin::{Limit, Patience, Spin, Turn, forget_spinners, set_yield};
