//! libibverbs: everything of it that is not memory-safe, behind owners that are.
//!
//! Who owns what, and so in which order things go: a rule holds its queue pair, a queue
//! pair its memory, its completion queues and its domain, these the context. Control calls
//! are made inside [`crate::sys::foreign`], for the library calls functions that are hooked.
//! Posting and polling are not: they make no system call.
//!
//! Sources: rdma-core's `<infiniband/verbs.h>` and its man pages.

pub mod abi;
mod cq;
mod device;
mod library;
mod memory;
mod qp;
mod rx;
mod tx;
mod watch;

pub use cq::{CompletionQueue, CqOptions};
pub use device::{
    AsyncEvent, Context, DeviceLimits, DeviceList, DeviceName, Domain, PortInfo, list,
};
pub use library::{Library, library};
pub use memory::Region;
pub use qp::{Memory, QpSizes, QueuePair, Rule, RuleSpec, UdpSpec};
pub use rx::{Arrived, RxRing, RxShape, RxTrouble};
pub use tx::{TxRing, TxShape};
pub use watch::EventWatch;
