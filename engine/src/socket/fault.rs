//! What devices report of themselves, and what becomes of their sockets.
//!
//! No link: the kernel has the sockets until the link is back. A queue that has failed is
//! never used again; the interface is opened anew, after a pause that doubles each time,
//! so often and no more. Either way what was received stays to be read.

use super::core::{Core, Directory};
use super::path::{Health, Ring};
use crate::device::{Delivery, Fault};
use crate::error::Reason;
use std::sync::atomic::Ordering;

/// The first pause before an interface is opened again, ns.
const FIRST_PAUSE: u64 = 1_000_000_000;
/// Attempts for one interface in the life of a process.
const ATTEMPTS: u32 = 6;

/// What is next for an interface whose device has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing until then.
    Pause(u64),
    /// It may be opened.
    Open,
    /// Nothing any more.
    Nothing,
}

/// Interfaces whose device has failed. Pure.
#[derive(Debug, Default)]
pub(super) struct Failures(Vec<(u32, u32, Next)>);

impl Failures {
    /// An interface's device has failed, or could not be opened again.
    fn add(&mut self, ifindex: u32, now: u64) {
        let at = self.0.iter().position(|f| f.0 == ifindex);
        let failed = at.map_or(0, |at| self.0.swap_remove(at).1) + 1;
        let next = if failed <= ATTEMPTS {
            Next::Pause(now + (FIRST_PAUSE << (failed - 1)))
        } else {
            Next::Nothing
        };
        self.0.push((ifindex, failed, next));
    }

    /// The interface is not to be opened now.
    pub(super) fn bar(&self, ifindex: u32) -> bool {
        self.0.iter().any(|f| f.0 == ifindex && f.2 != Next::Open)
    }

    /// Interfaces whose pause is over; they may be opened from now on.
    fn end_pauses(&mut self, now: u64) -> Vec<u32> {
        let over = |next| matches!(next, Next::Pause(until) if until <= now);
        let due = self.0.iter_mut().filter(|f| over(f.2));
        due.map(|f| {
            f.2 = Next::Open;
            f.0
        })
        .collect()
    }

    fn next(&self) -> Option<u64> {
        let pauses = self.0.iter().filter_map(|f| match f.2 {
            Next::Pause(until) => Some(until),
            Next::Open | Next::Nothing => None,
        });
        pauses.min()
    }
}

/// Another thread polls the ring now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Polling;

impl Ring {
    /// What the device has reported of itself.
    #[must_use]
    pub fn health(&self) -> Health {
        match self.health.load(Ordering::Relaxed) {
            0 => Health::Good,
            1 => Health::NoLink,
            _ => Health::Failed,
        }
    }

    pub(super) fn set_health(&self, health: Health) {
        self.health.store(health as u8, Ordering::Relaxed);
    }

    /// It is of no more use.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.health() == Health::Failed
    }

    /// The next report of the device.
    ///
    /// # Errors
    /// Another thread polls the ring: it cannot be asked now.
    pub(super) fn take_fault(&self) -> Result<Option<Fault>, Polling> {
        let of_queue = self.state.try_lock().ok_or(Polling)?.queue.take_fault();
        Ok(of_queue.or_else(|| self.transmit.take_fault()))
    }
}

impl Core {
    /// Follows what the devices have reported; the control thread's. True: a ring could not be
    /// asked, and has to be soon.
    pub fn follow_faults(&self, now: u64) -> bool {
        let mut changed = false;
        let mut left = false;
        for ring in self.open_rings().filter(|r| !r.has_failed()) {
            loop {
                match ring.take_fault() {
                    Ok(Some(fault)) => changed |= self.follow_fault(ring, fault, now),
                    Ok(None) => break,
                    Err(Polling) => {
                        left = true;
                        break;
                    }
                }
            }
        }
        if changed {
            self.refresh_rings();
            self.routes_changed();
            self.replan();
        }
        left
    }

    /// True: sockets have to move.
    fn follow_fault(&self, ring: &Ring, fault: Fault, now: u64) -> bool {
        let before = ring.health();
        let after = match fault {
            _ if before == Health::Failed => before,
            Fault::PortDown => Health::NoLink,
            Fault::PortUp => Health::Good,
            Fault::QueueError | Fault::Overrun | Fault::Gone => Health::Failed,
        };
        if after == before {
            return false;
        }
        ring.set_health(after);
        let what = match after {
            Health::Good => "its sockets come back from the kernel",
            Health::NoLink => "its sockets go to the kernel until it is back",
            Health::Failed => "its sockets go to the kernel",
        };
        let line = format!("interface {}: {}; {what}", ring.name, fault.text());
        if after == Health::Good {
            self.say(&line);
        } else {
            self.warn(&line);
        }
        if after == Health::Failed {
            let mut directory = self.directory.lock();
            directory.failures.add(ring.ifindex, now);
            directory.interfaces.remove(&ring.ifindex);
            self.abandon(&mut directory, ring);
        }
        true
    }

    /// Nobody finds the ring any more; the next look opens another.
    fn abandon(&self, directory: &mut Directory, ring: &Ring) {
        directory
            .rings
            .forget(|index| std::ptr::eq(self.ring(index), ring));
        directory
            .rings
            .let_go(|index| std::ptr::eq(self.ring(index), ring));
    }

    /// Links have changed: gives up rings of devices that steer whose interface takes larger
    /// packets than their buffers hold, until [`Core::replan`]. What is too large for its buffer stops a queue pair; a
    /// tap's ring is only slower with it.
    pub fn give_up_outgrown(&self) {
        let outgrown: Vec<_> = {
            let tables = self.tables.read();
            let mtu = |ring: &Ring| tables.interface(ring.ifindex).map_or(0, |i| i.mtu);
            let rings = self.open_rings().filter(|r| !r.has_failed());
            rings
                .filter(|r| r.delivery == Delivery::Steered && mtu(r) > r.mtu)
                .map(|r| (r, mtu(r)))
                .collect()
        };
        if outgrown.is_empty() {
            return;
        }
        for (ring, mtu) in outgrown {
            ring.set_health(Health::Failed);
            self.say(&format!(
                "interface {}: its MTU is {mtu} now: opened again with larger buffers",
                ring.name
            ));
            let mut directory = self.directory.lock();
            let refused = Err(Reason::DeviceFailed);
            directory.interfaces.insert(ring.ifindex, refused);
            self.abandon(&mut directory, ring);
        }
        self.routes_changed();
        // By way of the kernel, and from there in order: the caller's next look at all
        // sockets brings them back.
        self.reconcile_all();
    }

    /// Opens interfaces anew whose device has failed, when it is time; the control
    /// thread's.
    pub fn reopen_due(&self, now: u64) {
        let due = self.directory.lock().failures.end_pauses(now);
        if due.is_empty() {
            return;
        }
        self.replan();
        let mut directory = self.directory.lock();
        for ifindex in due {
            if matches!(directory.interfaces.get(&ifindex), Some(Err(_))) {
                directory.failures.add(ifindex, now);
            }
        }
    }

    /// When [`Self::reopen_due`] has something to do.
    #[must_use]
    pub fn next_reopening(&self) -> Option<u64> {
        self.directory.lock().failures.next()
    }

    /// Descriptors on which devices report.
    pub fn event_fds(&self) -> impl Iterator<Item = std::os::fd::RawFd> {
        let alive = self.open_rings().filter(|r| !r.has_failed());
        alive.filter_map(Ring::event_fd)
    }

    /// Whether an open ring may be used.
    pub(super) fn fit(&self, index: u32) -> Result<u32, Reason> {
        match self.ring(index).health() {
            Health::Good => Ok(index),
            Health::NoLink => Err(Reason::NoLink),
            Health::Failed => Err(Reason::DeviceFailed),
        }
    }

    /// A ring that is not to send: its interface is down, or its device reports so.
    pub(super) fn set_dead(ring: &Ring, interface_down: bool) {
        let dead = interface_down || ring.health() != Health::Good;
        ring.dead.store(dead, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_end() {
        let mut failures = Failures::default();
        assert!(!failures.bar(2));
        let mut now = 5;
        for attempt in 0..ATTEMPTS {
            failures.add(2, now);
            assert!(failures.bar(2) && !failures.bar(3));
            let until = now + (FIRST_PAUSE << attempt);
            assert_eq!(failures.next(), Some(until));
            assert!(failures.end_pauses(until - 1).is_empty());
            assert_eq!(failures.end_pauses(until), [2]);
            assert!(!failures.bar(2));
            now = until;
        }
        failures.add(2, now);
        assert_eq!(failures.next(), None);
        assert!(failures.end_pauses(u64::MAX).is_empty());
        assert!(failures.bar(2));
    }

    #[test]
    fn interfaces_are_kept_apart() {
        let mut failures = Failures::default();
        failures.add(2, 0);
        failures.add(3, FIRST_PAUSE);
        assert_eq!(failures.end_pauses(FIRST_PAUSE), [2]);
        assert_eq!(failures.next(), Some(2 * FIRST_PAUSE));
    }
}
