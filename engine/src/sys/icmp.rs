//! A raw socket that hears one kind of ICMP message: fragmentation needed (RFC 1191).
//!
//! The kernel lowers its path MTU by them and tells nobody (no netlink event), so routes
//! that the engine has asked for before are out of date. Source: raw(7), icmp(7).

use super::bpf::{self, Program};
use super::handle::Handle;
use super::raw::syscall6;
use super::sock;
use crate::error::Errno;
use std::os::fd::{AsRawFd as _, RawFd};

const DESTINATION_UNREACHABLE: u32 = 3;
const FRAGMENTATION_NEEDED: u32 = 4;
/// SOL_RAW and ICMP_FILTER of linux/icmp.h: a bit a type, set: refused.
const SOL_RAW: i32 = 255;
const ICMP_FILTER: i32 = 1;

/// The socket.
#[derive(Debug)]
pub struct PathWatch {
    fd: Handle,
}

impl PathWatch {
    /// Opens it.
    ///
    /// # Errors
    /// EPERM without CAP_NET_RAW, EMFILE.
    pub fn open() -> Result<Self, Errno> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let args = [
            libc::AF_INET as usize,
            kind as usize,
            libc::IPPROTO_ICMP as usize,
            0,
            0,
            0,
        ];
        // SAFETY: socket takes integers only.
        let fd = unsafe { syscall6(libc::SYS_socket, args) }?;
        let fd = Handle::new(fd as RawFd)?;
        let raw = fd.as_raw_fd();
        let others: u32 = !(1 << DESTINATION_UNREACHABLE);
        sock::set(raw, SOL_RAW, ICMP_FILTER, &others)?;
        bpf::attach(raw, &filter())?;
        // One message says as much as many.
        sock::set(raw, libc::SOL_SOCKET, libc::SO_RCVBUF, &4096i32)?;
        Ok(Self { fd })
    }

    /// Polls readable when a path may have changed.
    #[must_use]
    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// Forgets what has come.
    pub fn clear(&self) {
        let mut byte = 0u8;
        let at = std::ptr::from_mut(&mut byte) as usize;
        let fd = self.fd.as_raw_fd() as usize;
        // SAFETY: the buffer is one byte long and outlives the call.
        while unsafe { syscall6(libc::SYS_recvfrom, [fd, at, 1, 0, 0, 0]) }.is_ok() {}
    }
}

/// The packet begins with its IP header.
fn filter() -> Program {
    bpf::byte_behind_ip_header(1, FRAGMENTATION_NEEDED)
}
