//! RDMA devices: the list of them, an opened one, what it can do, its asynchronous events.
//!
//! Owns the context and the protection domain. Source: ibv_get_device_list(3),
//! ibv_open_device(3), ibv_query_device_ex(3), ibv_get_async_event(3).

use super::abi::ExtendedContext;
use super::library::{Functions, Library};
use crate::error::Errno;
use crate::sys::raw::{self, syscall6};
use crate::sys::{fd, foreign};
use ibverbs_sys as ibv;
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// The error that the library's last call left; EIO where it left none.
pub(super) fn last_error() -> Errno {
    match foreign::errno() {
        0 => Errno(libc::EIO),
        n => Errno(n),
    }
}

/// The result of a function that answers 0 or an error number (a few answer -1 and errno).
pub(super) fn check(result: c_int) -> Result<(), Errno> {
    match result {
        0 => Ok(()),
        n if n < 0 => Err(last_error()),
        n => Err(Errno(n)),
    }
}

/// What is known of a device before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// As in /sys/class/infiniband.
    pub name: String,
    /// Its directory there.
    pub path: CString,
    /// An iWARP card.
    pub iwarp: bool,
}

/// The devices of this machine, as long as it lives.
#[derive(Debug)]
pub struct DeviceList {
    library: &'static Library,
    list: NonNull<*mut ibv::ibv_device>,
    count: usize,
}

impl DeviceList {
    /// Asks the library.
    ///
    /// # Errors
    /// ENOSYS where the kernel has no RDMA, EPERM, ENOMEM.
    pub fn get(library: &'static Library) -> Result<Self, Errno> {
        let _inside = foreign::enter();
        let mut count: c_int = 0;
        // SAFETY: the count is a valid place for the length of the call.
        let list = unsafe { (library.functions.ibv_get_device_list)(&raw mut count) };
        Ok(Self {
            library,
            list: NonNull::new(list).ok_or_else(last_error)?,
            count: usize::try_from(count).unwrap_or(0),
        })
    }

    fn device(&self, index: usize) -> Option<NonNull<ibv::ibv_device>> {
        if index >= self.count {
            return None;
        }
        // SAFETY: the list has `count` entries.
        let entry = unsafe { self.list.add(index) };
        // SAFETY: an entry of the list, which is freed by our drop only.
        NonNull::new(unsafe { entry.read() })
    }

    /// What each is called, in the list's order.
    #[must_use]
    pub fn names(&self) -> Vec<DeviceName> {
        (0..self.count)
            .filter_map(|i| self.device(i))
            .map(|device| {
                // SAFETY: devices live as long as the list; nobody writes to them.
                let device = unsafe { device.as_ref() };
                DeviceName {
                    name: text(&device.name).to_string_lossy().into_owned(),
                    path: text(&device.ibdev_path),
                    iwarp: device.transport_type == ibv::IBV_TRANSPORT_IWARP
                        || device.node_type == super::abi::NODE_RNIC,
                }
            })
            .collect()
    }

    /// Opens one by its place in the list.
    ///
    /// # Errors
    /// ENODEV, EACCES, ENOMEM, EMFILE.
    pub fn open(&self, index: usize) -> Result<Arc<Context>, Errno> {
        let device = self.device(index).ok_or(Errno(libc::ENODEV))?;
        let _inside = foreign::enter();
        let functions = &self.library.functions;
        // SAFETY: a device of the list, which is alive.
        let context = unsafe { (functions.ibv_open_device)(device.as_ptr()) };
        let raw = NonNull::new(context).ok_or_else(last_error)?;
        let context = Context { raw, functions };
        // SAFETY: the context is open, and nobody else has it yet.
        let fields = unsafe { &mut *raw.as_ptr() };
        adopt(&mut fields.cmd_fd);
        adopt(&mut fields.async_fd);
        set_nonblocking(fields.async_fd);
        Ok(Arc::new(context))
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        let _inside = foreign::enter();
        // SAFETY: the list of `get`, freed once.
        unsafe { (self.library.functions.ibv_free_device_list)(self.list.as_ptr()) };
    }
}

/// The bytes up to the first zero, or all of them.
fn text(field: &[c_char]) -> CString {
    let bytes: Vec<u8> = field
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| *c as u8)
        .collect();
    CString::new(bytes).unwrap_or_default()
}

/// Moves a descriptor that the library has opened to a high number, out of the program's
/// way, and registers it: it is not the program's to close, and a forked child closes it.
/// The library reads the number from its structure at each use.
pub(super) fn adopt(number: &mut c_int) {
    if *number >= 0 {
        *number = fd::move_high(*number);
        fd::register_owned(*number);
    }
}

/// Before the library closes it.
pub(super) fn disown(number: RawFd) {
    fd::unregister(number);
}

pub(super) fn set_nonblocking(number: RawFd) {
    // SAFETY: fcntl(F_GETFL) takes integers only.
    let flags = unsafe {
        syscall6(
            libc::SYS_fcntl,
            [number as usize, libc::F_GETFL as usize, 0, 0, 0, 0],
        )
    };
    let flags = flags.unwrap_or(0) | libc::O_NONBLOCK as usize;
    // SAFETY: fcntl(F_SETFL) takes integers only.
    let _ = unsafe {
        syscall6(
            libc::SYS_fcntl,
            [number as usize, libc::F_SETFL as usize, flags, 0, 0, 0],
        )
    };
}

/// What a device can do, as far as this engine cares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Ports.
    pub ports: u8,
    /// Most work requests of a queue.
    pub max_qp_wr: u32,
    /// Most entries of a completion queue.
    pub max_cqe: u32,
    /// Queue pairs of all programs together.
    pub max_qp: u32,
    /// IBV_DEVICE_MANAGED_FLOW_STEERING.
    pub flow_steering: bool,
    /// The card writes and checks IPv4 and UDP checksums of raw packets.
    pub checksums: bool,
    /// `raw_packet_caps`; None: the library cannot tell.
    pub raw_packet_caps: Option<u32>,
    /// The card stamps completions.
    pub stamps: bool,
    /// The vendor's number; 0xffffff for software devices of the kernel.
    pub vendor: u32,
}

/// What a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// IBV_LINK_LAYER_ETHERNET.
    pub ethernet: bool,
    /// IBV_PORT_ACTIVE.
    pub active: bool,
}

/// An asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncEvent {
    /// The completion queue with this identity has overrun.
    CompletionQueue(usize),
    /// The queue pair with this identity has stopped.
    QueuePair(usize),
    /// A port has come up.
    PortActive(u8),
    /// A port has gone down.
    PortError(u8),
    /// The device is gone.
    DeviceFatal,
    /// Nothing that matters here.
    Other,
}

/// An opened device.
#[derive(Debug)]
pub struct Context {
    pub(super) raw: NonNull<ibv::ibv_context>,
    pub(super) functions: &'static Functions,
}

// SAFETY: libibverbs' functions may be called from any thread (its man page verbs(7)); what
// must not run at the same time takes `&mut` here.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

macro_rules! extended {
    ($context:expr, $field:ident) => {{
        let at = $context.extended(offset_of!(ExtendedContext, $field));
        // SAFETY: `extended` has checked that the library's structure reaches this field.
        at.and_then(|at| unsafe { (*at.as_ptr()).$field })
    }};
}
pub(super) use extended;

impl Context {
    /// The extended context, if it has the field at this offset.
    pub(super) fn extended(&self, field: usize) -> Option<NonNull<ExtendedContext>> {
        // SAFETY: the context is open.
        let marked = unsafe { (*self.raw.as_ptr()).abi_compat }.addr() == usize::MAX;
        if !marked {
            return None;
        }
        let at = self
            .raw
            .as_ptr()
            .wrapping_byte_sub(offset_of!(ExtendedContext, context))
            .cast::<ExtendedContext>();
        // SAFETY: a marked context is the last field of an extended one, and `sz` stands
        // right before it in every version.
        let size = unsafe { (*at).sz };
        (size >= size_of::<ExtendedContext>() - field)
            .then(|| NonNull::new(at))
            .flatten()
    }

    /// The operations of the data path; they do not change.
    pub(super) fn ops(&self) -> &ibv::ibv_context_ops {
        // SAFETY: the context is open until our drop.
        unsafe { &(*self.raw.as_ptr()).ops }
    }

    /// Asks what the device can do.
    ///
    /// # Errors
    /// The device's.
    pub fn limits(&self) -> Result<DeviceLimits, Errno> {
        let _inside = foreign::enter();
        // SAFETY: all zeros is a value of this plain structure.
        let mut ex: ibv::ibv_device_attr_ex = unsafe { MaybeUninit::zeroed().assume_init() };
        let known = extended!(self, query_device_ex).is_some_and(|query| {
            let size = size_of::<ibv::ibv_device_attr_ex>();
            // SAFETY: the context is open; the structure is of the size that is told.
            let result = unsafe { query(self.raw.as_ptr(), std::ptr::null(), &raw mut ex, size) };
            result == 0
        });
        if !known {
            let attr = &raw mut ex.orig_attr;
            // SAFETY: as above.
            check(unsafe { (self.functions.ibv_query_device)(self.raw.as_ptr(), attr) })?;
        }
        let attr = &ex.orig_attr;
        let flags = attr.device_cap_flags;
        let raw_caps = known.then_some(ex.raw_packet_caps);
        let number = |n: c_int| u32::try_from(n).unwrap_or(0);
        Ok(DeviceLimits {
            ports: attr.phys_port_cnt,
            max_qp_wr: number(attr.max_qp_wr),
            max_cqe: number(attr.max_cqe),
            max_qp: number(attr.max_qp),
            flow_steering: flags & ibv::IBV_DEVICE_MANAGED_FLOW_STEERING != 0,
            checksums: flags & ibv::IBV_DEVICE_RAW_IP_CSUM != 0
                || raw_caps.is_some_and(|caps| caps & ibv::IBV_RAW_PACKET_CAP_IP_CSUM != 0),
            raw_packet_caps: raw_caps,
            stamps: known && ex.completion_timestamp_mask != 0,
            vendor: attr.vendor_id,
        })
    }

    /// Asks about a port; the first is 1.
    ///
    /// # Errors
    /// EINVAL for a port that does not exist.
    pub fn port(&self, port: u8) -> Result<PortInfo, Errno> {
        let _inside = foreign::enter();
        // SAFETY: all zeros is a value of this plain structure.
        let mut attr: ibv::ibv_port_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        let query = self.functions.ibv_query_port;
        // SAFETY: the function fills the older, shorter part of the structure.
        check(unsafe { query(self.raw.as_ptr(), port, &raw mut attr) })?;
        Ok(PortInfo {
            ethernet: u32::from(attr.link_layer) == ibv::IBV_LINK_LAYER_ETHERNET,
            active: attr.state == ibv::ibv_port_state::IBV_PORT_ACTIVE,
        })
    }

    /// Polls readable while an asynchronous event waits.
    #[must_use]
    pub fn async_fd(&self) -> RawFd {
        // SAFETY: the context is open, and the number does not change any more.
        unsafe { (*self.raw.as_ptr()).async_fd }
    }

    /// The next asynchronous event, acknowledged; never waits. The caller lets no queue go
    /// at the same time: an object is known by its address.
    #[must_use]
    pub fn next_event(&self) -> Option<AsyncEvent> {
        let _inside = foreign::enter();
        let mut event = MaybeUninit::<ibv::ibv_async_event>::zeroed();
        let get = self.functions.ibv_get_async_event;
        // SAFETY: the context is open; the structure is ours.
        if unsafe { get(self.raw.as_ptr(), event.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: the call has filled it.
        let mut event = unsafe { event.assume_init() };
        // SAFETY: every member of the union is plain data, and it was zeroed before.
        let object = unsafe { event.element.cq }.addr();
        // SAFETY: as above.
        let port = u8::try_from(unsafe { event.element.port_num }).unwrap_or(0);
        let kind = match event.event_type {
            ibv::IBV_EVENT_CQ_ERR => AsyncEvent::CompletionQueue(object),
            ibv::IBV_EVENT_QP_FATAL
            | ibv::IBV_EVENT_QP_REQ_ERR
            | ibv::IBV_EVENT_QP_ACCESS_ERR
            | ibv::IBV_EVENT_WQ_FATAL => AsyncEvent::QueuePair(object),
            ibv::IBV_EVENT_PORT_ACTIVE => AsyncEvent::PortActive(port),
            ibv::IBV_EVENT_PORT_ERR => AsyncEvent::PortError(port),
            ibv::IBV_EVENT_DEVICE_FATAL => AsyncEvent::DeviceFatal,
            _ => AsyncEvent::Other,
        };
        // SAFETY: the event that was got just now, acknowledged once.
        unsafe { (self.functions.ibv_ack_async_event)(&raw mut event) };
        Some(kind)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let _inside = foreign::enter();
        // SAFETY: open until the call below.
        let fields = unsafe { self.raw.as_ref() };
        disown(fields.cmd_fd);
        disown(fields.async_fd);
        // SAFETY: everything made of it holds an Arc, so that nothing is left.
        let _ = unsafe { (self.functions.ibv_close_device)(self.raw.as_ptr()) };
    }
}

/// A protection domain: what its queue pairs and memory regions have in common.
#[derive(Debug)]
pub struct Domain {
    pub(super) raw: NonNull<ibv::ibv_pd>,
    pub(super) context: Arc<Context>,
}

// SAFETY: see `Context`.
unsafe impl Send for Domain {}
// SAFETY: see `Context`.
unsafe impl Sync for Domain {}

impl Domain {
    /// Makes one.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn new(context: &Arc<Context>) -> Result<Arc<Self>, Errno> {
        let _inside = foreign::enter();
        // SAFETY: the context is open.
        let raw = unsafe { (context.functions.ibv_alloc_pd)(context.raw.as_ptr()) };
        Ok(Arc::new(Self {
            raw: NonNull::new(raw).ok_or_else(last_error)?,
            context: Arc::clone(context),
        }))
    }

    /// The device.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let _inside = foreign::enter();
        // SAFETY: what is made of it holds an Arc of it, so that nothing is left.
        let _ = unsafe { (self.context.functions.ibv_dealloc_pd)(self.raw.as_ptr()) };
    }
}

/// Files of a directory, without `.` and `..`; empty where it cannot be read.
#[must_use]
pub fn list(path: &CStr) -> Vec<CString> {
    let mut names = Vec::new();
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let at = libc::AT_FDCWD as usize;
    // SAFETY: the path ends with a zero and lives as long as the call.
    let opened = unsafe {
        syscall6(
            libc::SYS_openat,
            [at, path.as_ptr() as usize, flags as usize, 0, 0, 0],
        )
    };
    let Ok(directory) = opened else { return names };
    let mut buffer = vec![0u8; 4096];
    loop {
        let args = [
            directory,
            buffer.as_mut_ptr() as usize,
            buffer.len(),
            0,
            0,
            0,
        ];
        // SAFETY: the kernel writes at most the buffer's length into it.
        let filled = match unsafe { syscall6(libc::SYS_getdents64, args) } {
            Ok(0) | Err(_) => break,
            Ok(n) => n.min(buffer.len()),
        };
        entries(&buffer[..filled], &mut names);
    }
    raw::close(directory as RawFd);
    names.sort();
    names
}

/// Names of a buffer of `struct linux_dirent64` (getdents64(2)): length at 16, name at 19.
fn entries(mut buffer: &[u8], names: &mut Vec<CString>) {
    while let Some(&[low, high]) = buffer.get(16..18) {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let Some(entry) = buffer.get(19..length) else {
            return;
        };
        let name: Vec<u8> = entry.iter().copied().take_while(|b| *b != 0).collect();
        if name != b"." && name != b".." {
            names.push(CString::new(name).unwrap_or_default());
        }
        buffer = &buffer[length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_listed() {
        let names = list(c"/proc/self");
        assert!(names.iter().any(|n| n.as_c_str() == c"stat"));
        assert!(!names.iter().any(|n| n.to_bytes().starts_with(b".")));
        assert!(list(c"/no/such/directory").is_empty());
    }

    #[test]
    fn text_ends_at_the_first_zero() {
        let mut field = [0 as c_char; 8];
        field[0] = b'm' as c_char;
        field[1] = b'x' as c_char;
        assert_eq!(text(&field).as_c_str(), c"mx");
        assert_eq!(text(&[b'a' as c_char; 3]).as_c_str(), c"aaa");
    }
}
