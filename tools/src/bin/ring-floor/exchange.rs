//! The two loops. Every wait is bounded; nothing is allocated in them.

use crate::frame::{Frame, PAYLOAD};
use engine::sys::packet::{PacketRing, PacketSender};
use hdrhistogram::Histogram;
use std::error::Error;
use std::time::{Duration, Instant};

/// How long an answer may take; then the ping counts as lost and the next one goes out.
const ANSWER: Duration = Duration::from_millis(100);
/// How long a ping looks for the other end at the start.
const START: Duration = Duration::from_secs(3);
const WARM_UP: Duration = Duration::from_millis(200);
/// Misses between two looks at the clock.
const MISSES: u32 = 1024;
/// Longer round trips are counted as this long.
const HIGHEST: u64 = 1_000_000_000;

/// One end: its ring, its sending socket and its frame.
pub(crate) struct Link {
    ring: PacketRing,
    sender: PacketSender,
    frame: Frame,
}

impl Link {
    pub(crate) fn new(ring: PacketRing, sender: PacketSender, frame: Frame) -> Self {
        Self {
            ring,
            sender,
            frame,
        }
    }

    /// The next payload of ours, if a frame waits.
    fn receive(&mut self) -> Option<[u8; PAYLOAD]> {
        let payload = {
            let slot = self.ring.peek()?;
            self.frame.payload_of(slot.data).copied()
        };
        self.ring.release();
        payload
    }

    /// A frame that the interface refuses is a lost one: the ping's timer notices.
    fn send(&mut self, payload: &[u8; PAYLOAD]) {
        self.frame.payload_mut().copy_from_slice(payload);
        let _ = self.sender.send(self.frame.bytes());
    }

    /// Waits for a payload until the deadline.
    fn wait(&mut self, deadline: Instant) -> Option<[u8; PAYLOAD]> {
        let mut misses = 0;
        loop {
            if let Some(payload) = self.receive() {
                return Some(payload);
            }
            misses += 1;
            if misses == MISSES {
                if Instant::now() >= deadline {
                    return None;
                }
                misses = 0;
            }
            std::hint::spin_loop();
        }
    }
}

/// What a ping measured.
pub(crate) struct Report {
    /// Nanoseconds.
    pub(crate) round_trips: Histogram<u64>,
    pub(crate) lost: u64,
}

fn numbered(sequence: u64) -> [u8; PAYLOAD] {
    let mut payload = [0; PAYLOAD];
    payload[..8].copy_from_slice(&sequence.to_be_bytes());
    payload
}

/// Waits for the answer to `sequence`, leaving older ones aside.
fn answer(link: &mut Link, sequence: u64, deadline: Instant) -> bool {
    let wanted = sequence.to_be_bytes();
    while let Some(payload) = link.wait(deadline) {
        if payload[..8] == wanted {
            return true;
        }
    }
    false
}

/// Sends and measures for `duration`, after the other end has been found.
pub(crate) fn ping(link: &mut Link, duration: Duration) -> Result<Report, Box<dyn Error>> {
    let mut sequence = 0u64;
    let begin = Instant::now();
    loop {
        sequence += 1;
        link.send(&numbered(sequence));
        if answer(link, sequence, Instant::now() + ANSWER) {
            break;
        }
        if begin.elapsed() > START {
            return Err("no answer from the other end".into());
        }
    }
    let mut round_trips = Histogram::new_with_max(HIGHEST, 3)?;
    let mut lost = 0;
    let measure = Instant::now() + WARM_UP;
    let end = measure + duration;
    loop {
        sequence += 1;
        let payload = numbered(sequence);
        let sent = Instant::now();
        link.send(&payload);
        let answered = answer(link, sequence, sent + ANSWER);
        let now = Instant::now();
        if now >= end {
            break;
        }
        if sent < measure {
            continue;
        }
        if answered {
            round_trips.saturating_record((now - sent).as_nanos() as u64);
        } else {
            lost += 1;
        }
    }
    Ok(Report { round_trips, lost })
}

/// Answers for `duration`.
pub(crate) fn pong(link: &mut Link, duration: Duration) {
    let end = Instant::now() + duration;
    while let Some(payload) = link.wait(end) {
        link.send(&payload);
        // A ping that never stops must not keep this end alive.
        if payload[7] == 0 && Instant::now() >= end {
            break;
        }
    }
}
