//! What carries frames between ports: the seam between the verbs objects and their wires.
//!
//! A wire also plays the part of the card's flow table: rules are attached to its queues, and a
//! frame goes to the queues whose rules match (see [`Rule`]), or to the kernel.
//!
//! A wire must never allocate or lock globally in [`Wire::send`] and [`WireQueue::receive`], and
//! makes its system calls directly (rustix), never through libc: the process it is loaded into
//! may have other definitions of those symbols.

mod link;
mod loopback;
mod outlet;
mod packet;
mod switch;
mod syscall;
mod worker;

use rustix::io::Errno;
use std::os::fd::RawFd;
use std::sync::Arc;

/// A value with the bits of it that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masked<T> {
    /// Wanted value; bits outside the mask are zero.
    pub value: T,
    /// Bits that are compared.
    pub mask: T,
}

/// Which traffic a rule is about (`enum ibv_flow_attr_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKind {
    /// What its specifications say.
    Normal,
    /// All that no other rule took.
    AllDefault,
    /// All multicast that no other rule took.
    MulticastDefault,
    /// A copy of everything on the port.
    Sniffer,
}

/// Ethernet header of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthernetMatch {
    /// Destination address.
    pub destination: Masked<[u8; 6]>,
    /// Source address.
    pub source: Masked<[u8; 6]>,
    /// EtherType, host order.
    pub ether_type: Masked<u16>,
    /// 802.1Q tag control information, host order; a mask of zero matches tagged and untagged.
    pub vlan: Masked<u16>,
}

/// IPv4 header of a rule; addresses in host order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ipv4Match {
    /// Source address.
    pub source: Masked<u32>,
    /// Destination address.
    pub destination: Masked<u32>,
}

/// Transport protocol of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Protocol 17.
    Udp,
    /// Protocol 6.
    Tcp,
}

/// Ports of a rule, host order. A fragment other than the first has no ports: it never matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortMatch {
    /// Which protocol the ports are of.
    pub transport: Transport,
    /// Destination port.
    pub destination: Masked<u16>,
    /// Source port.
    pub source: Masked<u16>,
}

/// One flow rule, as `ibv_create_flow` was asked for it. Already checked for form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Which traffic it is about.
    pub kind: RuleKind,
    /// Lower is looked at first.
    pub priority: u16,
    /// Deliver and let the matching go on (`IBV_FLOW_ATTR_FLAGS_DONT_TRAP`).
    pub dont_trap: bool,
    /// Ethernet specification, if one was given.
    pub ethernet: Option<EthernetMatch>,
    /// IPv4 specification; a rule with one matches IPv4 only.
    pub ipv4: Option<Ipv4Match>,
    /// UDP or TCP specification; a rule with one matches that protocol only.
    pub ports: Option<PortMatch>,
    /// Tag reported with each frame the rule delivers (`IBV_FLOW_SPEC_ACTION_TAG`).
    pub tag: u32,
}

/// Names an attached rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RuleId(pub u64);

/// What is known of a frame's IPv4 and UDP/TCP checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// The sender's kernel left them to its card, or the wire knows that they are right.
    Good,
    /// The verbs side verifies them itself.
    Unknown,
}

/// What comes with a received frame.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// Arrival, nanoseconds of `CLOCK_REALTIME`; may be 0 if not asked for
    /// ([`WireQueue::stamp`]).
    pub timestamp_ns: u64,
    /// See [`Checksums`].
    pub checksums: Checksums,
    /// Tag of the rule that matched.
    pub tag: u32,
    /// Status that the receive is to complete with (`enum ibv_wc_status`); not 0 only on demand.
    pub status: u32,
}

/// Why a frame was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// No room just now: the frame is lost as on a congested port; never reported to the caller.
    Full,
    /// No carrier: lost likewise.
    LinkDown,
    /// The device is gone or broken: completion in error.
    Broken(Errno),
    /// Completion with this status (`enum ibv_wc_status`), on demand.
    Failed(u32),
}

/// What a wire (or a fault injected into it) reports; becomes an asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// `IBV_EVENT_PORT_ACTIVE`.
    PortActive,
    /// `IBV_EVENT_PORT_ERR`.
    PortDown,
    /// `IBV_EVENT_DEVICE_FATAL`: the device is gone, every call fails from now on.
    DeviceFatal,
    /// `IBV_EVENT_QP_FATAL` on every queue pair of the context, which go to the error state.
    QueuePairFatal,
    /// `IBV_EVENT_CQ_ERR` on every completion queue of the context, which are unusable from then.
    CompletionQueueError,
    /// Another event without consequence here, by its number in `enum ibv_event_type`.
    Other(u32),
}

/// Who is told. Callable from any thread and from [`Wire::send`], but not from
/// [`WireQueue::receive`]; never blocks for long.
pub trait Incidents: Send + Sync {
    /// One incident.
    fn raise(&self, incident: Incident);
}

/// The interface a device stands on.
#[derive(Clone, Debug)]
pub struct Interface {
    /// Name in this network namespace.
    pub name: String,
    /// Its index.
    pub index: u32,
    /// Hardware address.
    pub address: [u8; 6],
    /// Largest IP packet.
    pub mtu: u32,
}

/// Carries frames of one device opened by one process, and applies the flow rules of its card.
pub trait Wire: Send + Sync {
    /// A queue that receives, of at most `depth` frames; what arrives beyond is lost.
    fn open_queue(&self, depth: usize) -> Result<Box<dyn WireQueue>, Errno>;

    /// Attaches a rule to a queue of this wire.
    fn attach(&self, queue: &dyn WireQueue, rule: &Rule) -> Result<RuleId, Errno>;

    /// Detaches it; unknown names are ignored.
    fn detach(&self, id: RuleId);

    /// Sends one whole Ethernet frame, without its frame check sequence.
    fn send(&self, frame: &[u8]) -> Result<(), SendError>;

    /// Whether the port has a carrier.
    fn link_up(&self) -> bool;
}

/// Receives. Closed when dropped; its rules have been detached before.
pub trait WireQueue: Send + Sync {
    /// The wire's own name of this queue, by which [`Wire::attach`] finds it.
    fn id(&self) -> u64;

    /// Offers the next frame to `take`, which returns false to leave it there. False: none.
    fn receive(&self, take: &mut dyn FnMut(&[u8], &Meta) -> bool) -> bool;

    /// Whether a frame is waiting. No system call where the wire can do without.
    fn pending(&self) -> bool;

    /// From now on an arriving frame makes [`WireQueue::event_fd`] readable, once.
    /// What arrived before does not count: the caller looks at [`WireQueue::pending`] after.
    fn arm(&self);

    /// Readable when a frame arrived while armed. Owned by the queue.
    fn event_fd(&self) -> RawFd;

    /// Takes back what made the event descriptor readable; called by the thread that waited.
    fn acknowledge(&self);

    /// Whether the receiver wants to know when frames arrived; not so at first. Some
    /// wires stamp anyway.
    fn stamp(&self, wanted: bool) {
        let _ = wanted;
    }

    /// Frames lost since the queue was opened because it was full.
    fn lost(&self) -> u64;
}

/// Opens the wire of an interface as `SOFTVERBS_WIRE` says.
///
/// # Errors
/// `EINVAL`: no such wire. Otherwise the kernel's: `EPERM` without the needed privileges.
pub fn open(interface: &Interface, incidents: Arc<dyn Incidents>) -> Result<Arc<dyn Wire>, Errno> {
    let settings = crate::settings();
    let told = Arc::clone(&incidents);
    let wire = match settings.wire {
        crate::WireChoice::Packet => open_packet(interface, told)?,
        crate::WireChoice::Switch => open_switch(&settings.switch, interface, told)?,
        crate::WireChoice::Loopback => Arc::new(loopback::Loopback::open(interface, told)),
    };
    Ok(crate::fault::between(interface, incidents, wire))
}

/// The wire over the interface of the calling thread's network namespace.
///
/// # Errors
/// The kernel's: `EPERM` without the right to load programs and to open packet sockets.
pub fn open_packet(
    interface: &Interface,
    incidents: Arc<dyn Incidents>,
) -> Result<Arc<dyn Wire>, Errno> {
    Ok(Arc::new(packet::PacketWire::open(interface, incidents)?))
}

/// The wire through shared memory: the switch of that name, which processes of any network
/// namespace may share.
///
/// # Errors
/// `ENOMEM`: as many processes or interfaces as fit are there. Otherwise the kernel's.
pub fn open_switch(
    name: &str,
    interface: &Interface,
    incidents: Arc<dyn Incidents>,
) -> Result<Arc<dyn Wire>, Errno> {
    Ok(Arc::new(switch::SwitchWire::open(
        name, interface, incidents,
    )?))
}
