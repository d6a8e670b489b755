//! A socket changes its ring when another thread or core has taken to using it
//! (VMA_RING_ALLOCATION_LOGIC 20, 30, 31; VMA_RING_MIGRATION_RATIO_*).
//!
//! Both rings of the interface bring every frame for a while, with the same time stamp:
//! what was stamped before the change-over is the old one's, the rest the new one's.
//! Whoever takes a datagram from the new ring empties the old one before, so that the order
//! stays. Devices whose queues do not stamp alike leave a socket where it is.

use super::core::{Core, Directory, bits};
use super::demux::Place;
use super::directory::{Attached, Move};
use super::rings::Key;
use super::route::patient;
use super::udp::UdpSocket;
use crate::clock;
use crate::error::Errno;
use crate::sys::sock;
use std::net::Ipv4Addr;
use std::sync::Weak;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU32, AtomicUsize, Ordering};

/// How long the old ring is still looked at, ns: for frames under way, and for fragments.
const OVERLAP: u64 = 200_000_000;
/// How often a busy old ring is tried by one who wants to empty it.
const TRIES: u32 = 200;

/// Bits of [`Habits::watched`].
const RECEIVES: u8 = 1;
const SENDS: u8 = 2;
/// An error waits for the next receive call.
const ERROR: u8 = 4;
/// The kernel socket may have one, which comes before anything that is queued.
const KERNEL_ERROR: u8 = 8;

/// Who uses a socket, one direction: what is written by its calls without any lock. Two
/// threads that call at once may miscount; they only move a little sooner or later.
#[derive(Debug, Default)]
struct Habit {
    calls: AtomicU32,
    /// Key that its ring is for.
    user: AtomicUsize,
    /// Another one, seen at the last look.
    candidate: AtomicUsize,
}

impl Habit {
    /// Counts a call; true: it is time to look who calls.
    fn due(&self, ratio: u32) -> bool {
        let calls = self.calls.load(Ordering::Relaxed) + 1;
        let due = calls >= ratio;
        self.calls
            .store(if due { 0 } else { calls }, Ordering::Relaxed);
        due
    }

    /// The caller is this one; true: and was at the last look, and has no ring here.
    fn settled(&self, caller: usize) -> bool {
        if self.user.load(Ordering::Relaxed) == caller {
            self.candidate.store(0, Ordering::Relaxed);
            return false;
        }
        self.candidate.swap(caller, Ordering::Relaxed) == caller
    }

    fn set(&self, user: usize) {
        self.user.store(user, Ordering::Relaxed);
        self.candidate.store(0, Ordering::Relaxed);
    }
}

/// Who uses a socket.
#[derive(Debug, Default)]
pub(super) struct Habits {
    watched: AtomicU8,
    error: AtomicI32,
    receives: Habit,
    sends: Habit,
}

impl Habits {
    pub(super) fn new(receives: bool, sends: bool) -> Self {
        let watched = (u8::from(receives) * RECEIVES) | (u8::from(sends) * SENDS);
        Self {
            watched: AtomicU8::new(watched),
            ..Self::default()
        }
    }

    /// Receive calls are counted, or one is to fail.
    #[inline(always)]
    pub(super) fn watch_receives(&self) -> bool {
        self.watched.load(Ordering::Relaxed) & (RECEIVES | ERROR | KERNEL_ERROR) != 0
    }

    /// Send calls are counted.
    #[inline(always)]
    pub(super) fn watch_sends(&self) -> bool {
        self.watched.load(Ordering::Relaxed) & SENDS != 0
    }

    pub(super) fn receives_for(&self, key: Key) {
        self.receives.set(key.number());
    }

    pub(super) fn sends_for(&self, key: Key) {
        self.sends.set(key.number());
    }
}

/// Sockets on two rings of an interface, and until when.
pub(super) type Migrations = Vec<(Weak<UdpSocket>, u64)>;

impl UdpSocket {
    /// A call that has received something has ended by an error, which is the next
    /// receive call's (`do_recvmmsg` of Linux).
    pub fn leave_error(&self, errno: Errno) {
        self.habits.error.store(errno.0, Ordering::Relaxed);
        self.habits.watched.fetch_or(ERROR, Ordering::Release);
    }

    /// The kernel socket has an error, which a receive call is to bring.
    pub(super) fn expect_error(&self) {
        self.habits
            .watched
            .fetch_or(KERNEL_ERROR, Ordering::Release);
    }

    /// A receive call begins; the error that it ends with at once.
    #[cold]
    pub(super) fn begin_receive(&self, flags: i32) -> Result<(), Errno> {
        let watched = self.habits.watched.load(Ordering::Acquire);
        if watched & ERROR != 0 && flags & libc::MSG_ERRQUEUE == 0 {
            self.habits.watched.fetch_and(!ERROR, Ordering::Relaxed);
            return Err(Errno(self.habits.error.load(Ordering::Relaxed)));
        }
        if watched & KERNEL_ERROR != 0 && flags & libc::MSG_ERRQUEUE == 0 {
            self.habits
                .watched
                .fetch_and(!KERNEL_ERROR, Ordering::Relaxed);
            let waiting = sock::get_int(self.fd(), libc::SOL_SOCKET, libc::SO_ERROR);
            if let Ok(errno @ 1..) = waiting {
                return Err(Errno(errno));
            }
        }
        self.count_receive();
        Ok(())
    }

    fn count_receive(&self) {
        let allocation = &self.core.allocation;
        let Some(ratio) = allocation.receive_ratio else {
            return;
        };
        if self.habits.receives.due(ratio) {
            let key = allocation.receive_key(self, Ipv4Addr::UNSPECIFIED);
            if self.habits.receives.settled(key.number()) {
                self.move_receives(key);
            }
        }
    }

    /// A send call begins.
    #[cold]
    pub(super) fn count_send(&self) {
        let allocation = &self.core.allocation;
        let Some(ratio) = allocation.send_ratio else {
            return;
        };
        if self.habits.sends.due(ratio) {
            let key = allocation.send_key(self, Ipv4Addr::UNSPECIFIED);
            if self.habits.sends.settled(key.number()) {
                self.move_sends(key);
            }
        }
    }

    /// The next send goes by the ring of this key, on every interface that it has sent to.
    fn move_sends(&self, key: Key) {
        let core = self.core;
        // In a signal handler this very thread may be at work on the socket.
        let Some(mut control) = patient(&self.control) else {
            return;
        };
        let Ok(local) = Self::local_v4(&control) else {
            return;
        };
        if control.transmit_rings == 0 {
            return;
        }
        self.habits.sends_for(key);
        control.transmit_key = Some(key);
        let Some(mut directory) = patient(&core.directory) else {
            return;
        };
        let before = control.transmit_rings;
        let mut now = 0;
        let mut rings = Vec::new();
        for index in bits(before) {
            let interface = core
                .tables
                .read()
                .interface(core.ring(index).ifindex)
                .cloned();
            let Some(interface) = interface else { continue };
            let to = self.open_transmit(&mut control, &mut directory, &interface, *local.ip());
            let to = to.unwrap_or(index);
            now |= 1 << to;
            rings.push(core.ring(to));
        }
        directory.rings.sending(control.transmit_rings, now);
        control.transmit_rings = now;
        drop(directory);
        drop(control);
        if let Some(mut cache) = self.tx.lock() {
            cache.send_by(&rings);
        }
        if now != before {
            self.stats.life.tx_migrations.add(1);
        }
    }

    fn move_receives(&self, key: Key) {
        let Some(mut control) = patient(&self.control) else {
            return;
        };
        if !self.mode().is_engine() || control.receive_key.is_none() {
            return;
        }
        let Some(mut directory) = patient(&self.core.directory) else {
            return;
        };
        let Some(attached) = directory.sockets.find(self).cloned() else {
            return;
        };
        if !attached.moves.is_empty() {
            return; // still on its way
        }
        self.habits.receives_for(key);
        let mut moves = Vec::new();
        for from in bits(attached.mask) {
            let ring = self.core.ring(from);
            let interface = self.core.tables.read().interface(ring.ifindex).cloned();
            let Some(interface) = interface.filter(|_| ring.stamps_alike()) else {
                continue;
            };
            let to = self
                .core
                .ensure_ring(self, &mut directory, &interface, key, true);
            if let Ok(to) = to
                && to != from
                && self.core.ring(to).stamps_alike()
            {
                moves.push(Move {
                    from,
                    to,
                    at: u64::MAX,
                });
            }
        }
        // Else its key stays, too: with another the next look at the socket would move it.
        if !moves.is_empty() {
            control.receive_key = Some(key);
            self.change_over(&mut directory, &attached, moves);
        }
    }

    fn change_over(&self, directory: &mut Directory, before: &Attached, moves: Vec<Move>) {
        let mut now = before.clone();
        now.mask |= moves.iter().fold(0, |mask, m| mask | 1 << m.to);
        now.moves = moves;
        let port = now.wants.port;
        directory.rings.receiving(before.mask, now.mask);
        directory.sockets.put(now.clone());
        // From here on the new rings bring its frames, too, but it takes nothing from them.
        if self.core.level(directory, port, now.mask).is_err() {
            directory.rings.receiving(now.mask, before.mask);
            directory.sockets.put(before.clone());
            let _ = self.core.level(directory, port, now.mask);
            return;
        }
        self.set_rings(now.mask);
        for step in &mut now.moves {
            step.at = self.switch(port, *step);
        }
        directory.sockets.put(now);
        let until = clock::monotonic() + OVERLAP;
        directory.migrating.push((self.me.clone(), until));
        self.stats.life.rx_migrations.add(1);
        self.core.ring_changed();
    }

    /// One interface's change-over, with nobody in either ring; when it was.
    fn switch(&self, port: u16, step: Move) -> u64 {
        let (old, new) = (self.core.ring(step.from), self.core.ring(step.to));
        let (first, second) = if step.from < step.to {
            (old, new)
        } else {
            (new, old)
        };
        let at = first.with(|one| {
            second.with(|other| {
                let (from, to) = if step.from < step.to {
                    (one, other)
                } else {
                    (other, one)
                };
                old.drain_locked(from);
                let at = clock::realtime();
                from.set_place(port, self, Place::Until(at));
                to.set_place(port, self, Place::Since(at, step.from));
                old.drain_locked(from);
                at
            })
        });
        at.flatten().unwrap_or(u64::MAX)
    }

    /// A datagram that came by a ring which is not, or not yet alone, this socket's; true:
    /// it is to have it.
    #[cold]
    #[inline(never)]
    pub(super) fn takes_from(&self, place: Place, begun: u64) -> bool {
        match place {
            Place::Here => true,
            Place::Elsewhere => false,
            Place::Until(at) => begun < at,
            Place::Since(at, from) => {
                let takes = begun >= at;
                if takes {
                    // What is older comes first.
                    let old = self.core.ring(from);
                    let tries = (0..TRIES).map(|_| old.try_drain());
                    let _ = tries.into_iter().find(|emptied| *emptied);
                }
                takes
            }
        }
    }
}

impl Core {
    /// Ends what [`UdpSocket::move_receives`] began, where it is time; the control thread's.
    pub fn end_moves(&self, now: u64) {
        let due: Vec<_> = {
            let mut directory = self.directory.lock();
            let due = directory.migrating.extract_if(.., |m| m.1 <= now);
            due.filter_map(|(socket, _)| socket.upgrade()).collect()
        };
        for socket in due {
            let _control = socket.control.lock();
            let mut directory = self.directory.lock();
            socket.end_move(&mut directory);
        }
    }

    /// When [`Self::end_moves`] has something to do.
    #[must_use]
    pub fn next_move(&self) -> Option<u64> {
        let directory = self.directory.lock();
        directory.migrating.iter().map(|m| m.1).min()
    }
}

impl UdpSocket {
    /// The old rings are left.
    pub(super) fn end_move(&self, directory: &mut Directory) {
        let Some(before) = directory.sockets.find(self).cloned() else {
            return;
        };
        if before.moves.is_empty() {
            return;
        }
        let mut now = before.clone();
        now.mask &= !before.left();
        for step in now.moves.drain(..) {
            self.core.ring(step.from).drain(usize::MAX);
            // What the old one has brought as well is passed over there now.
            self.core.ring(step.to).drain(usize::MAX);
        }
        let port = now.wants.port;
        directory.rings.receiving(before.mask, now.mask);
        self.set_rings(now.mask);
        directory.sockets.put(now);
        let _ = self.core.level(directory, port, before.mask);
        self.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passing_user_moves_nothing() {
        let habit = Habit::default();
        habit.set(1);
        assert!(!habit.settled(1));
        assert!(!habit.settled(2));
        assert!(!habit.settled(1));
        assert!(!habit.settled(2));
        assert!(!habit.settled(3));
        assert!(habit.settled(3));
    }

    #[test]
    fn looks_come_as_often_as_asked() {
        let habit = Habit::default();
        let looks = (0..1000).filter(|_| habit.due(100)).count();
        assert_eq!(looks, 10);
        assert_eq!((0..10).filter(|_| habit.due(1)).count(), 10);
    }
}
