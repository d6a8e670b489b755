//! The `memory` device: no kernel, no privilege, no timing.
//!
//! It stands for a peer that answers every datagram: a frame sent comes back with
//! link, network and port addresses exchanged. For tests and for counting instructions;
//! never chosen by itself.

use super::{Backend, Delivery, Flow, Opened, Port, Queue, QueueOptions, RxFrame, Transmit, Watch};
use crate::clock;
use crate::error::{Errno, Reason};
use crossbeam::queue::ArrayQueue;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
            full: ArrayQueue::new(SLOTS),
            empty: ArrayQueue::new(SLOTS),
            drops: AtomicU64::new(0),
            ports: [const { AtomicU64::new(0) }; PORT_WORDS],
            started: clock::realtime(),
        });
        for _ in 0..SLOTS {
            let _ = wire.empty.push(Box::new(Slot {
                bytes: [0; SLOT_SIZE],
                length: 0,
            }));
        }
        Ok(Opened {
            queue: Box::new(MemoryQueue {
                wire: Arc::clone(&wire),
                head: None,
                taken: 0,
            }),
            transmit: Box::new(MemoryTransmit { wire }),
            slots: SLOTS as u32,
            device: String::new(),
        })
    }
}

#[derive(Debug)]
struct Slot {
    bytes: [u8; SLOT_SIZE],
    length: usize,
}

#[derive(Debug)]
struct Wire {
    full: ArrayQueue<Box<Slot>>,
    empty: ArrayQueue<Box<Slot>>,
    drops: AtomicU64,
    /// Ports that are taken, a bit each.
    ports: [AtomicU64; PORT_WORDS],
    started: u64,
}

/// Exchanges sender and receiver of an Ethernet/IPv4/UDP frame; no checksum changes.
fn turn_round(frame: &mut [u8]) {
    let (mac_a, mac_b) = frame[..12].split_at_mut(6);
    mac_a.swap_with_slice(mac_b);
    let (ip_a, ip_b) = frame[26..34].split_at_mut(4);
    ip_a.swap_with_slice(ip_b);
    let (port_a, port_b) = frame[34..38].split_at_mut(2);
    port_a.swap_with_slice(port_b);
}

#[derive(Debug)]
struct MemoryQueue {
    wire: Arc<Wire>,
    head: Option<Box<Slot>>,
    taken: u64,
}

impl Queue for MemoryQueue {
    fn ready(&self) -> bool {
        self.head.is_some() || !self.wire.full.is_empty()
    }

    fn next(&mut self) -> Option<RxFrame<'_>> {
        if self.head.is_none() {
            self.head = Some(self.wire.full.pop()?);
        }
        let slot = self.head.as_ref()?;
        Some(RxFrame {
            data: slot.bytes.get(..slot.length)?,
            // One nanosecond a frame: in order, and no clock is read.
            timestamp: self.wire.started + self.taken,
            trusted: false,
            segment: 0,
        })
    }

    fn watch(&self) -> Option<Watch> {
        None
    }

    fn release(&mut self) {
        if let Some(slot) = self.head.take() {
            self.taken += 1;
            let _ = self.wire.empty.push(slot);
        }
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
        let Some(mut slot) = self.wire.empty.pop() else {
            self.wire.drops.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        slot.length = frame.len();
        let copy = &mut slot.bytes[..frame.len()];
        copy.copy_from_slice(frame);
        turn_round(copy);
        let _ = self.wire.full.push(slot);
        Ok(())
    }

    fn ready_fd(&self) -> Option<RawFd> {
        None
    }
}
