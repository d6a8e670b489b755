//! Receiving and sending by a queue pair.

use super::probe;
use super::rules::{self, Rules, Scope};
use super::shared::Member;
use crate::clock::{self, TickClock};
use crate::device::{CARD_TIME, Fault, Flow, Queue, RxFrame, Transmit, Watch};
use crate::error::{Errno, Reason};
use crate::ring::Lock;
use crate::sys::event;
use crate::sys::verbs::{QueuePair, Rule, RxRing, TxRing};
use std::os::fd::RawFd;
use std::sync::Arc;

/// A card's time this far before the moment of the look, or after it, is that of a clock
/// that nobody keeps: the moment counts then.
const STAMP_PAST: u64 = 1_000_000_000;

/// The receive side.
#[derive(Debug)]
pub(super) struct VerbsQueue {
    // Before the ring and the queue pair that they point to.
    rules: Rules<Rule>,
    ring: RxRing,
    pair: Arc<QueuePair>,
    scope: Scope,
    /// When the frames at hand were taken from the card.
    taken_at: u64,
    clock: TickClock,
    /// The ring's trouble has been reported.
    reported: bool,
    member: Arc<Member>,
}

impl VerbsQueue {
    pub(super) fn new(
        ring: RxRing,
        pair: Arc<QueuePair>,
        scope: Scope,
        member: Arc<Member>,
    ) -> Self {
        Self {
            rules: Rules::default(),
            ring,
            pair,
            scope,
            taken_at: 0,
            clock: TickClock::default(),
            reported: false,
            member,
        }
    }
}

impl Queue for VerbsQueue {
    #[inline]
    fn ready(&self) -> bool {
        !self.ring.is_dry()
    }

    #[inline]
    fn next(&mut self) -> Option<RxFrame<'_>> {
        let (clock, taken_at) = (&mut self.clock, &mut self.taken_at);
        let looked = || *taken_at = clock.now(event::ticks(), clock::realtime);
        let frame = self.ring.head(looked)?;
        let taken_at = self.taken_at;
        Some(RxFrame {
            data: frame.data,
            timestamp: stamp(frame.stamp, taken_at),
            trusted: frame.verified,
            segment: 0,
        })
    }

    /// A completion queue can only be looked at by taking from it.
    fn watch(&self) -> Option<Watch> {
        None
    }

    #[inline]
    fn release(&mut self) {
        self.ring.release();
    }

    fn sleep_fd(&self) -> Option<RawFd> {
        self.ring.sleep_fd()
    }

    fn arm(&mut self) -> bool {
        if !self.ring.is_dry() {
            return false;
        }
        // Without a wake-up the caller looks again and again: slow, and right.
        self.ring.completions().arm().is_ok() && self.next().is_none()
    }

    fn steer(&mut self, flows: &[Flow]) -> Result<(), Reason> {
        let wanted = rules::wanted(flows, &self.scope)?;
        let pair = &self.pair;
        self.rules.change(&wanted, |spec| {
            Rule::create(pair, spec).map_err(probe::rule_reason)
        })
    }

    fn take_drops(&mut self) -> u64 {
        self.member.device.take_lost(self.scope.port)
    }

    fn take_fault(&mut self) -> Option<Fault> {
        if self.ring.trouble().is_some() && !self.reported {
            self.reported = true;
            self.member.reports.push(Fault::QueueError);
        }
        self.member.take_fault()
    }

    /// The same for all queues of a device: when it is readable, ask them all.
    fn event_fd(&self) -> Option<RawFd> {
        Some(self.member.device.watch.fd())
    }
}

/// The card's time if it is one of this host's clock, else that of the look; [`CARD_TIME`] says
/// which.
#[inline]
fn stamp(card: u64, taken_at: u64) -> u64 {
    // Also false for a time that is yet to come, and for none.
    if taken_at.wrapping_sub(card) < STAMP_PAST {
        card | CARD_TIME
    } else {
        taken_at & !CARD_TIME
    }
}

/// The send side; used by any thread.
#[derive(Debug)]
pub(super) struct VerbsTransmit {
    /// None: given up, and with it the queue pair's memory.
    ring: Lock<Option<Sender>>,
    checksums: bool,
}

#[derive(Debug)]
struct Sender {
    ring: TxRing,
    reported: bool,
    member: Arc<Member>,
}

impl VerbsTransmit {
    pub(super) fn new(mut ring: TxRing, checksums: bool, member: Arc<Member>) -> Self {
        ring.watch_errors();
        if let Some(fd) = ring.error_fd() {
            let _ = member.device.watch.add(fd);
        }
        let sender = Sender {
            ring,
            reported: false,
            member,
        };
        Self {
            ring: Lock::new(Some(sender)),
            checksums,
        }
    }
}

impl Sender {
    #[cold]
    fn look_for_failure(&mut self) {
        if self.ring.failed().is_some() && !self.reported {
            self.reported = true;
            // What is flushed from now on says nothing new.
            if let Some(fd) = self.ring.error_fd() {
                self.member.device.watch.remove(fd);
            }
            self.member.report(Fault::QueueError);
        }
    }
}

impl Transmit for VerbsTransmit {
    #[inline]
    fn send(&self, frame: &[u8]) -> Result<(), Errno> {
        // None: a signal handler, above a send of this very thread that cannot go on before
        // it returns. To wait for room would be to wait for ever.
        let mut ring = self.ring.lock().ok_or(Errno(libc::ENOBUFS))?;
        let sender = ring.as_mut().ok_or(Errno(libc::ENETDOWN))?;
        let checksum = self.checksums && wants_checksum(frame);
        let result = sender.ring.send(frame, checksum);
        if result.is_err() {
            sender.look_for_failure();
        }
        result
    }

    /// A completion queue of sends has no channel: room comes within microseconds.
    fn ready_fd(&self) -> Option<RawFd> {
        None
    }

    fn take_fault(&self) -> Option<Fault> {
        let mut ring = self.ring.lock()?;
        let sender = ring.as_mut()?;
        sender.ring.watch_errors();
        sender.look_for_failure();
        sender.member.take_fault()
    }

    fn event_fd(&self) -> Option<RawFd> {
        let ring = self.ring.lock()?;
        Some(ring.as_ref()?.member.device.watch.fd())
    }

    fn retire(&self) {
        let gone = self.ring.lock().and_then(|mut ring| ring.take());
        drop(gone);
    }
}

/// Whether a frame, which is always one of an IPv4 UDP datagram without options, is a whole
/// datagram that carries a checksum: the card would write one into a fragment as well, and
/// into a datagram whose sender wants none.
#[inline]
fn wants_checksum(frame: &[u8]) -> bool {
    const IPV4_UDP: usize = 42;
    let Some(header) = frame.first_chunk::<IPV4_UDP>() else {
        return false;
    };
    let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    word(20) & 0x3fff == 0 && word(40) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_nobody_keeps_is_not_believed() {
        const NOW: u64 = 1_700_000_000_000_000_000;
        assert_eq!(stamp(NOW - 5_000, NOW), NOW - 4_999);
        assert_eq!(stamp(NOW - 5_001, NOW), NOW - 5_001);
        assert_eq!(stamp(NOW, NOW), NOW + 1);
        assert_eq!(stamp(NOW + 1, NOW), NOW, "from the future");
        assert_eq!(stamp(NOW - STAMP_PAST, NOW), NOW, "from long ago");
        assert_eq!(stamp(0, NOW + 1), NOW, "none at all");
    }

    #[test]
    fn the_card_sums_whole_datagrams_only() {
        let mut frame = [0u8; 60];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[20] = 0x40; // DF
        frame[23] = 17;
        frame[40] = 1;
        assert!(wants_checksum(&frame));
        assert!(!wants_checksum(&frame[..41]));
        let changed = |at: usize, value: u8| {
            let mut other = frame;
            other[at] = value;
            wants_checksum(&other)
        };
        assert!(!changed(20, 0x20), "first fragment");
        assert!(!changed(21, 1), "another fragment");
        assert!(!changed(40, 0), "SO_NO_CHECK");
    }
}
