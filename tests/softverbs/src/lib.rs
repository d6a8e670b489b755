//! **This is software: a test double of `libibverbs.so.1`, not a driver.** It exports the public
//! verbs interface (the structures and symbols of rdma-core 44's `<infiniband/verbs.h>`) and
//! plays a card with raw-packet queue pairs and flow rules, so that the engine's verbs device
//! can be tested on machines that have none.
//!
//! What it verifies: that a caller keeps the rules of the interface. Every precondition that the
//! library, the kernel or the card checks is checked here and fails the same way; with
//! `SOFTVERBS_STRICT=abort` the process ends with one message that names the rule. It verifies
//! that frames, flow rules, completions, notifications, asynchronous events and the order of
//! creation and destruction are handled right.
//!
//! What it cannot verify: speed and timing of a card, ordering on the bus (a missing barrier or
//! doorbell is invisible here), the firmware's own limits, and whatever a driver does beside
//! its documentation. Those await a card.
//!
//! | Variable | Meaning |
//! |---|---|
//! | `SOFTVERBS_WIRE` | `packet` (AF_PACKET on the interface of the same name) or `switch` (shared memory between processes) |
//! | `SOFTVERBS_SWITCH` | name of the switch under `/dev/shm`; default `default` |
//! | `SOFTVERBS_INTERFACES` | interfaces of this network namespace that have a device; default every veth |
//! | `SOFTVERBS_STRICT` | `abort` or `errno` (default): what follows a violated precondition |
//! | `SOFTVERBS_TRACE` | file that gets one line a call of the control plane |
//! | `SOFTVERBS_TRACE_DATA=1` | one for each post and each poll that found something, too |
//! | `SOFTVERBS_LINK_LAYER` | `ethernet` (default) or `infiniband` |
//! | `SOFTVERBS_TRANSPORT` | `ib` (default) or `iwarp` |
//! | `SOFTVERBS_NO_RAW_PACKET=1`, `…_NO_FLOW_STEERING`, `…_NO_IP_CSUM`, `…_NO_TIMESTAMP`, `…_NO_CQ_EX` | a card without it |
//! | `SOFTVERBS_MAX_QP`, `…_CQ`, `…_CQE`, `…_MR`, `…_PD`, `…_FLOWS`, `…_WR`, `…_SGE`, `…_INLINE` | the card's limits |
//! | `SOFTVERBS_FAULTS` | faults on demand: see `src/fault/mod.rs` |
//! | `SOFTVERBS_CONTROL` | file that is watched for more of them |

#![warn(missing_docs)]

pub mod abi;
mod api;
mod call;
mod channel;
mod checksum;
mod clock;
mod context;
mod cq;
mod descriptor;
mod device;
mod directory;
mod events;
mod fault;
pub mod flow;
mod handle;
mod interfaces;
mod interrupts;
mod lifetime;
mod memory;
mod pd;
mod privilege;
mod qp;
mod settings;
mod steering;
mod strict;
mod trace;
pub mod wire;

pub use settings::{Settings, WireChoice, get as settings};
