//! epoll, poll and select over engine sockets and kernel descriptors: look at the
//! rings, by ratio at the kernel; spin; then sleep on all of them in one ppoll.
//!
//! The kernel's descriptors are the application's own: what comes through the kernel
//! (errors, loopback, writability) is the kernel's to report.

mod epoll;
mod kick;
mod poll;
mod select;
mod wait;

pub use epoll::Epoll;
pub use poll::poll;
pub use select::{FdSets, select};

use crate::socket::UdpSocket;
use std::os::fd::RawFd;
use std::sync::Arc;

/// What a descriptor number of the application stands for in the engine.
#[derive(Clone, Debug)]
pub enum Object {
    /// A UDP socket.
    Udp(Arc<UdpSocket>),
    /// An epoll instance.
    Epoll(Arc<Epoll>),
}

/// From fd to object, for the sets of poll and select.
pub type Lookup<'a> = &'a dyn Fn(RawFd) -> Option<Object>;

/// A caller's time-out, in nanoseconds; None waits for ever.
pub type Timeout = Option<u64>;

/// Sets inside sets are followed this deep, as the kernel limits them (EP_MAX_NESTS).
const DEPTH: u32 = 5;

impl Object {
    /// Bits of the rings that can make it ready.
    #[inline]
    #[must_use]
    pub(crate) fn ring_mask(&self, depth: u32) -> u64 {
        match self {
            Self::Udp(socket) => socket.ring_mask(),
            Self::Epoll(epoll) if depth < DEPTH => epoll.ring_mask(depth + 1),
            Self::Epoll(_) => 0,
        }
    }

    /// Ready to read as far as the engine knows.
    #[inline]
    #[must_use]
    pub(crate) fn readable(&self, depth: u32) -> bool {
        match self {
            Self::Udp(socket) => socket.readable(),
            Self::Epoll(epoll) => depth < DEPTH && epoll.any_ready(depth + 1),
        }
    }

    /// Its kernel side may have something that nobody tells of.
    #[must_use]
    pub(crate) fn untold(&self, depth: u32) -> bool {
        match self {
            Self::Udp(socket) => socket.untold(),
            Self::Epoll(epoll) => depth >= DEPTH || epoll.untold(depth + 1),
        }
    }

    /// Calls `visit` with every UDP socket of it.
    pub(crate) fn each_socket(&self, depth: u32, visit: &mut dyn FnMut(&Arc<UdpSocket>)) {
        match self {
            Self::Udp(socket) => visit(socket),
            Self::Epoll(epoll) if depth < DEPTH => epoll.each_socket(depth + 1, visit),
            Self::Epoll(_) => {}
        }
    }

    /// In a forked child: gives inherited sockets back to the kernel.
    pub(crate) fn settle(&self) {
        self.each_socket(0, &mut |socket| socket.settle());
    }
}
