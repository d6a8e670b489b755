//! User-space UDP engine.
//!
//! Layers, bottom up; a lower one never names a higher one.
//!
//! - [`error`], [`clock`], [`wire`], [`config`]: pure.
//! - [`sys`]: every system call and every mapping.
//! - [`ring`]: locks and byte queues shared between threads.
//! - [`stats`]: counters in shared memory.
//! - [`device`]: interfaces' queues.
//! - [`net`]: routes, neighbours, addresses and groups as the kernel tells them.
//! - [`steering`]: what sockets want of an interface, as exact flows.
//! - [`socket`]: UDP sockets and who gets a datagram.
//! - [`ready`]: epoll, poll, select; spin, then sleep.
//! - [`stack`]: wires it all.
#![deny(unsafe_code)]

pub mod clock;
pub mod config;
pub mod device;
pub mod error;
pub mod net;
pub mod ready;
pub mod ring;
pub mod socket;
pub mod stack;
pub mod stats;
pub mod steering;
pub mod sys;
pub mod wire;
