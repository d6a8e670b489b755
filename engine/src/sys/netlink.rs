//! A socket of the routing family of netlink (netlink(7), rtnetlink(7)).
//!
//! Owns descriptors and bytes; what the messages mean is `net`'s. Never blocks longer
//! than [`REPLY_TIMEOUT_S`].

use super::handle::Handle;
use super::raw::syscall6;
use super::sock;
use crate::error::Errno;
use rustix::fd::IntoRawFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::mem::size_of;
use std::os::fd::{AsRawFd, RawFd};

/// The kernel answers inside the call that asks; this bounds what cannot happen.
pub const REPLY_TIMEOUT_S: i64 = 2;

/// The kernel sends no datagram larger than this, dumps included (NLMSG_GOODSIZE is
/// at most 8 KiB, and a dump follows the reader's buffer up to 32 KiB).
pub const DATAGRAM_MAX: usize = 32 << 10;

/// NETLINK_ROUTE is protocol 0.
const NETLINK_ROUTE: Option<rustix::net::Protocol> = None;
const SOL_NETLINK: i32 = 270;
const NETLINK_ADD_MEMBERSHIP: i32 = 1;

/// One netlink datagram received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes in the buffer.
    pub len: usize,
    /// Whether the kernel sent it; anybody with CAP_NET_ADMIN can.
    pub from_kernel: bool,
    /// Whether the end is missing.
    pub truncated: bool,
}

/// A NETLINK_ROUTE socket, close-on-exec and out of the application's way.
#[derive(Debug)]
pub struct Socket(Handle);

impl Socket {
    /// Opens one.
    ///
    /// # Errors
    /// The kernel's: EMFILE, ENFILE, ENOMEM, EPERM in a confined process.
    pub fn open() -> Result<Self, Errno> {
        let fd = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            NETLINK_ROUTE,
        )?;
        let socket = Self(Handle::new(fd.into_raw_fd())?);
        let timeout = libc::timeval {
            tv_sec: REPLY_TIMEOUT_S,
            tv_usec: 0,
        };
        for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
            sock::set(socket.fd(), libc::SOL_SOCKET, option, &timeout)?;
        }
        // An unbound socket has the kernel's own port number, 0, and a sender never hears
        // itself: without this no event comes.
        let any = Address {
            family: libc::AF_NETLINK as u16,
            pad: 0,
            port: 0,
            groups: 0,
        };
        sock::bind(
            socket.fd(),
            std::ptr::from_ref(&any) as usize,
            size_of::<Address>() as u32,
        )?;
        Ok(socket)
    }

    /// Subscribes to a multicast group of the kernel (RTNLGRP_*).
    ///
    /// # Errors
    /// EINVAL where the kernel does not know the group.
    pub fn subscribe(&self, group: u32) -> Result<(), Errno> {
        sock::set(self.fd(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group)
    }

    /// Asks for a receive buffer; the kernel grants what `net.core.rmem_max` allows.
    ///
    /// # Errors
    /// The kernel's.
    pub fn set_receive_buffer(&self, bytes: i32) -> Result<(), Errno> {
        sock::set(self.fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &bytes)
    }

    /// Sends a request to the kernel.
    ///
    /// # Errors
    /// The kernel's. What it thinks of the request comes as a message.
    pub fn send(&self, request: &[u8]) -> Result<(), Errno> {
        loop {
            match sock::send(self.fd(), request, 0) {
                Err(Errno::INTR) => {}
                other => return other.map(drop),
            }
        }
    }

    /// Receives one datagram, waiting for it only if `wait`.
    ///
    /// # Errors
    /// EAGAIN if there is none, ENOBUFS if events were lost.
    pub fn receive(&self, buffer: &mut [u8], wait: bool) -> Result<Received, Errno> {
        // MSG_TRUNC makes the result the real length.
        let flags = libc::MSG_TRUNC | if wait { 0 } else { libc::MSG_DONTWAIT };
        let mut from = Address {
            family: 0,
            pad: 0,
            port: u32::MAX,
            groups: 0,
        };
        let mut from_len = size_of::<Address>() as u32;
        let args = [
            self.fd() as usize,
            buffer.as_mut_ptr() as usize,
            buffer.len(),
            flags as usize,
            std::ptr::from_mut(&mut from) as usize,
            std::ptr::from_mut(&mut from_len) as usize,
        ];
        loop {
            // SAFETY: the kernel writes at most `buffer.len()` bytes into the exclusively
            // borrowed buffer, `from_len` bytes into `from`, and the length back.
            match unsafe { syscall6(libc::SYS_recvfrom, args) } {
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
                Ok(length) => {
                    return Ok(Received {
                        len: length.min(buffer.len()),
                        from_kernel: from.port == 0,
                        truncated: length > buffer.len(),
                    });
                }
            }
        }
    }

    fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd()
    }
}

/// `struct sockaddr_nl` of linux/netlink.h.
#[repr(C)]
struct Address {
    family: u16,
    pad: u16,
    port: u32,
    groups: u32,
}

const _: () = assert!(size_of::<Address>() == size_of::<libc::sockaddr_nl>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_receive() {
        let socket = Socket::open().unwrap();
        assert_eq!(socket.receive(&mut [0; 100], false), Err(Errno::AGAIN));
        assert_eq!(socket.subscribe(9999), Err(Errno::INVAL));
    }
}
