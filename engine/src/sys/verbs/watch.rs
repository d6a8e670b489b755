//! One descriptor for a device's asynchronous events, for sends that fail, and for what its
//! own queues notice.
//!
//! Source: epoll(7), eventfd(2).

use crate::error::Errno;
use crate::sys::event::{self, Event};
use crate::sys::handle::Handle;
use rustix::event::epoll;
use rustix::fd::IntoRawFd;
use std::os::fd::{AsRawFd, RawFd};

/// Polls readable while any of them has something.
#[derive(Debug)]
pub struct EventWatch {
    epoll: Handle,
    /// None where eventfd is refused: reports of queues wait for the device's own.
    alarm: Option<Event>,
}

impl EventWatch {
    /// Watches a device's descriptor.
    ///
    /// # Errors
    /// EMFILE, ENOMEM.
    pub fn new(events: RawFd) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = Self {
            epoll: Handle::new(epoll.into_raw_fd())?,
            alarm: Event::open().ok(),
        };
        watch.add(events)?;
        if let Some(alarm) = &watch.alarm {
            watch.add(alarm.raw())?;
        }
        Ok(watch)
    }

    /// Watches one more descriptor, until it is closed or removed.
    ///
    /// # Errors
    /// ENOMEM, ENOSPC.
    pub fn add(&self, fd: RawFd) -> Result<(), Errno> {
        let event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: 0,
        };
        let at = std::ptr::from_ref(&event).addr();
        event::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, at).map(drop)
    }

    /// Watches a descriptor no more.
    #[cold]
    pub fn remove(&self, fd: RawFd) {
        let _ = event::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, 0);
    }

    /// Sleep on it.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// A queue has something to report. One system call.
    #[cold]
    pub fn raise(&self) {
        self.alarm.iter().for_each(Event::signal);
    }

    /// Before the reports are looked through.
    pub fn clear(&self) {
        self.alarm.iter().for_each(Event::clear);
    }
}
