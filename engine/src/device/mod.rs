//! The device seam: how frames come from and go to an interface.
//!
//! A [`Backend`] says whether it can serve an interface and opens it; the result is a
//! [`Queue`], polled by one thread at a time, and a [`Transmit`], used by any thread.
//! A received frame is used in place: it is valid until [`Queue::release`].

mod memory;
mod packet;
mod probe;

pub use memory::Memory;
pub use packet::Packet;
pub use probe::choose;

use crate::error::{Errno, Reason};
use crate::sys::packet::RingWatch;
use std::fmt::Debug;
use std::os::fd::RawFd;

/// A received frame, in place.
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    /// From the Ethernet header on.
    pub data: &'a [u8],
    /// CLOCK_REALTIME nanoseconds at which the kernel or the device saw it.
    pub timestamp: u64,
    /// The checksums need no verification: the device did it, or the frame never left
    /// this machine.
    pub trusted: bool,
    /// Payload bytes of each datagram in a segmented super-frame; 0: one datagram.
    pub segment: u16,
}

/// The receive side of an opened interface.
pub trait Queue: Send + Debug {
    /// True when a frame waits; no side effect.
    fn ready(&self) -> bool;

    /// The next frame, if one waits. The same one until [`Queue::release`].
    fn next(&mut self) -> Option<RxFrame<'_>>;

    /// What can be looked at without the queue's lock to see that a frame may wait; None:
    /// the queue itself must be asked.
    fn watch(&self) -> Option<Watch>;

    /// Gives the frame of the last [`Queue::next`] back.
    fn release(&mut self);

    /// A descriptor that polls readable while a frame waits; None: it cannot be slept on.
    fn sleep_fd(&self) -> Option<RawFd>;

    /// Takes UDP datagrams to these ports (and fragments) from now on, nothing else.
    ///
    /// # Errors
    /// The reason why the device cannot; the steering of before stays.
    fn steer(&mut self, ports: &[u16]) -> Result<(), Reason>;

    /// Frames lost by the device for want of room, since the last call.
    fn take_drops(&mut self) -> u64;
}

/// A spinning call's look at a queue that it does not own.
#[derive(Clone, Debug)]
pub enum Watch {
    /// The head slot of a packet ring.
    Packet(RingWatch),
}

impl Watch {
    /// A hint: a frame was there a moment ago.
    #[inline]
    #[must_use]
    pub fn ready(&self) -> bool {
        match self {
            Self::Packet(ring) => ring.ready(),
        }
    }
}

/// The send side of an opened interface.
pub trait Transmit: Send + Sync + Debug {
    /// Sends one whole Ethernet frame without waiting.
    ///
    /// # Errors
    /// EAGAIN when the device takes no more now; ENETDOWN, ENXIO when it is gone.
    fn send(&self, frame: &[u8]) -> Result<(), Errno>;

    /// A descriptor that polls writable when it takes frames again.
    fn ready_fd(&self) -> Option<RawFd>;
}

/// The interface that is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Port<'a> {
    /// Interface index.
    pub index: u32,
    /// Interface name.
    pub name: &'a str,
    /// Largest IP packet, bytes.
    pub mtu: u32,
}

/// How a queue is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Receive slots wanted (VMA_RX_WRE); a backend has its own bounds.
    pub slots: u32,
}

/// An opened interface.
#[derive(Debug)]
pub struct Opened {
    /// Receive side.
    pub queue: Box<dyn Queue>,
    /// Send side.
    pub transmit: Box<dyn Transmit>,
    /// Receive slots it really has.
    pub slots: u32,
}

/// A kind of device.
pub trait Backend: Send + Sync + Debug {
    /// As in SHIM_BACKEND.
    fn name(&self) -> &'static str;

    /// Opens an interface.
    ///
    /// # Errors
    /// Why this backend cannot serve it.
    fn open(&self, port: Port<'_>, options: QueueOptions) -> Result<Opened, Reason>;
}
