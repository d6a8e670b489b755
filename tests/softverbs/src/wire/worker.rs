//! A thread of a wire that waits for descriptors, and ends with its wire.

use super::syscall::{Fd, call};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The thread's side: tells when to end.
pub(super) struct Stop(Arc<Fd>);

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
    stop: Arc<Fd>,
    thread: Option<JoinHandle<()>>,
    process: Pid,
}

impl Worker {
    /// Starts one.
    pub(super) fn spawn(
        name: &str,
        work: impl FnOnce(&Stop) + Send + 'static,
    ) -> Result<Self, Errno> {
        // SAFETY: integers only.
        let stop = unsafe {
            call(
                libc::SYS_eventfd2,
                [0, libc::EFD_CLOEXEC as usize, 0, 0, 0, 0],
            )?
        };
        let stop = Arc::new(Fd::adopt(stop as RawFd)?);
        let theirs = Stop(Arc::clone(&stop));
        let thread = crate::interrupts::without_signals(|| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || work(&theirs))
                .map_err(|_| Errno::AGAIN)
        })?;
        Ok(Self {
            stop,
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
        let one = 1u64;
        // SAFETY: eight live bytes, as an eventfd takes them.
        let _ = unsafe {
            call(
                libc::SYS_write,
                [
                    self.stop.raw() as usize,
                    (&raw const one) as usize,
                    8,
                    0,
                    0,
                    0,
                ],
            )
        };
        if let Some(thread) = self.thread.take() {
            // The thread itself may have dropped the last reference to its wire.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
