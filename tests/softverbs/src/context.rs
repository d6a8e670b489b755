//! An opened device: `struct verbs_context`, the operations the header's inline functions call,
//! and what belongs to the device as a whole: limits, port, clock, asynchronous events.

use crate::abi::*;
use crate::cq::CompletionQueue;
use crate::device::Device;
use crate::events::EventQueue;
use crate::handle::{self, Header, Object};
use crate::lifetime::Owner;
use crate::memory::Memory;
use crate::qp::QueuePair;
use crate::wire::{self, Incident, Incidents, Wire};
use crate::{api, settings, strict};
use core::cell::UnsafeCell;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// What an asynchronous event is about.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    /// The one port, or the whole device.
    Port,
    /// A completion queue.
    Cq(&'static CompletionQueue),
    /// A queue pair.
    Qp(&'static QueuePair),
}

/// One asynchronous event.
#[derive(Clone, Copy)]
pub(crate) struct AsyncEvent {
    /// `enum ibv_event_type`.
    pub(crate) kind: u32,
    /// See [`Subject`].
    pub(crate) subject: Subject,
}

/// One opened device.
#[repr(C)]
pub(crate) struct Context {
    abi: UnsafeCell<verbs_context>,
    header: Header,
    /// What was opened.
    pub(crate) device: &'static Device,
    /// The process it belongs to.
    pub(crate) owner: Owner,
    wire: Mutex<Option<Arc<dyn Wire>>>,
    /// Registered regions.
    pub(crate) memory: Memory,
    /// Asynchronous events that wait to be read.
    pub(crate) events: EventQueue<AsyncEvent>,
    /// The device has gone: nothing works any more.
    pub(crate) gone: AtomicBool,
    /// Objects that live.
    pub(crate) counts: Counts,
    /// Numbers given out so far, to objects of any kind.
    serial: AtomicU32,
    /// Locked before a queue's own locks.
    cqs: Mutex<Vec<&'static CompletionQueue>>,
    /// Locked before a queue's own locks.
    qps: Mutex<Vec<&'static QueuePair>>,
}

/// How many objects of each kind live in a context.
#[derive(Default)]
pub(crate) struct Counts {
    /// Protection domains.
    pub(crate) pds: AtomicU32,
    /// Regions.
    pub(crate) mrs: AtomicU32,
    /// Completion channels.
    pub(crate) channels: AtomicU32,
    /// Completion queues.
    pub(crate) cqs: AtomicU32,
    /// Queue pairs.
    pub(crate) qps: AtomicU32,
    /// Flow rules.
    pub(crate) flows: AtomicU32,
}

/// Takes one of a limited kind.
///
/// # Errors
/// `ENOMEM` if there are `limit` of them.
pub(crate) fn take(count: &AtomicU32, limit: u32) -> Result<(), Errno> {
    let more = |now| (now < limit).then_some(now + 1);
    match count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
        Ok(_) => Ok(()),
        Err(_) => Err(Errno::NOMEM),
    }
}

/// Gives one back.
pub(crate) fn give(count: &AtomicU32) {
    count.fetch_sub(1, Ordering::Relaxed);
}

// SAFETY: `abi` is written before the context is published and only read afterwards, but for
// the descriptor, which the application may move before it shares the context.
unsafe impl Sync for Context {}

// SAFETY: repr(C) with `abi` first, whose last field is the `ibv_context`.
unsafe impl Object for Context {
    type Abi = ibv_context;
    const NAME: &'static str = "context";
    const KIND: u16 = 2;
    const OFFSET: usize = core::mem::offset_of!(verbs_context, context);
    fn header(&self) -> &Header {
        &self.header
    }
}

/// Tells a context what its wire reports. The wire is opened first, so early ones wait.
#[derive(Default)]
struct Reports {
    context: OnceLock<&'static Context>,
    early: Mutex<Vec<Incident>>,
}

impl Incidents for Reports {
    fn raise(&self, incident: Incident) {
        let early = self.early.lock();
        match self.context.get() {
            Some(context) => {
                drop(early);
                context.incident(incident);
            }
            None => {
                let mut early = early;
                early.push(incident);
            }
        }
    }
}

impl Context {
    /// Opens a device.
    ///
    /// # Errors
    /// Those of its wire, and of the descriptors it needs.
    pub(crate) fn open(device: &'static Device) -> Result<&'static Self, Errno> {
        let reports = Arc::new(Reports::default());
        let wire = wire::open(&device.interface, reports.clone())?;
        let events = EventQueue::new()?;
        let abi = api::operations(device.pointer(), events.fd());
        let context = handle::publish(Self {
            abi: UnsafeCell::new(abi),
            header: Header::new(),
            device,
            owner: Owner::current()?,
            wire: Mutex::new(Some(wire)),
            memory: Memory::new(settings::get().max_mr),
            events,
            gone: AtomicBool::new(false),
            counts: Counts::default(),
            serial: AtomicU32::new(0),
            cqs: Mutex::default(),
            qps: Mutex::default(),
        });
        device.hold();
        let mut early = reports.early.lock();
        let _ = reports.context.set(context);
        early.drain(..).for_each(|i| context.incident(i));
        drop(early);
        Ok(context)
    }

    /// The context behind a pointer, for a call of the control plane.
    ///
    /// # Errors
    /// `EINVAL` if it is not open, `EIO` in a child process or once the device is gone.
    pub(crate) fn find(pointer: *mut ibv_context) -> Result<&'static Self, Errno> {
        let context: &'static Self = handle::find(pointer)?;
        context.usable()?;
        Ok(context)
    }

    /// Whether the calling process is the one that opened it. A child shares its parent's side
    /// of the card: what it destroys is gone for the parent.
    ///
    /// # Errors
    /// `EIO` in a child process.
    pub(crate) fn owned(&self) -> Result<(), Errno> {
        if self.owner.is_current() {
            return Ok(());
        }
        let rule = format_args!("a child of fork uses its parent's context");
        Err(strict::violated(Errno::IO, rule))
    }

    /// Whether calls can still be made.
    ///
    /// # Errors
    /// `EIO` in a child process or once the device is gone.
    pub(crate) fn usable(&self) -> Result<(), Errno> {
        self.owned()?;
        if !self.lives() {
            let rule = format_args!("an object of a context that was closed is used");
            return Err(strict::violated(Errno::INVAL, rule));
        }
        if self.gone.load(Ordering::Relaxed) {
            return Err(Errno::IO);
        }
        Ok(())
    }

    /// Closes it. What still lives in it goes with it, as the kernel would have it.
    pub(crate) fn close(&'static self) {
        let c = &self.counts;
        let live = [&c.pds, &c.mrs, &c.channels, &c.cqs, &c.qps, &c.flows]
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum::<u32>();
        if live != 0 {
            strict::violated(
                Errno::BUSY,
                format_args!("close_device: {live} objects of it live"),
            );
        }
        self.each_qp(QueuePair::tear_down);
        let cqs = std::mem::take(&mut *self.cqs.lock());
        for cq in cqs {
            handle::retire(cq);
        }
        handle::retire(self);
        self.memory.release();
        // SAFETY: `abi` lives as long as `self`; the application may have moved the
        // descriptor.
        let fd = unsafe { (*self.abi.get()).context.async_fd };
        self.events.close(fd);
        *self.wire.lock() = None;
        self.device.release();
    }

    /// The wire, until the context is closed.
    ///
    /// # Errors
    /// `EIO` after that.
    pub(crate) fn wire(&self) -> Result<Arc<dyn Wire>, Errno> {
        self.wire.lock().clone().ok_or(Errno::IO)
    }

    /// A number that no other object of the context has.
    pub(crate) fn number(&self) -> u32 {
        self.serial.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Enters a queue, for incidents that concern all of them.
    pub(crate) fn add_cq(&self, cq: &'static CompletionQueue) {
        self.cqs.lock().push(cq);
    }

    /// Takes it out.
    pub(crate) fn remove_cq(&self, cq: &'static CompletionQueue) {
        self.cqs.lock().retain(|c| !core::ptr::eq(*c, cq));
    }

    /// Enters a queue pair, for incidents that concern all of them.
    pub(crate) fn add_qp(&self, qp: &'static QueuePair) {
        self.qps.lock().push(qp);
    }

    /// Takes it out.
    pub(crate) fn remove_qp(&self, qp: &'static QueuePair) {
        self.qps.lock().retain(|q| !core::ptr::eq(*q, qp));
    }

    /// Calls `each` for every queue pair of the context.
    pub(crate) fn each_qp(&self, mut each: impl FnMut(&'static QueuePair)) {
        let qps = self.qps.lock().clone();
        qps.into_iter().for_each(&mut each);
    }

    /// Queues an asynchronous event.
    pub(crate) fn post(&self, kind: u32, subject: Subject) {
        crate::trace::line(format_args!("async_event {kind}"));
        self.events.post(AsyncEvent { kind, subject });
    }

    fn incident(&'static self, incident: Incident) {
        match incident {
            Incident::PortActive => self.post(IBV_EVENT_PORT_ACTIVE, Subject::Port),
            Incident::PortDown => self.post(IBV_EVENT_PORT_ERR, Subject::Port),
            Incident::DeviceFatal => {
                self.gone.store(true, Ordering::Relaxed);
                self.post(IBV_EVENT_DEVICE_FATAL, Subject::Port);
            }
            Incident::QueuePairFatal => self.each_qp(|qp| {
                qp.fail();
                self.post(IBV_EVENT_QP_FATAL, Subject::Qp(qp));
            }),
            Incident::CompletionQueueError => {
                let cqs = self.cqs.lock().clone();
                cqs.into_iter().for_each(CompletionQueue::break_down);
            }
            Incident::Other(kind) => self.post(kind, Subject::Port),
        }
    }

    /// `ibv_query_device`.
    pub(crate) fn attributes(&self) -> ibv_device_attr {
        let s = settings::get();
        let int = |value: u32| value.cast_signed();
        // SAFETY: integers only, for which zero is a value.
        let mut attr: ibv_device_attr = unsafe { core::mem::zeroed() };
        let version = b"softverbs";
        attr.fw_ver[..version.len()].copy_from_slice(version);
        attr.node_guid = self.device.guid();
        attr.sys_image_guid = attr.node_guid;
        attr.max_mr_size = u64::MAX;
        attr.page_size_cap = !0xfff;
        attr.max_qp = int(s.max_qp);
        attr.max_qp_wr = int(s.max_wr);
        attr.device_cap_flags = IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_CURR_QP_STATE_MOD;
        if s.flow_steering {
            attr.device_cap_flags |= IBV_DEVICE_MANAGED_FLOW_STEERING;
        }
        if s.ip_checksum {
            attr.device_cap_flags |= IBV_DEVICE_RAW_IP_CSUM;
        }
        attr.max_sge = int(s.max_sge);
        attr.max_cq = int(s.max_cq);
        attr.max_cqe = int(s.max_cqe);
        attr.max_mr = int(s.max_mr);
        attr.max_pd = int(s.max_pd);
        attr.atomic_cap = IBV_ATOMIC_NONE;
        attr.max_raw_ethy_qp = if s.raw_packet { int(s.max_qp) } else { 0 };
        attr.max_pkeys = 1;
        attr.phys_port_cnt = 1;
        attr
    }

    /// `ibv_query_device_ex`.
    pub(crate) fn attributes_ex(&self) -> ibv_device_attr_ex {
        let s = settings::get();
        // SAFETY: integers only, for which zero is a value.
        let mut attr: ibv_device_attr_ex = unsafe { core::mem::zeroed() };
        attr.orig_attr = self.attributes();
        attr.device_cap_flags_ex = u64::from(attr.orig_attr.device_cap_flags);
        if s.timestamp {
            attr.completion_timestamp_mask = u64::MAX >> 1;
            attr.hca_core_clock = crate::clock::KILOHERTZ;
        }
        if s.raw_packet && s.ip_checksum {
            attr.raw_packet_caps = IBV_RAW_PACKET_CAP_IP_CSUM;
        }
        attr.cq_mod_caps = ibv_cq_moderation_caps {
            max_cq_count: 4095,
            max_cq_period: 4095,
        };
        attr.phys_port_cnt_ex = 1;
        attr
    }

    /// `ibv_query_port` of the one port.
    ///
    /// # Errors
    /// `EIO` once the context is closed.
    pub(crate) fn port(&self) -> Result<ibv_port_attr, Errno> {
        let s = settings::get();
        let up = self.wire()?.link_up();
        // SAFETY: integers only, for which zero is a value.
        let mut attr: ibv_port_attr = unsafe { core::mem::zeroed() };
        attr.state = if up { IBV_PORT_ACTIVE } else { IBV_PORT_DOWN };
        attr.max_mtu = IBV_MTU_4096;
        attr.active_mtu = match self.device.interface.mtu {
            4096.. => IBV_MTU_4096,
            2048.. => IBV_MTU_2048,
            1024.. => IBV_MTU_1024,
            512.. => IBV_MTU_512,
            _ => IBV_MTU_256,
        };
        attr.gid_tbl_len = 1;
        attr.port_cap_flags = IBV_PORT_IP_BASED_GIDS;
        attr.max_msg_sz = 1 << 30;
        attr.pkey_tbl_len = 1;
        attr.max_vl_num = 1;
        attr.active_width = 2;
        attr.active_speed = 64;
        attr.phys_state = if up { 5 } else { 3 };
        attr.link_layer = if s.infiniband {
            IBV_LINK_LAYER_INFINIBAND as u8
        } else {
            IBV_LINK_LAYER_ETHERNET as u8
        };
        Ok(attr)
    }

    /// The one GID: link-local, of the hardware address.
    pub(crate) fn gid(&self) -> [u64; 2] {
        [
            u64::from_ne_bytes([0xfe, 0x80, 0, 0, 0, 0, 0, 0]),
            self.device.guid(),
        ]
    }
}
