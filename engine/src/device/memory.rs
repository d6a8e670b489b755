//! The `memory` device: no kernel, no privilege, no timing.
//!
//! It stands for a peer that answers every datagram: a frame sent comes back with
//! link, network and port addresses exchanged. For tests and for counting instructions;
//! never chosen by itself.

use super::{Backend, Opened, Queue, QueueOptions, RxFrame, Transmit};
use crate::clock;
use crate::error::{Errno, Reason};
use crate::net::Interface;
use parking_lot::Mutex;
use std::os::fd::RawFd;
use std::sync::Arc;

const SLOTS: usize = 256;
const SLOT_SIZE: usize = 2048;
const HEADERS: usize = 42;

/// The backend.
#[derive(Debug, Default)]
pub struct Memory;

impl Backend for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn open(&self, _interface: &Interface, _options: QueueOptions) -> Result<Opened, Reason> {
        let wire = Arc::new(Mutex::new(Wire {
            slots: vec![[0; SLOT_SIZE]; SLOTS],
            lengths: vec![0; SLOTS],
            head: 0,
            tail: 0,
            drops: 0,
            ports: Vec::new(),
        }));
        Ok(Opened {
            queue: Box::new(MemoryQueue {
                wire: Arc::clone(&wire),
                frame: Vec::new(),
            }),
            transmit: Box::new(MemoryTransmit { wire }),
            slots: SLOTS as u32,
        })
    }
}

#[derive(Debug)]
struct Wire {
    slots: Vec<[u8; SLOT_SIZE]>,
    lengths: Vec<usize>,
    head: usize,
    tail: usize,
    drops: u64,
    ports: Vec<u16>,
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
    wire: Arc<Mutex<Wire>>,
    frame: Vec<u8>,
}

impl Queue for MemoryQueue {
    fn ready(&self) -> bool {
        let wire = self.wire.lock();
        wire.head != wire.tail
    }

    fn next(&mut self) -> Option<RxFrame<'_>> {
        let wire = self.wire.lock();
        if wire.head == wire.tail {
            return None;
        }
        let slot = wire.head % SLOTS;
        self.frame.clear();
        self.frame
            .extend_from_slice(&wire.slots[slot][..wire.lengths[slot]]);
        drop(wire);
        Some(RxFrame {
            data: &self.frame,
            timestamp: clock::realtime(),
            trusted: false,
            segment: 0,
        })
    }

    fn release(&mut self) {
        self.wire.lock().head += 1;
    }

    fn sleep_fd(&self) -> Option<RawFd> {
        None
    }

    fn steer(&mut self, ports: &[u16]) -> Result<(), Reason> {
        self.wire.lock().ports = ports.to_vec();
        Ok(())
    }

    fn take_drops(&mut self) -> u64 {
        std::mem::take(&mut self.wire.lock().drops)
    }
}

#[derive(Debug)]
struct MemoryTransmit {
    wire: Arc<Mutex<Wire>>,
}

impl Transmit for MemoryTransmit {
    fn send(&self, frame: &[u8]) -> Result<(), Errno> {
        if !(HEADERS..=SLOT_SIZE).contains(&frame.len()) {
            return Err(Errno::MSGSIZE);
        }
        let source_port = u16::from_be_bytes([frame[34], frame[35]]);
        let mut guard = self.wire.lock();
        let wire = &mut *guard;
        // The answer goes to the port that this came from.
        if !wire.ports.contains(&source_port) {
            return Ok(());
        }
        if wire.tail - wire.head == SLOTS {
            wire.drops += 1;
            return Ok(());
        }
        let slot = wire.tail % SLOTS;
        let copy = &mut wire.slots[slot][..frame.len()];
        copy.copy_from_slice(frame);
        turn_round(copy);
        wire.lengths[slot] = frame.len();
        wire.tail += 1;
        Ok(())
    }

    fn ready_fd(&self) -> Option<RawFd> {
        None
    }
}
