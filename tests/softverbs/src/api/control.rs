//! Calls that make, change and destroy objects.

use super::{get, put};
use crate::abi::*;
use crate::call::{control, minus_one, number, pointer};
use crate::channel::Channel;
use crate::context::{Context, Subject};
use crate::cq::{CompletionQueue, Wanted};
use crate::device::{self, Device};
use crate::handle::Object;
use crate::memory::{self, Request};
use crate::pd::{MemoryRegion, ProtectionDomain};
use crate::qp::QueuePair;
use crate::steering::{self, Flow};
use crate::strict;
use core::ffi::{c_int, c_void};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU32, Ordering};

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    // SAFETY: the caller's own.
    unsafe { put(count, 0) };
    pointer(control("get_device_list", |line| {
        let (array, found) = device::list()?;
        line.add(format_args!("devices={found}"));
        // SAFETY: the caller's own.
        unsafe { put(count, found as c_int) };
        Ok(array)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sv_free_device_list(list: *mut *mut ibv_device) {
    let _ = control("free_device_list", |_| device::free_list(list));
}

#[unsafe(no_mangle)]
extern "C" fn sv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    pointer(control("open_device", |line| {
        let device = Device::find(device)?;
        line.add(format_args!("interface={}", device.interface.name));
        Ok(Context::open(device)?.pointer())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sv_close_device(context: *mut ibv_context) -> c_int {
    minus_one(control("close_device", |_| {
        let context: &Context = crate::handle::find(context)?;
        context.owned()?;
        context.close();
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    pointer(control("alloc_pd", |_| {
        Ok(ProtectionDomain::create(context)?.pointer())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    number(control("dealloc_pd", |_| ProtectionDomain::destroy(pd)))
}

#[unsafe(no_mangle)]
extern "C" fn sv_reg_mr(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    let iova = address.addr() as u64;
    sv_reg_mr_iova(pd, address, length, iova, access.cast_unsigned())
}

#[unsafe(no_mangle)]
extern "C" fn sv_reg_mr_iova(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> *mut ibv_mr {
    pointer(control("reg_mr", |line| {
        line.add(format_args!("length={length} access={access:#x}"));
        let request = Request {
            start: address.expose_provenance(),
            length,
            iova,
            access,
            domain: 0,
        };
        let region = MemoryRegion::create(pd, &request)?;
        line.add(format_args!("lkey={:#x}", region.key()));
        Ok(region.pointer())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    number(control("dereg_mr", |_| MemoryRegion::destroy(mr)))
}

#[unsafe(no_mangle)]
extern "C" fn sv_fork_init() -> c_int {
    number(control("fork_init", |_| memory::fork_init()))
}

#[unsafe(no_mangle)]
extern "C" fn sv_is_fork_initialized() -> u32 {
    if memory::fork_initialized() {
        IBV_FORK_ENABLED
    } else {
        IBV_FORK_DISABLED
    }
}

#[unsafe(no_mangle)]
extern "C" fn sv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    pointer(control("create_comp_channel", |_| {
        Ok(Channel::create(context)?.pointer())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    number(control("destroy_comp_channel", |_| {
        Channel::destroy(channel)
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sv_create_cq(
    context: *mut ibv_context,
    entries: c_int,
    user: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    pointer(control("create_cq", |line| {
        line.add(format_args!("cqe={entries}"));
        let wanted = Wanted {
            entries: u32::try_from(entries).unwrap_or(0),
            user,
            channel,
            vector: vector.cast_unsigned(),
            ignore_overrun: false,
            stamped: false,
        };
        Ok(CompletionQueue::create(context, &wanted, |_| ())?.pointer())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    number(control("destroy_cq", |_| CompletionQueue::destroy(cq)))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    user: *mut *mut c_void,
) -> c_int {
    minus_one(control("get_cq_event", |_| {
        let found = Channel::next(channel)?;
        // SAFETY: the caller's own.
        unsafe { put(cq, found.pointer()) };
        // SAFETY: the caller's own.
        unsafe { put(user, found.user()) };
        Ok(())
    }))
}

/// Counts acknowledgements against events read.
fn acknowledge(call: &'static str, count: &AtomicU32, events: u32) -> Result<(), Errno> {
    let less = |now: u32| now.checked_sub(events);
    match count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
        Ok(_) => Ok(()),
        Err(read) => {
            let rule = format_args!("{call}: {events} acknowledged, {read} read");
            Err(strict::violated(Errno::INVAL, rule))
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn sv_ack_cq_events(cq: *mut ibv_cq, events: u32) {
    let _ = control("ack_cq_events", |line| {
        line.add(format_args!("events={events}"));
        let cq: &CompletionQueue = crate::handle::find(cq)?;
        acknowledge("ack_cq_events", &cq.unacknowledged, events)
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    pointer(control("create_qp", |line| {
        // SAFETY: the caller's own.
        let mut asked = unsafe { get(attr) }?;
        let qp = QueuePair::create(pd, &asked)?;
        describe(line, qp);
        asked.cap = qp.cap();
        // SAFETY: the caller's own.
        unsafe { put(attr, asked) };
        Ok(qp.pointer())
    }))
}

pub(super) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    pointer(control("create_qp_ex", |line| {
        // SAFETY: the caller's own.
        let mut asked = unsafe { get(attr) }?;
        let qp = QueuePair::create_ex(context, &asked)?;
        describe(line, qp);
        asked.cap = qp.cap();
        // SAFETY: the caller's own.
        unsafe { put(attr, asked) };
        Ok(qp.pointer())
    }))
}

fn describe(line: &mut crate::call::Line, qp: &QueuePair) {
    let cap = qp.cap();
    line.add(format_args!(
        "qp={} send_wr={} recv_wr={} inline={}",
        qp.number, cap.max_send_wr, cap.max_recv_wr, cap.max_inline_data
    ));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    number(control("modify_qp", |line| {
        let qp = QueuePair::find(qp)?;
        // SAFETY: the caller's own.
        let attr = unsafe { get(attr) }?;
        let from = qp.state();
        let (number, to) = (qp.number, attr.qp_state);
        line.add(format_args!(
            "qp={number} from={from} to={to} mask={mask:#x}"
        ));
        qp.modify(&attr, mask.cast_unsigned())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    number(control("query_qp", |_| {
        let (attributes, initial) = QueuePair::find(qp)?.query();
        // SAFETY: the caller's own.
        unsafe { put(attr, attributes) };
        // SAFETY: the caller's own.
        unsafe { put(init, initial) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    number(control("destroy_qp", |line| {
        if let Ok(qp) = crate::handle::find::<QueuePair>(qp) {
            line.add(format_args!("qp={}", qp.number));
        }
        QueuePair::destroy(qp)
    }))
}

pub(super) unsafe extern "C" fn create_flow(
    qp: *mut ibv_qp,
    attr: *mut ibv_flow_attr,
) -> *mut ibv_flow {
    pointer(control("create_flow", |line| {
        let qp = QueuePair::find(qp)?;
        line.add(format_args!("qp={}", qp.number));
        if attr.is_null() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's own, with the specifications it announces.
        let rule = unsafe { steering::read(attr) }?;
        line.add(format_args!("{}", steering::Shown(&rule)));
        Ok(Flow::create(qp, &rule)?.pointer())
    }))
}

pub(super) unsafe extern "C" fn destroy_flow(flow: *mut ibv_flow) -> c_int {
    number(control("destroy_flow", |line| {
        if let Ok(flow) = crate::handle::find::<Flow>(flow) {
            line.add(format_args!("{}", steering::Shown(flow.rule())));
        }
        Flow::destroy(flow)
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    minus_one(control("get_async_event", |line| {
        // Also of a device that is gone: that is how it is learnt.
        let context: &Context = crate::handle::find(context)?;
        let found = context.events.next()?;
        line.add(format_args!("event={}", found.kind));
        let element = match found.subject {
            Subject::Port => core::ptr::without_provenance_mut(1),
            Subject::Cq(cq) => {
                cq.unacknowledged_async.fetch_add(1, Ordering::Relaxed);
                cq.pointer().cast()
            }
            Subject::Qp(qp) => {
                qp.unacknowledged.fetch_add(1, Ordering::Relaxed);
                qp.pointer().cast()
            }
        };
        let result = ibv_async_event {
            element,
            event_type: found.kind,
        };
        // SAFETY: the caller's own.
        unsafe { put(event, result) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_ack_async_event(event: *mut ibv_async_event) {
    let _ = control("ack_async_event", |line| {
        // SAFETY: the caller's own.
        let event = unsafe { get(event) }?;
        line.add(format_args!("event={}", event.event_type));
        match event.event_type {
            IBV_EVENT_CQ_ERR => {
                let cq: &CompletionQueue = crate::handle::find(event.element.cast())?;
                acknowledge("ack_async_event", &cq.unacknowledged_async, 1)
            }
            IBV_EVENT_QP_FATAL => {
                let qp: &QueuePair = crate::handle::find(event.element.cast())?;
                acknowledge("ack_async_event", &qp.unacknowledged, 1)
            }
            _ => Ok(()),
        }
    });
}
