//! Wires the layers together (skeleton of the interface).
#![allow(
    missing_docs,
    unused_variables,
    clippy::missing_errors_doc,
    clippy::todo,
    reason = "skeleton"
)]

use crate::ready::Epoll;
use crate::socket::{Family, UdpSocket};
use std::os::fd::RawFd;
use std::sync::Arc;

/// The engine of one process.
#[derive(Debug)]
pub struct Stack {}

/// Told by the engine: lines that a person should see (first accelerated socket, warnings).
pub type Announce = fn(&str);

impl Stack {
    /// Starts the engine: at the process's first UDP socket, never before. Never fails:
    /// what cannot be had is a reason on the sockets.
    pub fn start(program: &str, announce: Announce) -> Arc<Stack> {
        todo!()
    }
    pub fn open_udp(
        self: &Arc<Self>,
        fd: RawFd,
        family: Family,
        nonblocking: bool,
    ) -> Arc<UdpSocket> {
        todo!()
    }
    pub fn open_epoll(self: &Arc<Self>, epfd: RawFd) -> Arc<Epoll> {
        todo!()
    }
    /// Around fork: prepare takes the engine's locks, parent and child release them;
    /// in the child every inherited socket becomes one that is given back at first use.
    pub fn fork_prepare(&self) {}
    pub fn fork_parent(&self) {}
    pub fn fork_child(&self) {}
    /// Process exit (destructor): unpublish statistics.
    pub fn stop(&self) {}
}
