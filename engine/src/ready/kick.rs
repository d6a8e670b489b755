//! What wakes an epoll_wait that began before its set had a socket of the engine's.

use crate::socket::UdpSocket;
use crate::sys::event::{self, Event};
use std::os::fd::RawFd;
use std::sync::Arc;

const EPOLLIN: u32 = libc::EPOLLIN as u32;
const EPOLLRDNORM: u32 = libc::EPOLLRDNORM as u32;
const EPOLLONESHOT: u32 = libc::EPOLLONESHOT as u32;

/// A call that entered the kernel's epoll_wait while the set was the kernel's alone would
/// not see the engine's datagrams. Until the next call comes by the engine an event
/// descriptor in the set stands for the first entry, and carries its data.
#[derive(Debug)]
pub(super) struct Kick {
    epfd: RawFd,
    /// The entry that it stands for.
    pub(super) fd: RawFd,
    event: Arc<Event>,
    pub(super) socket: Arc<UdpSocket>,
}

impl Kick {
    pub(super) fn install(
        epfd: RawFd,
        fd: RawFd,
        socket: &Arc<UdpSocket>,
        wanted: libc::epoll_event,
    ) -> Option<Self> {
        if wanted.events & (EPOLLIN | EPOLLRDNORM) == 0 {
            return None;
        }
        let event = Arc::new(Event::open().ok()?);
        let once = libc::epoll_event {
            events: EPOLLIN | EPOLLONESHOT,
            u64: wanted.u64,
        };
        let at = std::ptr::from_ref(&once) as usize;
        event::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, event.raw(), at).ok()?;
        socket.add_waiter(&event);
        socket.core().poll_mask(socket.ring_mask());
        if socket.readable() {
            event.signal();
        }
        Some(Self {
            epfd,
            fd,
            event,
            socket: Arc::clone(socket),
        })
    }

    /// Before fork: the set is the child's as well, which is not to hear of what was read long
    /// ago. Whoever waits in the set is still woken by what comes.
    pub(super) fn renew(&self) {
        self.event.clear();
        if self.socket.readable() {
            self.event.signal();
        }
    }
}

impl Drop for Kick {
    fn drop(&mut self) {
        let _ = event::epoll_ctl(self.epfd, libc::EPOLL_CTL_DEL, self.event.raw(), 0);
        self.socket.remove_waiter(&self.event);
    }
}
