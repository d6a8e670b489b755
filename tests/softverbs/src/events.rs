//! Queues of events behind a descriptor: completion channels, and the asynchronous events of a
//! context. The descriptor belongs to the application, which may poll it, make it non-blocking,
//! or move it to another number: as with the real library the structure's field says which
//! it is. It is a pipe with a byte for each that is queued (an eventfd may be refused where a
//! device's file would not be); the device's side of it are descriptors of its own.

use crate::descriptor::Descriptor;
use parking_lot::Mutex;
use rustix::io::{Errno, ReadWriteFlags};
use rustix::pipe::{PipeFlags, pipe_with};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{IntoRawFd as _, RawFd};
use std::sync::Arc;

/// The device's own descriptors of the pipe.
struct Ends {
    read: Descriptor,
    write: Descriptor,
}

/// Events of one kind, each readable once.
pub(crate) struct EventQueue<T> {
    fd: RawFd,
    /// None once closed: the object around it is never freed.
    ends: Mutex<Option<Arc<Ends>>>,
    waiting: Mutex<VecDeque<T>>,
}

impl<T> EventQueue<T> {
    /// An empty queue.
    ///
    /// # Errors
    /// Those of pipe(2).
    pub(crate) fn new() -> Result<Self, Errno> {
        let (fd, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let ends = Ends {
            read: Descriptor::aside(rustix::io::dup(&fd)?),
            write: Descriptor::aside(write),
        };
        Ok(Self {
            fd: fd.into_raw_fd(),
            ends: Mutex::new(Some(Arc::new(ends))),
            waiting: Mutex::new(VecDeque::new()),
        })
    }

    /// The descriptor that is readable while events wait, as it was made.
    pub(crate) fn fd(&self) -> RawFd {
        self.fd
    }

    fn ends(&self) -> Result<Arc<Ends>, Errno> {
        self.ends.lock().clone().ok_or(Errno::BADF)
    }

    /// Appends one event.
    pub(crate) fn post(&self, event: T) {
        self.waiting.lock().push_back(event);
        if let Ok(ends) = self.ends() {
            // Waits only where 65536 events do.
            let _ = rustix::io::write(&ends.write, &[1]);
        }
    }

    /// Waits for the next event, unless the application made the descriptor non-blocking.
    ///
    /// # Errors
    /// Those of read(2): `EAGAIN`, `EINTR`; `EBADF` once closed.
    pub(crate) fn next(&self) -> Result<T, Errno> {
        let ends = self.ends()?;
        loop {
            rustix::io::read(&ends.read, &mut [0u8; 1])?;
            // Empty: the event was forgotten after its byte had been read.
            if let Some(event) = self.waiting.lock().pop_front() {
                return Ok(event);
            }
        }
    }

    /// Removes the events of an object that goes away.
    pub(crate) fn forget(&self, of_it: impl Fn(&T) -> bool) {
        let mut waiting = self.waiting.lock();
        let before = waiting.len();
        waiting.retain(|event| !of_it(event));
        let Ok(ends) = self.ends() else { return };
        for _ in waiting.len()..before {
            let mut value = [0u8; 1];
            let mut into = [IoSliceMut::new(&mut value)];
            // Not to wait for what a reader has just taken out of the pipe.
            let _ = rustix::io::preadv2(&ends.read, &mut into, u64::MAX, ReadWriteFlags::NOWAIT);
        }
    }

    /// Closes the application's descriptor, whatever its number is by now.
    pub(crate) fn close(&self, fd: RawFd) {
        if fd >= 0 {
            // SAFETY: the field of the structure owns it.
            unsafe { rustix::io::close(fd) };
        }
        *self.ends.lock() = None;
        self.waiting.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn readable<T>(queue: &EventQueue<T>) -> bool {
        let ends = queue.ends().unwrap();
        let mut fds = [PollFd::new(&ends.read, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn each_event_is_read_once_in_order() {
        let queue = EventQueue::new().unwrap();
        assert!(!readable(&queue));
        queue.post(1);
        queue.post(2);
        assert_eq!(queue.next(), Ok(1));
        assert!(readable(&queue));
        assert_eq!(queue.next(), Ok(2));
        assert!(!readable(&queue));
    }

    #[test]
    fn what_is_forgotten_leaves_nothing_to_read() {
        let queue = EventQueue::new().unwrap();
        queue.post(1);
        queue.post(2);
        queue.post(1);
        queue.forget(|e| *e == 1);
        assert_eq!(queue.next(), Ok(2));
        assert!(!readable(&queue), "a reader would wait for ever");
    }
}
