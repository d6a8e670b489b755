//! Watches one interface for its carrier and its end, as a card's firmware watches its port.
//!
//! Source: rtnetlink(7). One thread a wire; it ends with the value.

use super::syscall::{Fd, call};
use super::worker::{Stop, Worker};
use super::{Incident, Incidents};
use rustix::io::Errno;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const GROUP_LINK: u32 = 1;
/// struct nlmsghdr and struct ifinfomsg.
const HEADER: usize = 16;
const MESSAGE: usize = HEADER + 16;

/// Up, and with a carrier.
const ACTIVE: u32 = (libc::IFF_UP as u32) | 0x1_0000;

/// A running watch.
pub(super) struct Watch {
    up: Arc<AtomicBool>,
    _worker: Worker,
}

fn netlink() -> Result<Fd, Errno> {
    // SAFETY: integers only.
    let fd = unsafe {
        call(
            libc::SYS_socket,
            [
                libc::AF_NETLINK as usize,
                (libc::SOCK_RAW | libc::SOCK_CLOEXEC) as usize,
                libc::NETLINK_ROUTE as usize,
                0,
                0,
                0,
            ],
        )?
    };
    let fd = Fd::adopt(fd as RawFd)?;
    // struct sockaddr_nl: family, padding, port, groups.
    let address: [u32; 3] = [libc::AF_NETLINK as u32, 0, GROUP_LINK];
    // SAFETY: the address is live and of the size given.
    unsafe {
        call(
            libc::SYS_bind,
            [fd.raw() as usize, address.as_ptr() as usize, 12, 0, 0, 0],
        )?
    };
    Ok(fd)
}

/// Asks for the interface's state.
fn ask(fd: &Fd, interface: u32) -> Result<(), Errno> {
    let mut request = [0u8; MESSAGE];
    request[0..4].copy_from_slice(&(MESSAGE as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&1u16.to_ne_bytes()); // NLM_F_REQUEST
    request[HEADER + 4..HEADER + 8].copy_from_slice(&interface.to_ne_bytes());
    // SAFETY: the request is live for the call.
    unsafe {
        call(
            libc::SYS_sendto,
            [
                fd.raw() as usize,
                request.as_ptr() as usize,
                MESSAGE,
                0,
                0,
                0,
            ],
        )
    }
    .map(|_| ())
}

/// What messages in a buffer say of the interface: `Some(None)` when it is gone.
fn state(mut messages: &[u8], interface: u32) -> Option<Option<bool>> {
    let word = |bytes: &[u8], at: usize| {
        bytes
            .get(at..at + 4)
            .map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
    };
    let mut found = None;
    while let (Some(len), Some(kind)) = (word(messages, 0), word(messages, 4)) {
        let kind = (kind & 0xffff) as u16;
        if matches!(kind, RTM_NEWLINK | RTM_DELLINK)
            && word(messages, HEADER + 4) == Some(interface)
        {
            found = match (kind, word(messages, HEADER + 8)) {
                (RTM_DELLINK, _) => Some(None),
                (_, Some(flags)) => Some(Some(flags & ACTIVE == ACTIVE)),
                _ => found,
            };
        }
        let step = (len as usize).next_multiple_of(4);
        if len < HEADER as u32 || step >= messages.len() {
            break;
        }
        messages = &messages[step..];
    }
    found
}

fn read(fd: &Fd, buffer: &mut [u8], flags: i32) -> Result<usize, Errno> {
    // SAFETY: the buffer is live and of the length given.
    unsafe {
        call(
            libc::SYS_recvfrom,
            [
                fd.raw() as usize,
                buffer.as_mut_ptr() as usize,
                buffer.len(),
                flags as usize,
                0,
                0,
            ],
        )
    }
}

impl Watch {
    /// Starts watching; `incidents` hears of every change from now on.
    pub(super) fn start(interface: u32, incidents: Arc<dyn Incidents>) -> Result<Self, Errno> {
        let socket = netlink()?;
        ask(&socket, interface)?;
        let mut buffer = vec![0u8; 16384];
        let len = read(&socket, &mut buffer, 0)?;
        let now = state(&buffer[..len], interface)
            .flatten()
            .ok_or(Errno::NODEV)?;
        let up = Arc::new(AtomicBool::new(now));
        let worker = Worker::spawn("softverbs-link", {
            let up = Arc::clone(&up);
            move |stop| follow(&socket, stop, interface, &up, &*incidents, &mut buffer)
        })?;
        Ok(Self {
            up,
            _worker: worker,
        })
    }

    /// Whether the port is active.
    #[inline]
    pub(super) fn is_up(&self) -> bool {
        self.up.load(Ordering::Relaxed)
    }
}

fn follow(
    socket: &Fd,
    stop: &Stop,
    interface: u32,
    up: &AtomicBool,
    incidents: &dyn Incidents,
    buffer: &mut [u8],
) {
    while stop.wait(&[socket.raw()]).is_some() {
        let now = match read(socket, buffer, libc::MSG_DONTWAIT) {
            Ok(len) => state(&buffer[..len], interface),
            // Messages were lost: ask, and the answer comes this way.
            Err(Errno::NOBUFS) => {
                let _ = ask(socket, interface);
                None
            }
            Err(_) => None,
        };
        match now {
            Some(Some(now)) if up.swap(now, Ordering::Relaxed) != now => {
                incidents.raise(if now {
                    Incident::PortActive
                } else {
                    Incident::PortDown
                });
            }
            Some(None) => {
                up.store(false, Ordering::Relaxed);
                incidents.raise(Incident::DeviceFatal);
                return;
            }
            _ => {}
        }
    }
}
