//! The `packet` device: AF_PACKET with a TPACKET_V2 ring, on any Ethernet interface.
//!
//! A tap: the kernel stack still gets every frame; what keeps a datagram from being
//! delivered twice is the shadow socket's filter ([`crate::sys::bpf::shadow`]).

use super::{
    Backend, Closed, Delivery, Flow, Opened, Port, Queue, QueueOptions, RxFrame, Transmit, Watch,
};
use crate::error::{Errno, Reason};
use crate::sys::{bpf, packet};
use std::os::fd::RawFd;

/// Slots are kept within these: below, a pause of the program loses what the kernel's
/// own socket buffer would have kept; above, the ring leaves the caches.
const SLOTS: std::ops::RangeInclusive<u32> = 2048..=8192;
const SLOT_SIZE: u32 = 2048;
/// The largest MTU that slots are made for.
const JUMBO: u32 = 9600;
/// Room before the frame in a slot: ring header, address, virtio header, alignment.
const SLOT_OVERHEAD: u32 = 112;
/// Bytes of a ring at the most, whatever the MTU.
const RING_BYTES: u32 = 16 << 20;
/// The largest frame the kernel hands up: a 64 KiB super-frame with its headers.
const LARGEST: usize = 10 + 14 + 4 + 65_536;

const VNET_HEADER: usize = 10;
const GSO_NONE: u8 = 0;
const GSO_UDP_L4: u8 = 5;

/// The backend.
#[derive(Debug, Default)]
pub struct Packet;

impl Backend for Packet {
    fn name(&self) -> &'static str {
        "packet"
    }

    fn delivery(&self) -> Delivery {
        Delivery::Tap
    }

    fn open(&self, port: Port<'_>, options: QueueOptions) -> Result<Opened, Reason> {
        // With an MTU beyond (loopback) most frames are small all the same, and the large
        // ones are fetched one by one.
        let expected = if port.mtu > JUMBO { 0 } else { port.mtu };
        let slot_size = (expected + 18 + SLOT_OVERHEAD)
            .next_power_of_two()
            .max(SLOT_SIZE);
        let wanted = options.slots.clamp(*SLOTS.start(), *SLOTS.end());
        // Many rings share what one would have; see the budget of a socket.
        let wanted = match options.others {
            0 => wanted,
            1..4 => *SLOTS.start(),
            4..16 => *SLOTS.start() / 2,
            _ => *SLOTS.start() / 4,
        };
        let wanted = wanted.next_power_of_two();
        let slots = wanted.min(RING_BYTES / slot_size);
        let geometry = packet::RingGeometry { slots, slot_size };
        let ring =
            packet::PacketRing::open(port.index, geometry, &bpf::tap(&[])).map_err(reason)?;
        Ok(Opened {
            queue: Box::new(PacketQueue {
                copy: Vec::new(),
                copied: false,
                skipped: 0,
                stamps_alike: options.stamps_alike && ring.stamp_early().is_ok(),
                ring,
                ports: Vec::new(),
            }),
            transmit: transmit(port)?,
            slots,
            device: String::new(),
            memory: None,
        })
    }

    fn open_transmit(&self, port: Port<'_>, _: QueueOptions) -> Result<Opened, Reason> {
        Ok(Opened {
            queue: Box::new(Closed),
            transmit: transmit(port)?,
            slots: 0,
            device: String::new(),
            memory: None,
        })
    }
}

fn transmit(port: Port<'_>) -> Result<Box<dyn Transmit>, Reason> {
    let sender = packet::PacketSender::open(port.index).map_err(reason)?;
    Ok(Box::new(PacketTransmit { sender }))
}

fn reason(errno: Errno) -> Reason {
    match errno.0 {
        libc::EPERM | libc::EACCES => Reason::NoPermission,
        libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS => Reason::NoResources,
        _ => Reason::NoBackend,
    }
}

#[derive(Debug)]
struct PacketQueue {
    ring: packet::PacketRing,
    /// A frame larger than its slot.
    copy: Vec<u8>,
    /// The head's frame is in `copy`.
    copied: bool,
    /// Frames larger than a slot whose copy the kernel could not keep.
    skipped: u64,
    /// See [`Queue::stamps_alike`].
    stamps_alike: bool,
    /// What the ring's filter takes.
    ports: Vec<u16>,
}

impl PacketQueue {
    /// Fetches the whole of a frame that did not fit; false when the kernel has none.
    #[cold]
    fn fetch_copy(&mut self) -> bool {
        self.copy.resize(LARGEST, 0);
        match self.ring.read_copy(&mut self.copy) {
            Ok(n) if n > VNET_HEADER => {
                self.copy.truncate(n);
                true
            }
            _ => false,
        }
    }
}

impl Queue for PacketQueue {
    #[inline]
    fn ready(&self) -> bool {
        self.ring.ready()
    }

    #[inline]
    fn next(&mut self) -> Option<RxFrame<'_>> {
        loop {
            let frame = self.ring.peek()?;
            let whole = frame.data.len() as u32 >= frame.wire_len;
            if whole || self.copied {
                break;
            }
            if frame.status & packet::STATUS_COPY != 0 && self.fetch_copy() {
                self.copied = true;
                break;
            }
            self.skipped += 1;
            self.ring.release();
        }
        let frame = self.ring.peek()?;
        let data = if self.copied {
            &self.copy[VNET_HEADER..]
        } else {
            frame.data
        };
        let segment = match frame.vnet.gso_type {
            GSO_NONE => 0,
            GSO_UDP_L4 => frame.vnet.gso_size,
            _ => 0,
        };
        Some(RxFrame {
            data,
            timestamp: frame.timestamp,
            trusted: frame.status & (packet::STATUS_CSUM_NOT_READY | packet::STATUS_CSUM_VALID)
                != 0,
            segment,
        })
    }

    fn watch(&self) -> Option<Watch> {
        Some(Watch::Packet(self.ring.watch()))
    }

    #[inline]
    fn release(&mut self) {
        self.copied = false;
        self.ring.release();
    }

    fn sleep_fd(&self) -> Option<RawFd> {
        Some(self.ring.fd())
    }

    /// By port alone: who gets a datagram, the sockets decide.
    fn steer(&mut self, flows: &[Flow]) -> Result<(), Reason> {
        let mut ports: Vec<u16> = flows.iter().map(|f| f.port).collect();
        ports.sort_unstable();
        ports.dedup();
        if ports != self.ports {
            self.ring.set_filter(&bpf::tap(&ports)).map_err(reason)?;
            self.ports = ports;
        }
        Ok(())
    }

    fn stamps_alike(&self) -> bool {
        self.stamps_alike
    }

    fn tells_apart(&self, ports: usize) -> bool {
        ports <= bpf::PORTS_LISTED
    }

    fn take_drops(&mut self) -> u64 {
        u64::from(self.ring.take_drops()) + std::mem::take(&mut self.skipped)
    }
}

#[derive(Debug)]
struct PacketTransmit {
    sender: packet::PacketSender,
}

impl Transmit for PacketTransmit {
    #[inline]
    fn send(&self, frame: &[u8]) -> Result<(), Errno> {
        // ENOBUFS is how the bypassed queue says "full".
        self.sender.send(frame).map_err(|e| {
            if e.0 == libc::ENOBUFS {
                Errno::AGAIN
            } else {
                e
            }
        })
    }

    fn ready_fd(&self) -> Option<RawFd> {
        Some(self.sender.fd())
    }

    fn retire(&self) {
        self.sender.retire();
    }
}
