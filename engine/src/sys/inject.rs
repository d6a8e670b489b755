//! Puts datagrams that the engine has taken into a kernel socket of this host: a raw socket
//! sends them, as they came, to the address they were for. Source: raw(7), IP_HDRINCL.

use super::handle::Handle;
use super::raw::syscall6;
use crate::error::Errno;
use crate::wire::{IPV4_LEN, PROTOCOL_UDP, UDP_LEN};
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd as _, RawFd};

/// The socket.
#[derive(Debug)]
pub struct Injector {
    fd: Handle,
}

impl Injector {
    /// Opens it.
    ///
    /// # Errors
    /// EPERM without CAP_NET_RAW, EMFILE.
    pub fn open() -> Result<Self, Errno> {
        let kind = (libc::SOCK_RAW | libc::SOCK_CLOEXEC) as usize;
        let protocol = libc::IPPROTO_RAW as usize;
        let args = [libc::AF_INET as usize, kind, protocol, 0, 0, 0];
        // SAFETY: socket takes integers only.
        let fd = unsafe { syscall6(libc::SYS_socket, args) }?;
        Ok(Self {
            fd: Handle::new(fd as RawFd)?,
        })
    }

    /// One datagram, to an address of this host; the kernel fills in length, id and sum of
    /// the IP header, and a UDP checksum of 0 says that there is none.
    ///
    /// # Errors
    /// sendto(2)'s.
    pub fn put(
        &self,
        (source, destination): (SocketAddrV4, SocketAddrV4),
        ttl: u8,
        tos: u8,
        payload: &[u8],
    ) -> Result<(), Errno> {
        let length = (UDP_LEN + payload.len()) as u16;
        let mut packet = Vec::with_capacity(IPV4_LEN + UDP_LEN + payload.len());
        packet.extend_from_slice(&[0x45, tos, 0, 0, 0, 0, 0, 0, ttl, PROTOCOL_UDP, 0, 0]);
        packet.extend_from_slice(&source.ip().octets());
        packet.extend_from_slice(&destination.ip().octets());
        packet.extend_from_slice(&source.port().to_be_bytes());
        packet.extend_from_slice(&destination.port().to_be_bytes());
        packet.extend_from_slice(&length.to_be_bytes());
        packet.extend_from_slice(&[0, 0]);
        packet.extend_from_slice(payload);
        let to = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: 0,
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes(destination.ip().octets()),
            },
            sin_zero: [0; 8],
        };
        let args = [
            self.fd.as_raw_fd() as usize,
            packet.as_ptr() as usize,
            packet.len(),
            0,
            std::ptr::from_ref(&to) as usize,
            size_of::<libc::sockaddr_in>(),
        ];
        // SAFETY: buffer and address outlive the call and are of the stated sizes.
        unsafe { syscall6(libc::SYS_sendto, args) }.map(drop)
    }
}
