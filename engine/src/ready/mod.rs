//! epoll, poll, select over engine sockets and kernel descriptors; spin, then sleep.
#![allow(
    missing_docs,
    unused_variables,
    clippy::missing_errors_doc,
    clippy::todo,
    reason = "skeleton"
)]

use crate::error::Errno;
use crate::socket::UdpSocket;
use std::os::fd::RawFd;
use std::sync::Arc;

/// What a descriptor number of the application stands for in the engine.
#[derive(Clone, Debug)]
pub enum Object {
    Udp(Arc<UdpSocket>),
    Epoll(Arc<Epoll>),
}

/// From fd to object, for the sets of poll and select.
pub type Lookup<'a> = &'a dyn Fn(RawFd) -> Option<Object>;

/// A caller's time-out, in nanoseconds; None waits for ever.
pub type Timeout = Option<u64>;

/// poll and ppoll. `mask` is the caller's signal set (kernel's 64-bit form), if it gave one.
pub fn poll(
    fds: &mut [libc::pollfd],
    lookup: Lookup<'_>,
    timeout: Timeout,
    mask: Option<u64>,
) -> Result<usize, Errno> {
    todo!()
}

/// The three sets of a select call, as arrays of 64-bit words of the caller's length.
#[derive(Debug)]
pub struct FdSets<'a> {
    pub nfds: usize,
    pub read: Option<&'a mut [u64]>,
    pub write: Option<&'a mut [u64]>,
    pub except: Option<&'a mut [u64]>,
}

pub fn select(
    sets: FdSets<'_>,
    lookup: Lookup<'_>,
    timeout: Timeout,
    mask: Option<u64>,
) -> Result<usize, Errno> {
    todo!()
}

/// Shadow of one kernel epoll instance.
#[derive(Debug)]
pub struct Epoll {}

impl Epoll {
    /// No member needs the engine: the kernel's epoll_wait alone is right.
    pub fn is_plain(&self) -> bool {
        todo!()
    }
    /// Makes the kernel's epoll_ctl and follows it. `event` is the caller's pointer.
    pub fn ctl(
        &self,
        epfd: RawFd,
        op: i32,
        fd: RawFd,
        target: Option<&Object>,
        event: usize,
    ) -> Result<usize, Errno> {
        todo!()
    }
    pub fn wait(
        &self,
        epfd: RawFd,
        out: &mut [libc::epoll_event],
        timeout: Timeout,
        mask: Option<u64>,
    ) -> Result<usize, Errno> {
        todo!()
    }
    pub fn fd_added(&self, fd: RawFd) {}
    pub fn fd_removed(&self, fd: RawFd) -> bool {
        todo!()
    }
}
