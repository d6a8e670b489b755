//! Completion queues and the channel that wakes a sleeper.
//!
//! Owns both, in the order in which they may go. Source: ibv_create_cq(3),
//! ibv_create_cq_ex(3), ibv_req_notify_cq(3), ibv_get_cq_event(3), ibv_modify_cq(3).

use super::abi::{ExtendedContext, WorkCompletion};
use super::device::{Context, adopt, check, disown, extended, last_error, set_nonblocking};
use super::library::PollCq;
use crate::error::Errno;
use crate::sys::foreign;
use ibverbs_sys as ibv;
use std::ffi::{c_int, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::RawFd;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// What wakes whoever sleeps on a completion queue.
#[derive(Debug)]
struct Channel {
    raw: NonNull<ibv::ibv_comp_channel>,
    context: Arc<Context>,
}

impl Channel {
    fn new(context: &Arc<Context>) -> Result<Self, Errno> {
        // SAFETY: the context is open.
        let raw = unsafe { (context.functions.ibv_create_comp_channel)(context.raw.as_ptr()) };
        let raw = NonNull::new(raw).ok_or_else(last_error)?;
        // SAFETY: made just now, and nobody else has it yet.
        let fields = unsafe { &mut *raw.as_ptr() };
        adopt(&mut fields.fd);
        set_nonblocking(fields.fd);
        Ok(Self {
            raw,
            context: Arc::clone(context),
        })
    }

    fn fd(&self) -> RawFd {
        // SAFETY: alive until our drop; the number does not change any more.
        unsafe { (*self.raw.as_ptr()).fd }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let _inside = foreign::enter();
        disown(self.fd());
        // SAFETY: its completion queue is gone (see the order of the fields of `Shared`).
        let _ = unsafe { (self.context.functions.ibv_destroy_comp_channel)(self.raw.as_ptr()) };
    }
}

/// The queue as others hold it: a queue pair needs it alive, its owner polls it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) raw: NonNull<ibv::ibv_cq>,
    context: Arc<Context>,
    // After `drop` has destroyed the queue.
    channel: Option<Channel>,
}

// SAFETY: see `Context`; polling takes the one `CompletionQueue` by `&mut`.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        let _inside = foreign::enter();
        // SAFETY: its queue pairs hold an Arc, so that none is left; events have been
        // acknowledged one by one.
        let _ = unsafe { (self.context.functions.ibv_destroy_cq)(self.raw.as_ptr()) };
    }
}

/// How to make a completion queue.
#[derive(Clone, Copy, Debug)]
pub struct CqOptions {
    /// Entries at the least.
    pub entries: u32,
    /// It can be slept on.
    pub channel: bool,
    /// Ask for wall clock time stamps.
    pub stamps: bool,
}

/// The functions by which an extended queue is read.
#[derive(Clone, Copy, Debug)]
struct Extended {
    start: unsafe extern "C" fn(*mut ibv::ibv_cq_ex, *mut ibv::ibv_poll_cq_attr) -> c_int,
    next: unsafe extern "C" fn(*mut ibv::ibv_cq_ex) -> c_int,
    end: unsafe extern "C" fn(*mut ibv::ibv_cq_ex),
    length: unsafe extern "C" fn(*mut ibv::ibv_cq_ex) -> u32,
    flags: unsafe extern "C" fn(*mut ibv::ibv_cq_ex) -> u32,
    stamp: unsafe extern "C" fn(*mut ibv::ibv_cq_ex) -> u64,
}

/// A completion queue and the right to poll it.
#[derive(Debug)]
pub struct CompletionQueue {
    pub(super) shared: Arc<Shared>,
    poll: PollCq,
    notify: unsafe extern "C" fn(*mut ibv::ibv_cq, c_int) -> c_int,
    extended: Option<Extended>,
    armed: bool,
}

impl CompletionQueue {
    /// Makes one; `stamps` gives way where the device has none.
    ///
    /// # Errors
    /// ENOMEM, EINVAL for too many entries.
    pub fn new(context: &Arc<Context>, options: CqOptions) -> Result<Self, Errno> {
        let _inside = foreign::enter();
        let channel = options.channel.then(|| Channel::new(context)).transpose()?;
        let channel_raw = channel.as_ref().map_or(ptr::null_mut(), |c| c.raw.as_ptr());
        let stamped = options
            .stamps
            .then(|| create_extended(context, options.entries, channel_raw))
            .flatten();
        let (raw, extended) = match stamped {
            Some((raw, extended)) => (raw.cast(), Some(extended)),
            None => (create(context, options.entries, channel_raw)?, None),
        };
        let shared = Arc::new(Shared {
            raw,
            context: Arc::clone(context),
            channel,
        });
        let ops = context.ops();
        let poll = ops.poll_cq.ok_or(Errno(libc::ENOSYS))?;
        // SAFETY: the same function; the bindings' structure is as opaque as a completion
        // of theirs, and ours has the header's layout.
        let poll: PollCq = unsafe { std::mem::transmute(poll) };
        Ok(Self {
            shared,
            poll,
            notify: ops.req_notify_cq.ok_or(Errno(libc::ENOSYS))?,
            extended,
            armed: false,
        })
    }

    /// Whether completions carry the card's time.
    #[must_use]
    pub fn stamps(&self) -> bool {
        self.extended.is_some()
    }

    /// Its identity in asynchronous events.
    #[must_use]
    pub fn identity(&self) -> usize {
        self.shared.raw.as_ptr().addr()
    }

    /// Interrupt moderation: one after `count` completions or `period` µs.
    ///
    /// # Errors
    /// EOPNOTSUPP.
    pub fn moderate(&mut self, count: u16, period: u16) -> Result<(), Errno> {
        let _inside = foreign::enter();
        let modify = extended!(self.shared.context, modify_cq).ok_or(Errno(libc::EOPNOTSUPP))?;
        let mut attr = ibv::ibv_modify_cq_attr {
            attr_mask: ibv::IBV_CQ_ATTR_MODERATE,
            moderate: ibv::ibv_moderate_cq {
                cq_count: count,
                cq_period: period,
            },
        };
        // SAFETY: the queue is alive; the structure lives as long as the call.
        check(unsafe { modify(self.shared.raw.as_ptr(), &raw mut attr) })
    }

    /// Takes up to `out.len()` completions. `stamps` gets the card's time of each, where it
    /// has one (see [`Self::stamps`]).
    ///
    /// # Errors
    /// The queue is broken.
    #[inline]
    pub fn poll(&mut self, out: &mut [WorkCompletion], stamps: &mut [u64]) -> Result<usize, Errno> {
        if let Some(extended) = self.extended {
            return self.poll_extended(extended, out, stamps);
        }
        let most = out.len() as u32;
        let (cq, room) = (self.shared.raw.as_ptr(), out.as_mut_ptr());
        // SAFETY: the queue is alive and polled by us alone; there is room for `most`.
        let taken = unsafe { (self.poll)(cq, most as c_int, room) } as u32;
        if taken > most {
            return Err(Errno(libc::EIO)); // a negative number among them
        }
        Ok(taken as usize)
    }

    fn poll_extended(
        &mut self,
        read: Extended,
        out: &mut [WorkCompletion],
        stamps: &mut [u64],
    ) -> Result<usize, Errno> {
        let cq: *mut ibv::ibv_cq_ex = self.shared.raw.as_ptr().cast();
        let mut attr = ibv::ibv_poll_cq_attr { comp_mask: 0 };
        // SAFETY: the queue is alive, extended, and polled by us alone.
        match unsafe { (read.start)(cq, &raw mut attr) } {
            0 => {}
            libc::ENOENT => return Ok(0),
            _ => return Err(Errno(libc::EIO)),
        }
        let most = out.len().min(stamps.len());
        let mut taken = 0;
        let ended = loop {
            let (wc, stamp) = (&mut out[taken], &mut stamps[taken]);
            // SAFETY: between start and end; the fields describe the current completion.
            wc.wr_id = unsafe { (*cq).wr_id };
            // SAFETY: as above.
            wc.status = unsafe { (*cq).status };
            if wc.status == 0 {
                // SAFETY: as above; the queue was made with this field.
                wc.byte_len = unsafe { (read.length)(cq) };
                // SAFETY: as above; flags are always there.
                wc.wc_flags = unsafe { (read.flags)(cq) };
                // SAFETY: as above; the queue was made with this field.
                *stamp = unsafe { (read.stamp)(cq) };
            }
            taken += 1;
            if taken == most {
                break 0; // another step would take one that has no place
            }
            // SAFETY: between start and end.
            match unsafe { (read.next)(cq) } {
                0 => {}
                other => break other,
            }
        };
        // SAFETY: started above.
        unsafe { (read.end)(cq) };
        // Trouble (neither 0 nor ENOENT) shows again at the next look; what was taken is good.
        let _ = ended;
        Ok(taken)
    }

    /// Polls readable when a completion has come after [`Self::arm`].
    #[must_use]
    pub fn sleep_fd(&self) -> Option<RawFd> {
        self.shared.channel.as_ref().map(Channel::fd)
    }

    /// Asks to be woken by the next completion. What came before does not wake: look again
    /// after this.
    ///
    /// # Errors
    /// The device's; no wake-up will come.
    pub fn arm(&mut self) -> Result<(), Errno> {
        self.request(false)
    }

    /// The same for completions in error alone: a raw packet never is a solicited one.
    ///
    /// # Errors
    /// As [`Self::arm`].
    pub fn arm_for_errors(&mut self) -> Result<(), Errno> {
        self.request(true)
    }

    fn request(&mut self, errors_alone: bool) -> Result<(), Errno> {
        let _errno = foreign::brief();
        if self.armed {
            self.clear_events();
        }
        // SAFETY: the queue is alive.
        check(unsafe { (self.notify)(self.shared.raw.as_ptr(), errors_alone.into()) })?;
        self.armed = true;
        Ok(())
    }

    /// Takes and acknowledges what the channel holds, or it would stay readable.
    fn clear_events(&mut self) {
        let Some(channel) = &self.shared.channel else {
            return;
        };
        let functions = self.shared.context.functions;
        let mut cq = MaybeUninit::<*mut ibv::ibv_cq>::zeroed();
        let mut user = MaybeUninit::<*mut c_void>::zeroed();
        loop {
            let (cq, user) = (cq.as_mut_ptr(), user.as_mut_ptr());
            // SAFETY: the channel is alive; both places are ours. It never waits: its
            // descriptor does not block.
            if unsafe { (functions.ibv_get_cq_event)(channel.raw.as_ptr(), cq, user) } != 0 {
                return;
            }
            // SAFETY: the channel belongs to this queue alone; one event, acknowledged once.
            unsafe { (functions.ibv_ack_cq_events)(self.shared.raw.as_ptr(), 1) };
        }
    }
}

fn create(
    context: &Arc<Context>,
    entries: u32,
    channel: *mut ibv::ibv_comp_channel,
) -> Result<NonNull<ibv::ibv_cq>, Errno> {
    let entries = c_int::try_from(entries).map_err(|_| Errno::INVAL)?;
    let make = context.functions.ibv_create_cq;
    // SAFETY: the context is open, and the channel null or alive.
    let raw = unsafe { make(context.raw.as_ptr(), entries, ptr::null_mut(), channel, 0) };
    NonNull::new(raw).ok_or_else(last_error)
}

/// A queue whose completions carry the wall clock; None where there is no such thing.
fn create_extended(
    context: &Arc<Context>,
    entries: u32,
    channel: *mut ibv::ibv_comp_channel,
) -> Option<(NonNull<ibv::ibv_cq_ex>, Extended)> {
    let make = extended!(context, create_cq_ex)?;
    let fields = ibv::IBV_WC_EX_WITH_BYTE_LEN | ibv::IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    let mut attr = ibv::ibv_cq_init_attr_ex {
        cqe: entries,
        cq_context: ptr::null_mut(),
        channel,
        comp_vector: 0,
        wc_flags: u64::from(fields),
        comp_mask: 0,
        flags: 0,
        parent_domain: ptr::null_mut(),
    };
    // SAFETY: the context is open; the structure lives as long as the call.
    let raw = NonNull::new(unsafe { make(context.raw.as_ptr(), &raw mut attr) })?;
    // SAFETY: made just now, and nobody else has it yet.
    let made = unsafe { raw.as_ref() };
    let read = || {
        Some(Extended {
            start: made.start_poll?,
            next: made.next_poll?,
            end: made.end_poll?,
            length: made.read_byte_len?,
            flags: made.read_wc_flags?,
            stamp: made.read_completion_wallclock_ns?,
        })
    };
    let read = read();
    if read.is_none() {
        // SAFETY: made just now; nothing uses it.
        let _ = unsafe { (context.functions.ibv_destroy_cq)(raw.as_ptr().cast()) };
    }
    Some((raw, read?))
}
