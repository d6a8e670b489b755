//! What becomes of the sockets at fork(2): shared until one side uses them, then the kernel's.
//!
//! In the child the parent's [`Core`] is a thing of the past: its rings are not mapped and
//! their descriptors closed. No socket of it ever joins the engine again.

use super::core::{Core, Directory};
use super::path::WHOLE_RING;
use super::udp::{Mode, UdpSocket};
use crate::sys::foreign::{self, Foreign};
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

static FORKED_CHILD: AtomicBool = AtomicBool::new(false);

/// This process was forked from one that had an engine.
#[must_use]
pub fn in_forked_child() -> bool {
    FORKED_CHILD.load(Ordering::Relaxed)
}

/// What is held across fork.
#[derive(Debug)]
pub(crate) struct ForkState {
    core: &'static Core,
    directory: MutexGuard<'static, Directory>,
    /// No other thread is in the middle of a library's call: its locks are free in the child.
    _foreign: Foreign,
    held: Vec<Arc<UdpSocket>>,
}

impl Core {
    /// Before fork: nobody changes the directory while the child is made, and what the
    /// rings hold is where parent and child can share it.
    pub(crate) fn prepare_fork(&'static self) -> ForkState {
        let directory = self.directory.lock();
        for ring in self.open_rings() {
            ring.drain(WHOLE_RING);
        }
        let sockets = directory.sockets.attached().map(|a| Arc::clone(&a.socket));
        let held = sockets.filter(|s| s.share_queue()).collect();
        ForkState {
            core: self,
            directory,
            _foreign: foreign::enter(),
            held,
        }
    }
}

impl ForkState {
    /// In the parent: everything goes on.
    pub(crate) fn end_parent(self) {
        for socket in &self.held {
            socket.end_share(false);
        }
    }

    /// In the child: every socket is the parent's until its first use here.
    pub(crate) fn end_child(mut self) {
        FORKED_CHILD.store(true, Ordering::Relaxed);
        self.core.forked.store(true, Ordering::Relaxed);
        for socket in &self.held {
            socket.end_share(true);
        }
        for socket in self.directory.sockets.all() {
            if socket.sends_by_ring() {
                socket.set_mode(Mode::Inherited);
            }
            // What ran in the parent's other threads does not run here.
            socket.set_rings(0);
            socket.unbound.store(false, Ordering::Release);
            socket.moving.forget_in_child();
            socket.parked.store(false, Ordering::Release);
            // Their events are closed, and the numbers may become anything.
            if let Some(mut waiters) = socket.waiters.try_lock() {
                waiters.clear();
            }
        }
        // Leaving a ring means emptying it, and here there is none.
        self.directory.sockets.clear();
        // The parent's answers would come to whoever reads first.
        if let Some(mut routes) = self.core.routes.try_lock() {
            *routes = None;
        }
    }
}
