//! Extended completion queues. Only the fields that were asked for can be read: a card does not
//! have the others, and reading one ends in the error of a violated precondition.

use super::get;
use crate::abi::*;
use crate::call::{control, number, pointer};
use crate::cq::{Completion, CompletionQueue, Wanted};
use crate::handle::Object;
use crate::{clock, settings, strict};
use core::ffi::c_int;
use rustix::io::Errno;

const SUPPORTED: u32 = IBV_WC_EX_WITH_BYTE_LEN
    | IBV_WC_EX_WITH_IMM
    | IBV_WC_EX_WITH_QP_NUM
    | IBV_WC_EX_WITH_SRC_QP
    | IBV_WC_EX_WITH_SLID
    | IBV_WC_EX_WITH_SL
    | IBV_WC_EX_WITH_DLID_PATH_BITS
    | IBV_WC_EX_WITH_FLOW_TAG;
const STAMPS: u32 =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

pub(super) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    pointer(control("create_cq_ex", |line| {
        // SAFETY: the caller's own.
        let attr = unsafe { get(attr) }?;
        line.add(format_args!(
            "cqe={} wc_flags={:#x}",
            attr.cqe, attr.wc_flags
        ));
        let supported = if settings::get().timestamp {
            SUPPORTED | STAMPS
        } else {
            SUPPORTED
        };
        let wanted = u32::try_from(attr.wc_flags).unwrap_or(u32::MAX);
        if wanted & !supported != 0 || attr.comp_mask & !IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let flags = if attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0 {
            attr.flags
        } else {
            0
        };
        let known = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
        if flags & !known != 0 {
            return Err(Errno::OPNOTSUPP);
        }
        let asked = Wanted {
            entries: attr.cqe,
            user: attr.cq_context,
            channel: attr.channel,
            vector: attr.comp_vector,
            ignore_overrun: flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0,
            stamped: wanted & STAMPS != 0,
        };
        let cq = CompletionQueue::create(context, &asked, |abi| functions(abi, wanted))?;
        Ok(cq.pointer().cast())
    }))
}

/// What an extended queue can be asked.
fn functions(abi: &mut ibv_cq_ex, wanted: u32) {
    abi.start_poll = Some(start_poll);
    abi.next_poll = Some(next_poll);
    abi.end_poll = Some(end_poll);
    abi.read_opcode = Some(read_opcode);
    abi.read_vendor_err = Some(read_vendor_err);
    abi.read_wc_flags = Some(read_wc_flags);
    let has = |flag: u32| wanted & flag != 0;
    abi.read_byte_len = Some(if has(IBV_WC_EX_WITH_BYTE_LEN) {
        read_byte_len
    } else {
        unasked32
    });
    abi.read_qp_num = Some(if has(IBV_WC_EX_WITH_QP_NUM) {
        read_qp_num
    } else {
        unasked32
    });
    abi.read_flow_tag = Some(if has(IBV_WC_EX_WITH_FLOW_TAG) {
        read_flow_tag
    } else {
        unasked32
    });
    abi.read_completion_ts = Some(if has(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) {
        read_completion_ts
    } else {
        unasked64
    });
    abi.read_completion_wallclock_ns =
        Some(if has(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) {
            read_wallclock
        } else {
            unasked64
        });
    // Raw packets have none of these; with the flag they read as zero.
    let zero = |flag: u32| {
        Some(if has(flag) {
            zero32 as Read32
        } else {
            unasked32
        })
    };
    abi.read_imm_data = zero(IBV_WC_EX_WITH_IMM);
    abi.read_src_qp = zero(IBV_WC_EX_WITH_SRC_QP);
    abi.read_slid = zero(IBV_WC_EX_WITH_SLID);
    let zero = |flag: u32| Some(if has(flag) { zero8 as Read8 } else { unasked8 });
    abi.read_sl = zero(IBV_WC_EX_WITH_SL);
    abi.read_dlid_path_bits = zero(IBV_WC_EX_WITH_DLID_PATH_BITS);
    abi.read_cvlan = Some(unasked16);
    abi.read_tm_info = Some(unasked_tag);
}

type Read32 = unsafe extern "C" fn(*mut ibv_cq_ex) -> u32;
type Read8 = unsafe extern "C" fn(*mut ibv_cq_ex) -> u8;

/// What the poll is looking at.
///
/// # Safety
/// A completion queue of this library.
unsafe fn current(cq: *mut ibv_cq_ex) -> Option<Completion> {
    // SAFETY: by this function's contract.
    unsafe { CompletionQueue::data(cq.cast()) }.ok()?.current()
}

unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: the caller's own.
    let attr = unsafe { get(attr) };
    if attr.is_ok_and(|a| a.comp_mask != 0) {
        return Errno::INVAL.raw_os_error();
    }
    // SAFETY: a completion queue of this library.
    let cq = unsafe { CompletionQueue::data(cq.cast()) };
    number(cq.and_then(CompletionQueue::start_poll))
}

unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: a completion queue of this library.
    let cq = unsafe { CompletionQueue::data(cq.cast()) };
    number(cq.and_then(CompletionQueue::next_poll))
}

unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: a completion queue of this library.
    if let Ok(cq) = unsafe { CompletionQueue::data(cq.cast()) } {
        cq.end_poll();
    }
}

/// A function that reads one field of the current completion.
macro_rules! reader {
    ($($name:ident -> $type:ty, $field:expr;)*) => {
        $(unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
            let field: fn(&Completion) -> $type = $field;
            // SAFETY: a completion queue of this library.
            unsafe { current(cq) }.map_or(0, |c| field(&c))
        })*
    };
}

reader! {
    read_opcode -> u32, |c| c.opcode;
    read_vendor_err -> u32, |c| if c.status == IBV_WC_SUCCESS { 0 } else { 0x5356 };
    read_wc_flags -> u32, |c| c.flags;
    read_byte_len -> u32, |c| c.length;
    read_qp_num -> u32, |c| c.qp.number;
    read_flow_tag -> u32, |c| c.tag;
    read_completion_ts -> u64, |c| clock::ticks(c.time);
    read_wallclock -> u64, |c| c.time;
    zero32 -> u32, |_| 0;
    zero8 -> u8, |_| 0;
}

#[cold]
fn unasked() {
    let rule = format_args!("a field of a completion that create_cq_ex did not ask for");
    strict::violated(Errno::INVAL, rule);
}

unsafe extern "C" fn unasked64(_: *mut ibv_cq_ex) -> u64 {
    unasked();
    u64::MAX
}

unsafe extern "C" fn unasked32(_: *mut ibv_cq_ex) -> u32 {
    unasked();
    u32::MAX
}

unsafe extern "C" fn unasked16(_: *mut ibv_cq_ex) -> u16 {
    unasked();
    u16::MAX
}

unsafe extern "C" fn unasked8(_: *mut ibv_cq_ex) -> u8 {
    unasked();
    u8::MAX
}

unsafe extern "C" fn unasked_tag(_: *mut ibv_cq_ex, _: *mut core::ffi::c_void) {
    unasked();
}

/// Moderation is accepted and changes nothing: completions are raised at once.
pub(super) unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attr: *mut ibv_modify_cq_attr) -> c_int {
    number(control("modify_cq", |line| {
        crate::handle::find::<CompletionQueue>(cq)?;
        // SAFETY: the caller's own.
        let attr = unsafe { get(attr) }?;
        let moderation = attr.moderate;
        let (count, period) = (moderation.cq_count, moderation.cq_period);
        line.add(format_args!("count={count} period={period}"));
        if attr.attr_mask != IBV_CQ_ATTR_MODERATE || count > 4095 || period > 4095 {
            return Err(strict::violated(Errno::INVAL, format_args!("modify_cq")));
        }
        Ok(())
    }))
}
