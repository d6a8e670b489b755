//! After interfaces have changed: all sockets are looked at anew, and move in one step.
//!
//! One at a time, those that share a flow would take its datagrams from each other:
//! a device brings them to the engine while some are the kernel's already, or still. So
//! all let go before any of them is the kernel's, all are known to a ring before
//! it steers for any, and all wait for the same grace periods.

use super::core::Core;
use super::directory::Attached;
use super::udp::UdpSocket;
use crate::device::Delivery;
use crate::sys::{event, sock};
use std::sync::Arc;

type List = Vec<Arc<UdpSocket>>;

impl Core {
    /// Interfaces may be usable that were not, or the other way round.
    pub fn replan(&self) {
        // A refusal may not hold any more; open rings stay.
        self.directory.lock().interfaces.retain(|_, r| r.is_ok());
        self.reconcile_all();
    }

    /// Puts every socket where it belongs by now.
    pub(super) fn reconcile_all(&self) {
        let sockets: List = self.directory.lock().sockets.all().collect();
        let (leaving, rest): (List, List) = sockets.into_iter().partition(|s| s.is_to_leave());
        self.leave_together(&leaving);
        self.come_together(&rest);
    }

    fn leave_together(&self, leaving: &[Arc<UdpSocket>]) {
        let begin = |s: &Arc<UdpSocket>| {
            let control = s.control.lock();
            let mut directory = self.directory.lock();
            s.begin_leaving(&control, &mut directory)
        };
        // Each in turn, none left out.
        if leaving.iter().filter(|s| begin(s)).count() > 0 {
            event::await_receive_path();
        }
        let let_go = |s: &Arc<UdpSocket>| {
            let mut control = s.control.lock();
            let directory = self.directory.lock();
            s.let_go(&mut control, &directory)
        };
        if leaving.iter().filter(|s| let_go(s)).count() > 0 {
            event::await_receive_path();
        }
        for socket in leaving {
            socket.reconcile(&mut socket.control.lock());
        }
    }

    fn come_together(&self, sockets: &[Arc<UdpSocket>]) {
        let inodes = sockets.iter().filter(|s| s.control.lock().stays.is_none());
        let coming: Vec<u64> = inodes.filter_map(|s| sock::inode(s.fd()).ok()).collect();
        self.hold_rings(Some(coming));
        let place = |s: &&Arc<UdpSocket>| s.place(&mut s.control.lock());
        let mut arriving: List = sockets.iter().filter(place).cloned().collect();
        if !self.hold_rings(None) {
            // One at a time, so that those get through for which there is room.
            for socket in &arriving {
                socket.never_came();
            }
            for socket in std::mem::take(&mut arriving) {
                socket.reconcile(&mut socket.control.lock());
            }
        }
        while !arriving.is_empty() {
            event::await_receive_path();
            arriving.retain(|s| s.arrive_further(&mut s.control.lock()));
        }
    }

    /// Holds the steering of all rings back; None: now they steer. False: one cannot.
    fn hold_rings(&self, coming: Option<Vec<u64>>) -> bool {
        let mut directory = self.directory.lock();
        let hold = coming.is_some();
        directory.coming = coming;
        let mut all = true;
        for ring in self.open_rings() {
            all &= ring.hold(hold, &directory.mixed.now).is_ok();
        }
        all
    }
}

impl UdpSocket {
    /// The engine has it, and is to give it up.
    fn is_to_leave(&self) -> bool {
        let mut control = self.control.lock();
        let mut directory = self.core.directory.lock();
        directory.sockets.find(self).is_some() && self.plan(&mut control, &mut directory).is_err()
    }

    /// Its rings bring nothing yet: to the kernel, where everything is.
    fn never_came(&self) {
        let mut control = self.control.lock();
        let mut directory = self.core.directory.lock();
        self.end_leaving(&mut control, &mut directory);
    }

    /// Before it leaves: on devices that steer, nothing new comes for it. True: something
    /// may be under way.
    pub(super) fn unsteer(&self, attached: &Attached) -> bool {
        let rings = self.core.rings_of(attached.mask);
        let steered = rings.filter(|r| r.delivery == Delivery::Steered);
        let port = attached.wants.port;
        steered.filter(|r| r.unsteer(port, self)).count() > 0
    }
}
