//! What becomes of the sockets at fork(2): shared until one side uses them, then the kernel's.
//!
//! In the child the parent's [`Core`] is a thing of the past: its rings are not mapped and
//! their descriptors closed. No socket of it ever joins the engine again.

use super::core::{Core, Follower};
use super::path::{Ring, WHOLE_RING};
use super::udp::{Mode, UdpSocket};
use crate::ring;
use crate::sys::event::{await_receive_path, ppoll, yield_now};
use crate::sys::foreign::{self, Foreign};
use crate::sys::mutex::{self, Quiet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often everything is tried to be held at once. More would mean that somebody never lets
/// go; the child may then find something locked.
const TRIES: u32 = 100_000;

static FORKED_CHILD: AtomicBool = AtomicBool::new(false);
static HELD_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// This process was forked from one that had an engine.
#[must_use]
pub fn in_forked_child() -> bool {
    FORKED_CHILD.load(Ordering::Relaxed)
}

/// Another process may hold files of this one: a close here does not end them.
#[must_use]
pub fn held_elsewhere() -> bool {
    HELD_ELSEWHERE.load(Ordering::Relaxed)
}

/// From now on one may.
pub(super) fn hold_elsewhere() {
    HELD_ELSEWHERE.store(true, Ordering::Relaxed);
}

/// What is held across fork: no lock of the control plane is anybody's, none of the data path
/// anybody else's.
#[derive(Debug)]
pub(crate) struct ForkState {
    core: &'static Core,
    held: Held,
    /// No other thread is in the middle of a library's call: its locks are free in the child.
    _foreign: Option<Foreign>,
    quiet: Quiet,
}

/// Locks of the data path, as far as they were got.
#[derive(Debug, Default)]
struct Held {
    rings: Vec<&'static Ring>,
    sockets: Vec<Arc<UdpSocket>>,
    followers: Vec<Arc<dyn Follower>>,
}

impl Held {
    /// False: somebody is at work on one of them.
    fn take(&mut self, core: &'static Core, sockets: Vec<Arc<UdpSocket>>) -> bool {
        for ring in core.open_rings() {
            if !ring.hold_for_fork() {
                return false;
            }
            self.rings.push(ring);
        }
        for socket in sockets {
            if !socket.hold_for_fork() {
                return false;
            }
            self.sockets.push(socket);
        }
        for follower in core.followers() {
            if !follower.hold_for_fork() {
                return false;
            }
            self.followers.push(follower);
        }
        true
    }

    fn give(&mut self, child: bool) {
        self.followers.drain(..).for_each(|f| f.end_hold(child));
        self.sockets.drain(..).for_each(|s| s.end_hold(child));
        self.rings.drain(..).for_each(|r| r.end_hold());
    }
}

impl Core {
    /// Before fork: nobody changes anything while the child is made, and what the rings hold
    /// is where parent and child can share it.
    pub(crate) fn prepare_fork(&'static self) -> ForkState {
        self.settle_moves();
        for ring in self.open_rings() {
            ring.drain(WHOLE_RING);
        }
        let (mut tries, mut moves) = (0, 0);
        loop {
            // Whoever has a lock of the data path may wait for one of the control plane, so
            // those of the data path are not waited for.
            let quiet = mutex::quiesce();
            let foreign = foreign::try_enter();
            let sockets: Vec<Arc<UdpSocket>> = self.directory.lock().sockets.all().collect();
            if moves < MOVES && sockets.iter().any(|s| s.moving.by_tap_still()) {
                moves += 1;
                drop((quiet, foreign));
                self.settle_moves();
                continue;
            }
            let mut held = Held::default();
            tries += 1;
            if foreign.is_some() && held.take(self, sockets) || tries == TRIES {
                return ForkState {
                    core: self,
                    held,
                    _foreign: foreign,
                    quiet,
                };
            }
            held.give(false);
            drop((quiet, foreign));
            yield_now();
        }
    }
}

/// How often moves that begin meanwhile are waited for.
const MOVES: u32 = 8;
/// How often [`Core::settle_moves`] looks for moves to have come to their last step, ms.
const MOVE_TURNS: u32 = 100;

impl Core {
    /// A child would find copies on a kernel socket of what its parent's ring has brought, and
    /// the parent would put its filter on after the child has taken it off: no socket moves
    /// between a tap and the kernel while a fork is made.
    fn settle_moves(&self) {
        let moving = || -> Vec<_> {
            let directory = self.directory.lock();
            let all = directory.sockets.all();
            all.filter(|s| s.moving.by_tap_still()).collect()
        };
        let mut sockets = moving();
        if sockets.is_empty() {
            return;
        }
        for _ in 0..MOVE_TURNS {
            if !sockets.iter().any(|s| s.moving.has_steps_left()) {
                break;
            }
            let _ = ppoll(&mut [], Some(1_000_000), None);
            sockets = moving();
        }
        // The last copies are on the kernel sockets then.
        await_receive_path();
        for socket in sockets {
            socket.absorb_copies();
        }
    }
}

impl ForkState {
    /// In the parent: everything goes on.
    pub(crate) fn end_parent(mut self) {
        hold_elsewhere();
        self.held.give(false);
    }

    /// In the child: every socket is the parent's until its first use here.
    pub(crate) fn end_child(mut self) {
        FORKED_CHILD.store(true, Ordering::Relaxed);
        hold_elsewhere();
        self.core.forked.store(true, Ordering::Relaxed);
        ring::renew_in_child();
        ring::forget_spinners();
        self.held.give(true);
        let mut directory = self.core.directory.lock();
        for socket in directory.sockets.all() {
            // Also one of the kernel's: the parent may take it up before it is used here.
            socket.set_mode(Mode::Inherited);
            // What ran in the parent's other threads does not run here.
            socket.set_rings(0);
            socket.unbound.store(false, Ordering::Release);
            socket.moving.forget_in_child();
            socket.parked.store(false, Ordering::Release);
            socket.forget_calls();
        }
        // Leaving a ring means emptying it, and here there is none.
        directory.sockets.clear();
        drop(directory);
        // The parent's answers would come to whoever reads first.
        *self.core.routes.lock() = None;
        self.quiet.end_in_child();
    }
}
