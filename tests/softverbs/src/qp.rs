//! Raw-packet queue pairs: their creation and end. How they change state, send and receive is in
//! the files below.
//!
//! Lock order: `control`, `send`, then a completion queue's lock, then `receive`.

mod receive;
mod send;
mod state;
mod unchanged;

use crate::abi::*;
use crate::context::{Context, Subject, give, take};
use crate::cq::{Completion, CompletionQueue, acknowledged};
use crate::handle::{self, Header, Object};
use crate::lifetime::Owner;
use crate::pd::ProtectionDomain;
use crate::wire::RuleId;
use crate::{privilege, settings, strict};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use parking_lot::Mutex;
use receive::Receives;
use rustix::io::Errno;
use rustix::thread::CapabilitySet;
use send::Sends;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One queue pair.
#[repr(C)]
pub(crate) struct QueuePair {
    abi: UnsafeCell<ibv_qp>,
    header: Header,
    /// What it was made in.
    pub(crate) context: &'static Context,
    owner: Owner,
    pd: &'static ProtectionDomain,
    send_cq: &'static CompletionQueue,
    /// Where its receives complete, and whose polls pull its frames.
    pub(crate) recv_cq: &'static CompletionQueue,
    /// `qp_num`.
    pub(crate) number: u32,
    cap: ibv_qp_cap,
    signal_all: bool,
    user: *mut core::ffi::c_void,
    /// `enum ibv_qp_state`; `abi.state` follows it.
    state: AtomicU32,
    /// One change of state at a time.
    control: Mutex<()>,
    send: Mutex<Sends>,
    outstanding: unchanged::Outstanding,
    receive: Mutex<Receives>,
    /// Sends whose slots are free: all up to the last polled completion.
    sends_retired: AtomicU64,
    /// Receives whose slots are free.
    receives_retired: AtomicU64,
    mtu: u32,
    /// Flow rules attached.
    pub(crate) rules: Mutex<Vec<RuleId>>,
    /// Frames that found no receive posted.
    out_of_buffer: AtomicU64,
    /// Asynchronous events read but not acknowledged.
    pub(crate) unacknowledged: AtomicU32,
}

// SAFETY: of `abi` only `state` changes, by one writer at a time; `user` is only handed back.
unsafe impl Sync for QueuePair {}

// SAFETY: repr(C) with `abi` first; shared by threads as said above.
unsafe impl Object for QueuePair {
    type Abi = ibv_qp;
    const NAME: &'static str = "qp";
    const KIND: u16 = 5;
    fn header(&self) -> &Header {
        &self.header
    }
}

fn refused(errno: Errno, rule: core::fmt::Arguments) -> Errno {
    strict::violated(errno, rule)
}

/// The scatter/gather list of a request.
///
/// # Safety
/// The list has `count` entries; with none it may be null.
unsafe fn entries<'a>(list: *const ibv_sge, count: usize) -> &'a [ibv_sge] {
    if count == 0 {
        return &[];
    }
    // SAFETY: by this function's contract.
    unsafe { core::slice::from_raw_parts(list, count) }
}

/// Checks what is asked for against the limits of the card.
fn check_caps(cap: &ibv_qp_cap) -> Result<(), Errno> {
    let s = settings::get();
    let limits = [
        ("max_send_wr", cap.max_send_wr, s.max_wr),
        ("max_recv_wr", cap.max_recv_wr, s.max_wr),
        ("max_send_sge", cap.max_send_sge, s.max_sge),
        ("max_recv_sge", cap.max_recv_sge, s.max_sge),
        ("max_inline_data", cap.max_inline_data, s.max_inline),
    ];
    for (name, asked, limit) in limits {
        if asked > limit {
            let rule = format_args!("create_qp: {name} {asked} of at most {limit}");
            return Err(refused(Errno::INVAL, rule));
        }
    }
    let needs_entry = [
        (cap.max_send_wr, cap.max_send_sge),
        (cap.max_recv_wr, cap.max_recv_sge),
    ];
    if needs_entry.iter().any(|(wr, sge)| *wr > 0 && *sge == 0) {
        let rule = format_args!("create_qp: work requests without scatter/gather entries");
        return Err(refused(Errno::INVAL, rule));
    }
    Ok(())
}

impl QueuePair {
    /// `ibv_create_qp`.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_RAW, `EOPNOTSUPP` for other types than raw packet, `EINVAL` for
    /// queues the card cannot have, `ENOMEM` for one queue pair too many.
    pub(crate) fn create(pd: *mut ibv_pd, attr: &ibv_qp_init_attr) -> Result<&'static Self, Errno> {
        let pd = ProtectionDomain::find(pd)?;
        let context = pd.context;
        let s = settings::get();
        if attr.qp_type != IBV_QPT_RAW_PACKET || !s.raw_packet {
            return Err(Errno::OPNOTSUPP);
        }
        if !privilege::has(CapabilitySet::NET_RAW) {
            return Err(Errno::PERM);
        }
        if !attr.srq.is_null() {
            return Err(Errno::OPNOTSUPP);
        }
        let send_cq: &'static CompletionQueue = handle::find(attr.send_cq)?;
        let recv_cq: &'static CompletionQueue = handle::find(attr.recv_cq)?;
        if [send_cq, recv_cq]
            .iter()
            .any(|cq| !core::ptr::eq(cq.context, context))
        {
            let rule = format_args!("create_qp: a completion queue of another context");
            return Err(refused(Errno::INVAL, rule));
        }
        check_caps(&attr.cap)?;
        let wire = context.wire()?;
        take(&context.counts.qps, s.max_qp)?;
        let queue = match wire.open_queue((attr.cap.max_recv_wr as usize).max(1)) {
            Ok(queue) => Arc::from(queue),
            Err(errno) => {
                give(&context.counts.qps);
                return Err(errno);
            }
        };
        let number = context.number() & 0xff_ffff;
        // SAFETY: integers and pointers, for which zero is a value; the mutex likewise.
        let mut abi: ibv_qp = unsafe { core::mem::zeroed() };
        abi.context = context.pointer();
        abi.qp_context = attr.qp_context;
        abi.pd = pd.pointer();
        abi.send_cq = attr.send_cq;
        abi.recv_cq = attr.recv_cq;
        abi.handle = number;
        abi.qp_num = number;
        abi.state = IBV_QPS_RESET;
        abi.qp_type = attr.qp_type;
        let mtu = context.device.interface.mtu;
        let qp = handle::publish(Self {
            abi: UnsafeCell::new(abi),
            header: Header::new(),
            context,
            owner: context.owner,
            pd,
            send_cq,
            recv_cq,
            number,
            cap: attr.cap,
            signal_all: attr.sq_sig_all != 0,
            user: attr.qp_context,
            state: AtomicU32::new(IBV_QPS_RESET),
            control: Mutex::new(()),
            send: Mutex::new(Sends::new(mtu, wire)),
            outstanding: unchanged::Outstanding::default(),
            receive: Mutex::new(Receives::new(&attr.cap)),
            sends_retired: AtomicU64::new(0),
            receives_retired: AtomicU64::new(0),
            mtu,
            rules: Mutex::default(),
            out_of_buffer: AtomicU64::new(0),
            unacknowledged: AtomicU32::new(0),
        });
        pd.users.fetch_add(1, Ordering::Relaxed);
        send_cq.users.fetch_add(1, Ordering::Relaxed);
        recv_cq.users.fetch_add(1, Ordering::Relaxed);
        context.add_qp(qp);
        if let Err(errno) = recv_cq.add_receiver(qp, queue) {
            qp.tear_down();
            return Err(errno);
        }
        Ok(qp)
    }

    /// `ibv_create_qp_ex`: what it can say beyond [`QueuePair::create`] is not there.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for it.
    pub(crate) fn create_ex(
        context: *mut ibv_context,
        attr: &ibv_qp_init_attr_ex,
    ) -> Result<&'static Self, Errno> {
        Context::find(context)?;
        let known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
        if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 {
            let rule = format_args!("create_qp_ex: no protection domain");
            return Err(refused(Errno::INVAL, rule));
        }
        let flags = if attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS != 0 {
            attr.create_flags
        } else {
            0
        };
        if attr.comp_mask & !known != 0 || flags & !IBV_QP_CREATE_BLOCK_SELF_MCAST_LB != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let plain = ibv_qp_init_attr {
            qp_context: attr.qp_context,
            send_cq: attr.send_cq,
            recv_cq: attr.recv_cq,
            srq: attr.srq,
            cap: attr.cap,
            qp_type: attr.qp_type,
            sq_sig_all: attr.sq_sig_all,
        };
        Self::create(attr.pd, &plain)
    }

    /// A queue pair for the control plane.
    ///
    /// # Errors
    /// `EINVAL` if it does not live, and those of [`Context::usable`].
    pub(crate) fn find(qp: *mut ibv_qp) -> Result<&'static Self, Errno> {
        let qp: &'static Self = handle::find(qp)?;
        qp.context.usable()?;
        Ok(qp)
    }

    /// A queue pair for the data path.
    ///
    /// # Safety
    /// As [`handle::data`].
    unsafe fn data(qp: *mut ibv_qp) -> Result<&'static Self, Errno> {
        // SAFETY: by this function's contract.
        let qp: &'static Self = unsafe { handle::data(qp) }?;
        if qp.owner.is_current() {
            return Ok(qp);
        }
        let rule = format_args!("a child of fork uses its parent's queue pair");
        Err(strict::violated(Errno::IO, rule))
    }

    /// What the caller may have in its queues.
    pub(crate) fn cap(&self) -> ibv_qp_cap {
        self.cap
    }

    /// `ibv_destroy_qp`.
    ///
    /// # Errors
    /// `EBUSY` while flow rules are attached, or events of it are not acknowledged.
    pub(crate) fn destroy(qp: *mut ibv_qp) -> Result<(), Errno> {
        let qp: &'static Self = handle::find(qp)?;
        qp.context.owned()?;
        if !qp.rules.lock().is_empty() {
            let rule = format_args!("destroy_qp: flow rules are attached to it");
            return Err(refused(Errno::BUSY, rule));
        }
        acknowledged("destroy_qp", &[&qp.unacknowledged])?;
        qp.tear_down();
        Ok(())
    }

    /// Ends it, whatever is still attached.
    pub(crate) fn tear_down(&'static self) {
        if !handle::retire(self) {
            return;
        }
        let lost = self.out_of_buffer.load(Ordering::Relaxed);
        crate::trace::line(format_args!("qp {} out_of_buffer={lost}", self.number));
        self.context.remove_qp(self);
        let is_it = |s: &Subject| matches!(s, Subject::Qp(q) if core::ptr::eq(*q, self));
        self.context.events.forget(|event| is_it(&event.subject));
        let rules = std::mem::take(&mut *self.rules.lock());
        if let Ok(wire) = self.context.wire() {
            rules.into_iter().for_each(|id| wire.detach(id));
        }
        self.recv_cq.remove(self);
        self.send_cq.lock().clean(self);
        self.send.lock().release();
        self.receive.lock().release();
        self.pd.users.fetch_sub(1, Ordering::Relaxed);
        self.send_cq.users.fetch_sub(1, Ordering::Relaxed);
        self.recv_cq.users.fetch_sub(1, Ordering::Relaxed);
        give(&self.context.counts.qps);
    }

    /// The application got this completion: its slot, and those before it, are free.
    pub(crate) fn polled(&self, completion: &Completion) {
        let retired = if completion.is_receive() {
            &self.receives_retired
        } else {
            self.check_sent(completion.index);
            &self.sends_retired
        };
        retired.store(completion.index + 1, Ordering::Release);
    }

    /// A completion of this queue pair did not fit its completion queue.
    pub(crate) fn overrun(&'static self) {
        self.set_state(IBV_QPS_ERR);
        self.context.post(IBV_EVENT_QP_FATAL, Subject::Qp(self));
    }

    /// `ibv_query_qp`.
    pub(crate) fn query(&self) -> (ibv_qp_attr, ibv_qp_init_attr) {
        // SAFETY: integers only, for which zero is a value.
        let mut attr: ibv_qp_attr = unsafe { core::mem::zeroed() };
        attr.qp_state = self.state();
        attr.cur_qp_state = self.state();
        attr.cap = self.cap;
        attr.port_num = u8::from(self.state() != IBV_QPS_RESET);
        let init = ibv_qp_init_attr {
            qp_context: self.user,
            send_cq: self.send_cq.pointer(),
            recv_cq: self.recv_cq.pointer(),
            srq: core::ptr::null_mut(),
            cap: self.cap,
            qp_type: IBV_QPT_RAW_PACKET,
            sq_sig_all: c_int::from(self.signal_all),
        };
        (attr, init)
    }

    /// Whether a posted receive lies in the region with this key.
    pub(crate) fn has_posted(&self, key: u32) -> bool {
        self.receive.lock().uses(key)
    }
}
