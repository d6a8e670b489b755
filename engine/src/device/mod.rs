//! The device seam: how frames come from and go to an interface.
//!
//! A [`Backend`] says whether it can serve an interface and opens it; the result is a
//! [`Queue`], polled by one thread at a time, and a [`Transmit`], used by any thread.
//! A received frame is used in place: it is valid until [`Queue::release`].

mod memory;
mod packet;
mod probe;
mod verbs;

pub use memory::Memory;
pub use packet::Packet;
pub use probe::{Candidates, Chosen, Refused, candidates};
pub use verbs::{Card, Examination, Verbs, VerbsOptions, examine};

use crate::error::{Errno, Reason};
use crate::sys::packet::RingWatch;
use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;

/// UDP datagrams that a device is to bring: an exact destination, from any sender or one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// An address of the interface, or a group.
    pub destination: Ipv4Addr,
    /// Destination port.
    pub port: u16,
    /// The only sender wanted; None: any.
    pub peer: Option<SocketAddrV4>,
    /// Others on this host want it too: the kernel gets its copy (IBV_FLOW_ATTR_FLAGS_DONT_TRAP).
    pub shared: bool,
}

/// Whether a device that steers by these flows brings all of a group, fragments as well:
/// everything that is wanted of it is shared.
#[must_use]
pub fn is_whole(flows: &[Flow], destination: Ipv4Addr) -> bool {
    destination.is_multicast()
        && flows
            .iter()
            .filter(|f| f.destination == destination)
            .all(|f| f.shared)
}

/// What becomes of a frame that a device brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The kernel gets it as well.
    Tap,
    /// The kernel gets it only if no flow took it, or a shared one.
    Steered,
}

/// What a device reports on its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The port has no link: nothing comes or goes until [`Fault::PortUp`].
    PortDown,
    /// The port has its link back.
    PortUp,
    /// The queue pair is in error and takes no more work.
    QueueError,
    /// The completion queue has overrun.
    Overrun,
    /// The device is being taken away.
    Gone,
}

impl Fault {
    /// The queue is of no more use; only opening it anew may help.
    #[must_use]
    pub const fn is_fatal(self) -> bool {
        matches!(self, Self::QueueError | Self::Overrun | Self::Gone)
    }

    /// What a person reads.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::PortDown => "the port has no link",
            Self::PortUp => "the port has its link back",
            Self::QueueError => "the queue pair is in error",
            Self::Overrun => "the completion queue has overrun",
            Self::Gone => "the device is gone",
        }
    }
}

/// This bit of a frame's time stamp tells, of a device that steers, that the stamp is the
/// card's own and not that of the look at it.
pub const CARD_TIME: u64 = 1;

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

    /// A descriptor that polls readable when a frame has come after [`Queue::arm`]; None:
    /// it cannot be slept on.
    fn sleep_fd(&self) -> Option<RawFd>;

    /// Before a sleep on [`Queue::sleep_fd`]: asks for a notification of the next frame,
    /// then looks once more. False: a frame waits already, do not sleep. The notification
    /// of before is taken back here alone, so that every sleeper sees it.
    fn arm(&mut self) -> bool {
        !self.ready()
    }

    /// Takes the datagrams of these flows from now on, nothing else. They are sorted and
    /// each destination, port and peer is there once. A flow that stays loses nothing,
    /// nor is brought twice, also when its `shared` changes. A tap gets one flow a port,
    /// to 0.0.0.0.
    ///
    /// # Errors
    /// The reason why the device cannot; the steering of before stays.
    fn steer(&mut self, flows: &[Flow]) -> Result<(), Reason>;

    /// Whether it matters to [`Self::steer`] which ports there are when they are so many.
    /// False: it takes every port then, and need not be told of each change.
    fn tells_apart(&self, ports: usize) -> bool {
        let _ = ports;
        true
    }

    /// Frames lost by the device for want of room, since the last call.
    fn take_drops(&mut self) -> u64;

    /// Another queue of the interface gives a frame the same time stamp.
    fn stamps_alike(&self) -> bool {
        false
    }

    /// What has happened to the device, oldest first; call it until there is none, when
    /// [`Queue::event_fd`] polls readable, and now and then.
    fn take_fault(&mut self) -> Option<Fault> {
        None
    }

    /// A descriptor that polls readable while the device has something to report.
    fn event_fd(&self) -> Option<RawFd> {
        None
    }
}

/// The queue of a ring that does not receive.
#[derive(Debug)]
pub struct Closed;

impl Queue for Closed {
    fn ready(&self) -> bool {
        false
    }

    fn next(&mut self) -> Option<RxFrame<'_>> {
        None
    }

    fn watch(&self) -> Option<Watch> {
        None
    }

    fn release(&mut self) {}

    fn sleep_fd(&self) -> Option<RawFd> {
        None
    }

    fn steer(&mut self, _: &[Flow]) -> Result<(), Reason> {
        Ok(())
    }

    fn take_drops(&mut self) -> u64 {
        0
    }
}

/// A spinning call's look at a queue that it does not own.
#[derive(Clone, Debug)]
pub enum Watch {
    /// The head slot of a packet ring.
    Packet(RingWatch),
}

impl Watch {
    /// Looks at the same place.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Packet(a), Self::Packet(b)) => a.same(b),
        }
    }

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

    /// Its interface or device is gone, or nobody has used it for a while: what it costs may
    /// go. It is not freed.
    fn retire(&self) {}

    /// As [`Queue::take_fault`]: what only sends notice, and all of a ring that only sends.
    fn take_fault(&self) -> Option<Fault> {
        None
    }

    /// As [`Queue::event_fd`], for rings that only send.
    fn event_fd(&self) -> Option<RawFd> {
        None
    }
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
    /// Link-layer address.
    pub mac: [u8; 6],
}

/// How a queue is to be opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct QueueOptions {
    /// Receive slots wanted (VMA_RX_WRE); a backend has its own bounds.
    pub slots: u32,
    /// What the verbs device obeys.
    pub verbs: VerbsOptions,
    /// Rings that this process has beside it: with many each is smaller.
    pub others: u32,
    /// Two queues of the interface are to give a frame the same time stamp.
    pub stamps_alike: bool,
}

/// An opened interface.
#[derive(Debug)]
pub struct Opened {
    /// Receive side.
    pub queue: Box<dyn Queue>,
    /// Send side.
    pub transmit: Box<dyn Transmit>,
    /// Receive slots it really has; 0: it does not receive.
    pub slots: u32,
    /// The device behind the interface by its own name (`mlx5_0`); empty: it has none.
    pub device: String,
    /// What its buffers lie in, where that is ours to choose.
    pub memory: Option<&'static str>,
}

/// A kind of device.
pub trait Backend: Send + Sync + Debug {
    /// As in SHIM_BACKEND.
    fn name(&self) -> &'static str;

    /// Whether the kernel gets what its queues bring.
    fn delivery(&self) -> Delivery;

    /// Opens an interface.
    ///
    /// # Errors
    /// Why this backend cannot serve it.
    fn open(&self, port: Port<'_>, options: QueueOptions) -> Result<Opened, Reason>;

    /// Opens an interface for sending alone, if that costs less: the queue is [`Closed`]
    /// and has no slots then.
    ///
    /// # Errors
    /// As [`Backend::open`].
    fn open_transmit(&self, port: Port<'_>, options: QueueOptions) -> Result<Opened, Reason> {
        self.open(port, options)
    }
}
