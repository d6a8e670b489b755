//! The flow table of a card: which queues a frame goes to, and whether the kernel gets it too.
//!
//! Pure: a frame and a table give a list of queues. Both wires use the same layout, one in a
//! map of the kernel's (where a program walks it), one in shared memory.
//!
//! Source: what `drivers/infiniband/hw/mlx5/fs.c` does with `ibv_create_flow`:
//! - a lower priority number is looked at first, and within one number the `DONT_TRAP` rules
//!   come before the ordinary ones;
//! - an ordinary rule whose Ethernet specification is multicast goes, whatever its priority,
//!   to one place after all the others. So it does not hide a `DONT_TRAP` rule of a
//!   greater number: a frame that both match is delivered by both;
//! - rules of one place with the same values and masks form one entry with several
//!   destinations: each queue gets one copy, however often it is named;
//! - of different entries of one place that match a frame, one alone applies. Which one a card
//!   takes is not documented; here the entry that was made first;
//! - after an ordinary entry nothing further is looked at, and the kernel gets nothing;
//! - what no ordinary entry took goes to the kernel. Ports are looked at in datagrams that
//!   are not fragmented: every piece of a fragmented one is the kernel's.

mod key;
mod table;

pub use key::{Key, Pattern};
pub use table::{Entry, Full, Table, Verdict, walk};
