//! A thread of a wire that waits for descriptors, and ends with its wire.

use super::syscall::{Fd, call};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use std::os::fd::RawFd;
use std::thread::JoinHandle;

/// The thread's side: tells when to end.
pub(super) struct Stop(Fd);

impl Stop {
    /// Waits until one of the descriptors is readable; which are. `None`: end.
    pub(super) fn wait(&self, descriptors: &[RawFd]) -> Option<Vec<bool>> {
        loop {
            let mut fds: Vec<libc::pollfd> = std::iter::once(self.0.raw())
                .chain(descriptors.iter().copied())
                .map(|fd| libc::pollfd {
                    fd,
                    events: libc::POLLIN,
                    revents: 0,
                })
                .collect();
            // SAFETY: the array is live; no timeout and no signal mask are given.
            let polled = unsafe {
                call(
                    libc::SYS_ppoll,
                    [fds.as_mut_ptr() as usize, fds.len(), 0, 0, 0, 0],
                )
            };
            match polled {
                Err(Errno::INTR) => continue,
                Err(_) => return None,
                Ok(_) if fds[0].revents != 0 => return None,
                Ok(_) => return Some(fds[1..].iter().map(|fd| fd.revents != 0).collect()),
            }
        }
    }
}

/// The owner's side: ends the thread when dropped.
pub(super) struct Worker {
    /// Closed to end it.
    stop: Option<Fd>,
    thread: Option<JoinHandle<()>>,
    process: Pid,
}

impl Worker {
    /// Starts one.
    pub(super) fn spawn(
        name: &str,
        work: impl FnOnce(&Stop) + Send + 'static,
    ) -> Result<Self, Errno> {
        let mut ends: [RawFd; 2] = [-1; 2];
        let flags = libc::O_CLOEXEC as usize;
        // SAFETY: room for the two numbers.
        unsafe {
            call(
                libc::SYS_pipe2,
                [ends.as_mut_ptr() as usize, flags, 0, 0, 0, 0],
            )?
        };
        // Readable when the other end is closed.
        let theirs = Stop(Fd::adopt(ends[0])?);
        let stop = Fd::adopt(ends[1])?;
        let thread = crate::interrupts::without_signals(|| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || work(&theirs))
                .map_err(|_| Errno::AGAIN)
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
            process: getpid(),
        })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A forked child has the value but not the thread.
        if getpid() != self.process {
            return;
        }
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread itself may have dropped the last reference to its wire.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
