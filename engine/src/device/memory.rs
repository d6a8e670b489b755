//! The `memory` device: no kernel, no privilege, no timing.
//!
//! It stands for a peer that answers every datagram: a frame sent comes back with
//! link, network and port addresses exchanged. For tests and for counting instructions;
//! never chosen by itself.

use super::{Backend, Delivery, Flow, Opened, Port, Queue, QueueOptions, RxFrame, Transmit, Watch};
use crate::clock;
use crate::error::{Errno, Reason};
use crossbeam::utils::CachePadded;
use parking_lot::Mutex;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const SLOTS: usize = 256;
const SLOT_SIZE: usize = 2048;
const HEADERS: usize = 42;
const PORT_WORDS: usize = 1024;

/// The backend.
#[derive(Debug, Default)]
pub struct Memory;

impl Backend for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn delivery(&self) -> Delivery {
        Delivery::Tap
    }

    fn open(&self, _port: Port<'_>, _options: QueueOptions) -> Result<Opened, Reason> {
        let wire = Arc::new(Wire {
            frames: Mutex::new(Frames {
                slots: (0..SLOTS).map(|_| Slot::empty()).collect(),
                head: 0,
                tail: 0,
            }),
            waiting: CachePadded::new(AtomicUsize::new(0)),
            drops: AtomicU64::new(0),
            ports: [const { AtomicU64::new(0) }; PORT_WORDS],
            started: clock::realtime(),
        });
        Ok(Opened {
            queue: Box::new(MemoryQueue {
                wire: Arc::clone(&wire),
                taken: Slot::empty(),
                holds: false,
                count: 0,
            }),
            transmit: Box::new(MemoryTransmit { wire }),
            slots: SLOTS as u32,
            device: String::new(),
            memory: None,
        })
    }
}

#[derive(Debug)]
struct Slot {
    bytes: [u8; SLOT_SIZE],
    length: usize,
}

impl Slot {
    fn empty() -> Box<Self> {
        Box::new(Self {
            bytes: [0; SLOT_SIZE],
            length: 0,
        })
    }
}

/// Frames on their way, first in first out.
#[derive(Debug)]
struct Frames {
    #[expect(clippy::vec_box, reason = "slots change hands by their address")]
    slots: Vec<Box<Slot>>,
    /// Monotonic positions.
    head: usize,
    tail: usize,
}

#[derive(Debug)]
struct Wire {
    frames: Mutex<Frames>,
    /// How many frames wait, for a look without the lock.
    waiting: CachePadded<AtomicUsize>,
    drops: AtomicU64,
    /// Ports that are taken, a bit each.
    ports: [AtomicU64; PORT_WORDS],
    started: u64,
}

/// Exchanges sender and receiver of an Ethernet/IPv4/UDP frame; no checksum changes.
fn turn_round(frame: &mut [u8; HEADERS]) {
    exchange::<6>(frame, 0);
    exchange::<4>(frame, 26);
    exchange::<2>(frame, 34);
}

/// Exchanges the field of N bytes at `at` with the one behind it.
#[inline]
fn exchange<const N: usize>(frame: &mut [u8; HEADERS], at: usize) {
    let mut first = [0; N];
    first.copy_from_slice(&frame[at..at + N]);
    frame.copy_within(at + N..at + 2 * N, at);
    frame[at + N..at + 2 * N].copy_from_slice(&first);
}

#[derive(Debug)]
struct MemoryQueue {
    wire: Arc<Wire>,
    /// The head's frame while `holds`, else a spare slot.
    taken: Box<Slot>,
    holds: bool,
    /// Frames given back.
    count: u64,
}

impl MemoryQueue {
    /// Exchanges the spare slot for the oldest frame.
    #[inline]
    fn take(&mut self) -> bool {
        if self.wire.waiting.load(Ordering::Acquire) == 0 {
            return false;
        }
        let mut frames = self.wire.frames.lock();
        let at = frames.head % SLOTS;
        std::mem::swap(&mut self.taken, &mut frames.slots[at]);
        frames.head += 1;
        let waiting = frames.tail - frames.head;
        self.wire.waiting.store(waiting, Ordering::Release);
        self.holds = true;
        true
    }
}

impl Queue for MemoryQueue {
    fn ready(&self) -> bool {
        self.holds || self.wire.waiting.load(Ordering::Acquire) != 0
    }

    fn next(&mut self) -> Option<RxFrame<'_>> {
        if !self.holds && !self.take() {
            return None;
        }
        Some(RxFrame {
            data: self.taken.bytes.get(..self.taken.length)?,
            // One nanosecond a frame: in order, and no clock is read.
            timestamp: self.wire.started + self.count,
            trusted: false,
            segment: 0,
        })
    }

    fn watch(&self) -> Option<Watch> {
        None
    }

    fn release(&mut self) {
        self.count += u64::from(self.holds);
        self.holds = false;
    }

    fn sleep_fd(&self) -> Option<RawFd> {
        None
    }

    fn steer(&mut self, flows: &[Flow]) -> Result<(), Reason> {
        for word in &self.wire.ports {
            word.store(0, Ordering::Relaxed);
        }
        for flow in flows {
            let (word, bit) = place(flow.port);
            self.wire.ports[word].fetch_or(bit, Ordering::Relaxed);
        }
        Ok(())
    }

    fn take_drops(&mut self) -> u64 {
        self.wire.drops.swap(0, Ordering::Relaxed)
    }
}

fn place(port: u16) -> (usize, u64) {
    (usize::from(port) / 64, 1 << (port % 64))
}

#[derive(Debug)]
struct MemoryTransmit {
    wire: Arc<Wire>,
}

impl Transmit for MemoryTransmit {
    fn send(&self, frame: &[u8]) -> Result<(), Errno> {
        if !(HEADERS..=SLOT_SIZE).contains(&frame.len()) {
            return Err(Errno::MSGSIZE);
        }
        // The answer goes to the port that this came from.
        let (word, bit) = place(u16::from_be_bytes([frame[34], frame[35]]));
        if self.wire.ports[word].load(Ordering::Relaxed) & bit == 0 {
            return Ok(());
        }
        let mut frames = self.wire.frames.lock();
        let waiting = frames.tail - frames.head;
        if waiting == SLOTS {
            self.wire.drops.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let at = frames.tail % SLOTS;
        let slot = &mut *frames.slots[at];
        slot.length = frame.len();
        let copy = &mut slot.bytes[..frame.len()];
        copy.copy_from_slice(frame);
        if let Some(headers) = copy.first_chunk_mut::<HEADERS>() {
            turn_round(headers);
        }
        frames.tail += 1;
        self.wire.waiting.store(waiting + 1, Ordering::Release);
        Ok(())
    }

    fn ready_fd(&self) -> Option<RawFd> {
        None
    }
}
