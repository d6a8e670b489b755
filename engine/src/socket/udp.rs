//! The UDP socket (skeleton of the interface).
#![allow(
    missing_docs,
    unused_variables,
    clippy::missing_errors_doc,
    clippy::todo,
    reason = "skeleton"
)]

use super::io::{Destination, Receive, SendControl, Sent};
use crate::error::Errno;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::RawFd;

/// Address family of an application's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// A sockaddr as the caller gave it: the kernel sees the original, the engine the parsed form.
#[derive(Clone, Copy, Debug)]
pub struct SockAddrArg {
    /// Address of the caller's structure.
    pub ptr: usize,
    /// Its length as given.
    pub len: u32,
    /// AF_INET or AF_INET6 and long enough, else None (also AF_UNSPEC).
    pub parsed: Option<SocketAddr>,
}

/// Shadow of one kernel UDP socket (one open file description, any number of fds).
#[derive(Debug)]
pub struct UdpSocket {}

/// All calls are made instead of libc's: they make the kernel call themselves and
/// answer what the program is to see.
impl UdpSocket {
    pub fn bind(&self, fd: RawFd, addr: &SockAddrArg) -> Result<usize, Errno> {
        todo!()
    }
    pub fn connect(&self, fd: RawFd, addr: &SockAddrArg) -> Result<usize, Errno> {
        todo!()
    }
    pub fn setsockopt(
        &self,
        fd: RawFd,
        level: i32,
        name: i32,
        ptr: usize,
        len: u32,
    ) -> Result<usize, Errno> {
        todo!()
    }
    pub fn shutdown(&self, fd: RawFd, how: i32) -> Result<usize, Errno> {
        todo!()
    }
    /// `None`: not for the engine, make the kernel call.
    pub fn ioctl(
        &self,
        fd: RawFd,
        request: libc::c_ulong,
        arg: usize,
    ) -> Option<Result<usize, Errno>> {
        todo!()
    }
    /// After a successful F_SETFL with `flags` on any fd of this socket.
    pub fn flags_changed(&self, flags: i32) {}
    pub fn recv<R: Receive>(&self, fd: RawFd, call: &mut R, flags: i32) -> Result<usize, Errno> {
        todo!()
    }
    pub fn send(
        &self,
        fd: RawFd,
        dest: Destination,
        payload: &[IoSlice<'_>],
        control: &SendControl,
        flags: i32,
    ) -> Sent {
        todo!()
    }
    /// Counts a send that the kernel made for this socket.
    pub fn kernel_sent(&self, result: Result<usize, Errno>) {}
    /// A descriptor number now names this socket (socket, dup, F_DUPFD).
    pub fn fd_added(&self, fd: RawFd) {}
    /// A number is about to be closed; call it before the kernel's close. True: it was the last one.
    pub fn fd_removed(&self, fd: RawFd) -> bool {
        todo!()
    }
    /// Gives the socket back to the kernel for good (exec, SCM_RIGHTS).
    pub fn hand_back(&self, reason: crate::error::Reason) {}
}
