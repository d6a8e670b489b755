//! Calls that only ask.

use super::{get, put};
use crate::abi::*;
use crate::call::{control, minus_one, number};
use crate::clock;
use crate::context::Context;
use crate::device::Device;
use crate::strict;
use core::ffi::{c_char, c_int};
use rustix::io::Errno;

#[unsafe(no_mangle)]
extern "C" fn sv_get_device_name(device: *mut ibv_device) -> *const c_char {
    Device::find(device).map_or(core::ptr::null(), |d| d.name().cast())
}

#[unsafe(no_mangle)]
extern "C" fn sv_get_device_guid(device: *mut ibv_device) -> u64 {
    Device::find(device).map_or(0, Device::guid)
}

#[unsafe(no_mangle)]
extern "C" fn sv_get_device_index(device: *mut ibv_device) -> c_int {
    let index = |d: &Device| d.interface.index.cast_signed();
    Device::find(device).map_or(-1, index)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_query_device(
    context: *mut ibv_context,
    attr: *mut ibv_device_attr,
) -> c_int {
    number(control("query_device", |_| {
        let attributes = Context::find(context)?.attributes();
        // SAFETY: the caller's own.
        unsafe { put(attr, attributes) };
        Ok(())
    }))
}

pub(super) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    number(control("query_device_ex", |_| {
        let context = Context::find(context)?;
        // SAFETY: the caller's own.
        if !input.is_null() && unsafe { get(input) }?.comp_mask != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller says that so many bytes are its own.
        unsafe { copy_out(attr, &context.attributes_ex(), size) }
    }))
}

/// Writes as much of a structure as the caller's version of it has.
///
/// # Safety
/// `size` bytes may be written.
unsafe fn copy_out<T>(to: *mut T, from: &T, size: usize) -> Result<(), Errno> {
    if to.is_null() {
        return Err(Errno::INVAL);
    }
    let known = size.min(size_of::<T>());
    let to = to.cast::<u8>();
    // SAFETY: by this function's contract; what this version does not know is zero.
    unsafe { core::ptr::write_bytes(to, 0, size) };
    // SAFETY: by this function's contract, and no more than `from` has.
    unsafe { core::ptr::copy_nonoverlapping(core::ptr::from_ref(from).cast(), to, known) };
    Ok(())
}

fn one_port(port: u32) -> Result<(), Errno> {
    if port == 1 {
        return Ok(());
    }
    let rule = format_args!("port {port} of a card with one");
    Err(strict::violated(Errno::INVAL, rule))
}

pub(super) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    number(control("query_port", |_| {
        let context = Context::find(context)?;
        one_port(u32::from(port))?;
        // SAFETY: the caller says that so many bytes are its own.
        unsafe { copy_out(attr, &context.port()?, size) }
    }))
}

/// The exported one writes what programs of old had: no `flags` and no `port_cap_flags2`
/// (`struct _compat_ibv_port_attr`).
#[unsafe(no_mangle)]
unsafe extern "C" fn sv_query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    let size = core::mem::offset_of!(ibv_port_attr, flags);
    // SAFETY: the caller's structure has at least so many bytes.
    unsafe { query_port(context, port, attr, size) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut [u64; 2],
) -> c_int {
    minus_one(control("query_gid", |_| {
        let context = Context::find(context)?;
        one_port(u32::from(port))?;
        if index != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's own.
        unsafe { put(gid, context.gid()) };
        Ok(())
    }))
}

fn entry(context: &Context) -> ibv_gid_entry {
    ibv_gid_entry {
        gid: context.gid(),
        gid_index: 0,
        port_num: 1,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: context.device.interface.index,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    to: *mut ibv_gid_entry,
    flags: u32,
    size: usize,
) -> c_int {
    number(control("query_gid_ex", |_| {
        let context = Context::find(context)?;
        one_port(port)?;
        if flags != 0 || index != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller says that so many bytes are its own.
        unsafe { copy_out(to, &entry(context), size) }
    }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_query_gid_table(
    context: *mut ibv_context,
    to: *mut ibv_gid_entry,
    room: usize,
    flags: u32,
    size: usize,
) -> isize {
    let result = control("query_gid_table", |_| {
        let context = Context::find(context)?;
        if flags != 0 || room == 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller says that so many bytes are its own.
        unsafe { copy_out(to, &entry(context), size) }
    });
    match result {
        Ok(()) => 1,
        Err(errno) => -(errno.raw_os_error() as isize),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sv_query_pkey(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    key: *mut u16,
) -> c_int {
    minus_one(control("query_pkey", |_| {
        Context::find(context)?;
        one_port(u32::from(port))?;
        if index != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: the caller's own.
        unsafe { put(key, 0xffff) };
        Ok(())
    }))
}

#[unsafe(no_mangle)]
extern "C" fn sv_get_pkey_index(context: *mut ibv_context, port: u8, key: u16) -> c_int {
    minus_one(control("get_pkey_index", |_| {
        Context::find(context)?;
        one_port(u32::from(port))?;
        if key == 0xffff {
            Ok(())
        } else {
            Err(Errno::INVAL)
        }
    }))
}

pub(super) unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    number(control("query_rt_values", |_| {
        Context::find(context)?;
        // SAFETY: the caller's own.
        let mut result = unsafe { get(values) }?;
        if result.comp_mask & !IBV_VALUES_MASK_RAW_CLOCK != 0 {
            return Err(Errno::INVAL);
        }
        result.comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
        // As mlx5: the ticks stand in the nanoseconds' place.
        result.raw_clock = libc::timespec {
            tv_sec: 0,
            tv_nsec: clock::ticks(clock::realtime()).cast_signed(),
        };
        // SAFETY: the caller's own.
        unsafe { put(values, result) };
        Ok(())
    }))
}
