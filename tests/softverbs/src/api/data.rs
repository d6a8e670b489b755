//! The data path: no table, no allocation, no system call.

use crate::abi::*;
use crate::call::number;
use crate::cq::{CompletionQueue, work_completion};
use crate::qp::QueuePair;
use crate::{fault, strict, trace};
use core::ffi::c_int;
use rustix::io::Errno;

pub(super) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let mut at = wr;
    let result = match fault::call("post_send") {
        Some(errno) => Err(errno),
        // SAFETY: a queue pair of this library and the caller's own list.
        None => unsafe { QueuePair::post_send(qp, wr, &mut at) },
    };
    if result.is_err() {
        // SAFETY: the caller's own.
        unsafe { super::put(bad, at) };
    }
    number(result)
}

pub(super) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    let mut at = wr;
    let result = match fault::call("post_recv") {
        Some(errno) => Err(errno),
        // SAFETY: a queue pair of this library and the caller's own list.
        None => unsafe { QueuePair::post_recv(qp, wr, &mut at) },
    };
    if result.is_err() {
        // SAFETY: the caller's own.
        unsafe { super::put(bad, at) };
    }
    number(result)
}

pub(super) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, count: c_int, to: *mut ibv_wc) -> c_int {
    if let Some(errno) = fault::call("poll_cq") {
        return -errno.raw_os_error();
    }
    // SAFETY: a completion queue of this library.
    let cq = match unsafe { CompletionQueue::data(cq) } {
        Ok(cq) => cq,
        Err(errno) => return -errno.raw_os_error(),
    };
    let Ok(count) = usize::try_from(count) else {
        let rule = format_args!("poll_cq: {count} completions wanted");
        return -strict::violated(Errno::INVAL, rule).raw_os_error();
    };
    let found = cq.poll(count, |at, completion| {
        let place = to.wrapping_add(at);
        // SAFETY: the caller's own, as many as it asked for.
        unsafe { place.write(work_completion(completion)) };
    });
    if found > 0 && trace::data() {
        trace::line(format_args!("poll_cq = {found}"));
    }
    found as c_int
}

pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited: c_int) -> c_int {
    // SAFETY: a completion queue of this library.
    let result = unsafe { CompletionQueue::data(cq) };
    let result = result.and_then(|cq| match fault::call("req_notify_cq") {
        Some(errno) => Err(errno),
        None => cq.request_notification(solicited != 0),
    });
    if trace::data() {
        trace::line(format_args!("req_notify_cq"));
    }
    number(result)
}
