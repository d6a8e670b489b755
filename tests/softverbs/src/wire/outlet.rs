//! Sends whole frames on an interface: an AF_PACKET socket that receives nothing.
//!
//! Source: packet(7). Protocol 0 keeps the socket out of every receive path; with
//! PACKET_QDISC_BYPASS a frame goes to the driver at once or is refused.

use super::SendError;
use super::syscall::{Fd, call};
use rustix::io::Errno;
use std::os::fd::RawFd;
use std::sync::OnceLock;

const PACKET_QDISC_BYPASS: usize = 20;

/// The sending end of one interface. It takes privileges, so it is opened when it is needed,
/// which is with the first queue: a card too refuses the queue pair, not the device.
#[derive(Debug)]
pub(super) struct LazyOutlet {
    interface: u32,
    outlet: OnceLock<Outlet>,
}

impl LazyOutlet {
    /// Of an interface.
    pub(super) fn new(interface: u32) -> Self {
        Self {
            interface,
            outlet: OnceLock::new(),
        }
    }

    /// Opens it, if it is not open.
    pub(super) fn open(&self) -> Result<&Outlet, Errno> {
        match self.outlet.get() {
            Some(outlet) => Ok(outlet),
            None => {
                let outlet = Outlet::open(self.interface)?;
                Ok(self.outlet.get_or_init(|| outlet))
            }
        }
    }

    /// Sends one frame.
    pub(super) fn send(&self, frame: &[u8]) -> Result<(), SendError> {
        self.open().map_err(SendError::Broken)?.send(frame)
    }
}

/// An open one.
#[derive(Debug)]
pub(super) struct Outlet(Fd);

impl Outlet {
    fn open(interface: u32) -> Result<Self, Errno> {
        // SAFETY: integers only.
        let fd = unsafe {
            call(
                libc::SYS_socket,
                [
                    libc::AF_PACKET as usize,
                    (libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as usize,
                    0,
                    0,
                    0,
                    0,
                ],
            )?
        };
        let fd = Fd::adopt(fd as RawFd)?;
        let address = libc::sockaddr_ll {
            sll_family: libc::AF_PACKET as u16,
            sll_protocol: 0,
            sll_ifindex: interface as i32,
            sll_hatype: 0,
            sll_pkttype: 0,
            sll_halen: 0,
            sll_addr: [0; 8],
        };
        // SAFETY: the address is live and of the size given.
        unsafe {
            call(
                libc::SYS_bind,
                [
                    fd.raw() as usize,
                    (&raw const address) as usize,
                    size_of_val(&address),
                    0,
                    0,
                    0,
                ],
            )?
        };
        let on = 1i32;
        // SAFETY: the option is a live int.
        unsafe {
            call(
                libc::SYS_setsockopt,
                [
                    fd.raw() as usize,
                    libc::SOL_PACKET as usize,
                    PACKET_QDISC_BYPASS,
                    (&raw const on) as usize,
                    size_of_val(&on),
                    0,
                ],
            )?
        };
        Ok(Self(fd))
    }

    fn send(&self, frame: &[u8]) -> Result<(), SendError> {
        // SAFETY: the frame is live for the call; no address is given.
        let sent = unsafe {
            call(
                libc::SYS_sendto,
                [
                    self.0.raw() as usize,
                    frame.as_ptr() as usize,
                    frame.len(),
                    libc::MSG_DONTWAIT as usize,
                    0,
                    0,
                ],
            )
        };
        match sent {
            Ok(_) => Ok(()),
            Err(Errno::NETDOWN) => Err(SendError::LinkDown),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR | Errno::NOMEM) => Err(SendError::Full),
            Err(error) => Err(SendError::Broken(error)),
        }
    }
}
