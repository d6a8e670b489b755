//! The C functions: pointers in, error numbers out. What they do is elsewhere.

mod control;
mod data;
mod extended;
mod queries;
mod symbols;
mod text;

use crate::abi::*;

/// `num_comp_vectors`.
pub(crate) const COMPLETION_VECTORS: u32 = 4;

/// A context's operations.
pub(crate) fn operations(device: *mut ibv_device, async_fd: i32) -> verbs_context {
    // SAFETY: pointers, optional functions and integers, for which zero is a value; the mutex
    // of zeros is an unlocked one.
    let mut verbs: verbs_context = unsafe { core::mem::zeroed() };
    verbs.query_port = Some(queries::query_port);
    verbs.modify_cq = Some(extended::modify_cq);
    verbs.query_rt_values = Some(queries::query_rt_values);
    if crate::settings::get().extended_cq {
        verbs.create_cq_ex = Some(extended::create_cq_ex);
    }
    verbs.query_device_ex = Some(queries::query_device_ex);
    verbs.ibv_create_flow = Some(control::create_flow);
    verbs.ibv_destroy_flow = Some(control::destroy_flow);
    verbs.create_qp_ex = Some(control::create_qp_ex);
    verbs.sz = size_of::<verbs_context>();
    let context = &mut verbs.context;
    context.device = device;
    context.ops.poll_cq = Some(data::poll_cq);
    context.ops.req_notify_cq = Some(data::req_notify_cq);
    context.ops.post_send = Some(data::post_send);
    context.ops.post_recv = Some(data::post_recv);
    context.cmd_fd = -1;
    context.async_fd = async_fd;
    context.num_comp_vectors = COMPLETION_VECTORS.cast_signed();
    // What marks a context that has a `verbs_context` around it.
    context.abi_compat = core::ptr::without_provenance_mut(usize::MAX);
    verbs
}

/// Writes a result where the caller wants it, if it does.
///
/// # Safety
/// The pointer is null or valid for writing.
unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: by this function's contract.
        unsafe { to.write_unaligned(value) };
    }
}

/// Reads an argument that may not be null.
///
/// # Safety
/// The pointer is null or valid for reading.
unsafe fn get<T: Copy>(from: *const T) -> Result<T, rustix::io::Errno> {
    if from.is_null() {
        let rule = format_args!("an argument is null");
        return Err(crate::strict::violated(rustix::io::Errno::INVAL, rule));
    }
    // SAFETY: by this function's contract.
    Ok(unsafe { from.read_unaligned() })
}
