//! The `verbs` device: raw packet queue pairs of a ConnectX card, by way of libibverbs.
//!
//! What a flow rule names comes to the queue pair and, unless the rule is a shared one, not
//! to the kernel. A frame costs no system call on either path. Everything memory-unsafe is
//! in [`crate::sys::verbs`]. Sources: rdma-core's man pages, the mlx5 driver's steering
//! (drivers/infiniband/hw/mlx5/fs.c) for what priorities and DONT_TRAP mean.

mod examine;
mod options;
mod probe;
mod queue;
mod rules;
mod shared;

pub use examine::{Card, Examination, examine};
pub use options::VerbsOptions;

use super::{Backend, Closed, Delivery, Fault, Opened, Port, Queue, QueueOptions};
use crate::error::{Errno, Reason};
use crate::sys::verbs::{
    self, CompletionQueue, CqOptions, DeviceList, Memory, QpSizes, QueuePair, Region, RxRing,
    RxShape, TxRing, TxShape,
};
use queue::{VerbsQueue, VerbsTransmit};
use shared::{Device, Member, Reports};
use std::sync::Arc;

/// The smallest buffer: what comes may be longer than the interface's MTU, for the port's
/// may be larger, and a frame that does not fit stops the queue pair.
const SLOT_SIZE: u32 = 2048;
/// Ethernet header, two VLAN tags, and rounding.
const SLOT_EXTRA: u32 = 14 + 8;
const SLOT_ALIGN: u32 = 256;
/// The least that is of any use.
const LEAST: u32 = 16;
/// Buffers of a receive ring where VMA_RX_WRE does not say, in bytes: 8192 of them at an MTU of
/// 1500, as the packet ring has. With less a pause of the program loses what the kernel's own
/// socket buffer would have kept; more leaves the caches.
const RING_BYTES: u32 = 16 << 20;

/// The backend.
#[derive(Debug, Default)]
pub struct Verbs;

impl Backend for Verbs {
    fn name(&self) -> &'static str {
        "verbs"
    }

    fn delivery(&self) -> Delivery {
        Delivery::Steered
    }

    fn open(&self, port: Port<'_>, options: QueueOptions) -> Result<Opened, Reason> {
        open(port, &options.verbs, true)
    }

    /// A queue pair that no frame ever comes to, and no memory for any.
    fn open_transmit(&self, port: Port<'_>, options: QueueOptions) -> Result<Opened, Reason> {
        open(port, &options.verbs, false)
    }
}

fn open(port: Port<'_>, options: &VerbsOptions, receives: bool) -> Result<Opened, Reason> {
    let library = verbs::library(options.fork).ok_or(Reason::NoVerbsLibrary)?;
    // ENOSYS: a kernel without RDMA.
    let list = DeviceList::get(library).map_err(|_| Reason::NoRdmaDevice)?;
    let names = list.names();
    let place = probe::find(&names, port.name)?;
    let name = &names[place.device];
    if name.iwarp {
        return Err(Reason::Iwarp);
    }
    let device = Device::open(&list, place.device, name)?;
    let info = device.domain.context().port(place.port);
    let info = info.map_err(probe::open_reason)?;
    if !info.ethernet {
        return Err(Reason::InfiniBand);
    }
    let scope = rules::Scope {
        mac: port.mac,
        port: place.port,
        multicast_by_mac: options.multicast_by_mac,
    };
    let (rx, tx) = shapes(&device, port.mtu, options);
    let rx = receives.then_some(rx);
    open_queue(device, scope, (rx, tx), options, info.active)
}

/// What a queue pair is asked for: within the options and what the device has.
fn shapes(device: &Device, mtu: u32, options: &VerbsOptions) -> (RxShape, TxShape) {
    let limits = &device.limits;
    let at_most = |wanted: u32| {
        let limit = limits.max_qp_wr.min(limits.max_cqe);
        wanted.clamp(LEAST, limit.max(LEAST))
    };
    let slot_size = (mtu + SLOT_EXTRA)
        .next_multiple_of(SLOT_ALIGN)
        .max(SLOT_SIZE);
    let receives = at_most(options.receives.unwrap_or(RING_BYTES / slot_size));
    let sends = at_most(options.sends);
    let rx = RxShape {
        slots: receives,
        slot_size,
        batch: options.receive_batch.clamp(1, receives / 2),
        poll: options.poll,
    };
    let tx = TxShape {
        slots: sends,
        slot_size,
        signal_every: options.send_batch.clamp(1, sends / 2),
        inline: options.inline,
    };
    (rx, tx)
}

fn open_queue(
    device: Arc<Device>,
    scope: rules::Scope,
    (rx, mut tx): (Option<RxShape>, TxShape),
    options: &VerbsOptions,
    active: bool,
) -> Result<Opened, Reason> {
    let limits = device.limits;
    let domain = &device.domain;
    let refused = |error: Errno| probe::queue_reason(error, &limits);
    let receive = rx.as_ref().map_or(0, RxRing::memory);
    let total = receive + TxRing::memory(&tx);
    let region = Region::new(domain, total, options.huge)
        .map_err(|error| probe::memory_reason(error, memory_is_limited()))?;
    let pages = if region.is_huge() {
        "huge pages"
    } else {
        "ordinary pages"
    };
    let queue = |entries, channel, stamps| {
        let options = CqOptions {
            entries,
            channel,
            stamps: stamps && options.stamps && limits.stamps,
        };
        CompletionQueue::new(domain.context(), options).map_err(refused)
    };
    let receives = rx.map_or(1, |rx| rx.slots);
    let mut receive_cq = queue(receives, rx.is_some(), rx.is_some())?;
    let send_cq = queue(tx.slots, true, false)?;
    if let Some((count, period)) = options.moderation.filter(|_| rx.is_some()) {
        // Where there is none, interrupts come one by one.
        let _ = receive_cq.moderate(count, period);
    }
    let sizes = QpSizes {
        receives,
        sends: tx.slots,
        inline: tx.inline,
    };
    let memory = Memory { region, receive };
    let pair = make_pair(&device, &send_cq, &receive_cq, memory, sizes)?;
    if !limits.flow_steering {
        return Err(Reason::NoFlowSteering);
    }
    tx.inline = tx.inline.min(pair.granted().inline);
    let completions = [send_cq.identity(), receive_cq.identity()];
    let reports = Reports::new(scope.port, pair.identity(), completions);
    let broken = |_| Reason::NoQueuePairs;
    pair.initialise(scope.port).map_err(refused)?;
    let ring = rx.map(|rx| {
        let ring = RxRing::new(Arc::clone(&pair), receive_cq, rx, Arc::clone(&device.watch));
        ring.map_err(broken)
    });
    let ring = ring.transpose()?;
    pair.start().map_err(refused)?;
    let sender = TxRing::new(Arc::clone(&pair), send_cq, tx).map_err(broken)?;
    let member = Member::join(&device, reports);
    let transmit = VerbsTransmit::new(sender, limits.checksums, Arc::clone(&member));
    if !active {
        // The event for it came before there was anybody to tell.
        member.report(Fault::PortDown);
    }
    let queue: Box<dyn Queue> = match ring {
        Some(ring) => Box::new(VerbsQueue::new(ring, pair, scope, member)),
        None => Box::new(Closed),
    };
    Ok(Opened {
        queue,
        transmit: Box::new(transmit),
        slots: rx.map_or(0, |rx| rx.slots),
        device: device.name.name.clone(),
        memory: Some(pages),
    })
}

/// A queue pair with as much room inside its requests as the device gives.
fn make_pair(
    device: &Device,
    send: &CompletionQueue,
    receive: &CompletionQueue,
    memory: Memory,
    mut sizes: QpSizes,
) -> Result<Arc<QueuePair>, Reason> {
    let mut memory = Some(memory);
    loop {
        match QueuePair::new(&device.domain, send, receive, &mut memory, sizes) {
            Ok(pair) => return Ok(pair),
            // Cards differ in how they say that this is too much; the next may do.
            Err(Errno(libc::EINVAL | libc::ENOMEM)) if sizes.inline > 0 => {
                sizes.inline = match sizes.inline {
                    0..64 => 0,
                    n => n / 2,
                };
            }
            Err(error) => return Err(probe::queue_reason(error, &device.limits)),
        }
    }
}

fn memory_is_limited() -> bool {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Memlock).current.is_some()
}
