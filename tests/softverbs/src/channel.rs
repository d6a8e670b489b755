//! Completion channels: the descriptor an application sleeps on, and the queue of completion
//! queues that have something new.

use crate::abi::{ibv_comp_channel, ibv_context};
use crate::context::{Context, give, take};
use crate::cq::CompletionQueue;
use crate::events::EventQueue;
use crate::handle::{self, Header, Object};
use crate::{interrupts, strict};
use core::cell::UnsafeCell;
use rustix::io::Errno;
use std::sync::atomic::{AtomicI32, Ordering};

/// One completion channel.
#[repr(C)]
pub(crate) struct Channel {
    abi: UnsafeCell<ibv_comp_channel>,
    header: Header,
    /// What it was made in.
    pub(crate) context: &'static Context,
    /// Completion queues whose event waits to be read.
    pub(crate) events: EventQueue<&'static CompletionQueue>,
}

// SAFETY: of `abi` only `refcnt` changes, by an atomic.
unsafe impl Sync for Channel {}

// SAFETY: repr(C) with `abi` first; shared by threads as said above.
unsafe impl Object for Channel {
    type Abi = ibv_comp_channel;
    const NAME: &'static str = "comp_channel";
    const KIND: u16 = 3;
    fn header(&self) -> &Header {
        &self.header
    }
}

impl Channel {
    /// `ibv_create_comp_channel`.
    ///
    /// # Errors
    /// Those of the descriptor and of the thread it needs.
    pub(crate) fn create(context: *mut ibv_context) -> Result<&'static Self, Errno> {
        let context = Context::find(context)?;
        let events = EventQueue::new()?;
        interrupts::start()?;
        take(&context.counts.channels, u32::MAX)?;
        Ok(handle::publish(Self {
            abi: UnsafeCell::new(ibv_comp_channel {
                context: context.pointer(),
                fd: events.fd(),
                refcnt: 0,
            }),
            header: Header::new(),
            context,
            events,
        }))
    }

    /// Completion queues that use it: `refcnt`, as the real library counts them.
    pub(crate) fn users(&self) -> &AtomicI32 {
        // SAFETY: within `abi`, which lives as long as `self`.
        let count = unsafe { &raw mut (*self.abi.get()).refcnt };
        // SAFETY: aligned, valid for ever, and only changed through the atomic.
        unsafe { AtomicI32::from_ptr(count) }
    }

    /// `ibv_destroy_comp_channel`.
    ///
    /// # Errors
    /// `EBUSY` while a completion queue uses it.
    pub(crate) fn destroy(channel: *mut ibv_comp_channel) -> Result<(), Errno> {
        let channel: &'static Self = handle::find(channel)?;
        channel.context.owned()?;
        if channel.users().load(Ordering::Relaxed) != 0 {
            let rule = format_args!("destroy_comp_channel: a completion queue uses it");
            return Err(strict::violated(Errno::BUSY, rule));
        }
        if handle::retire(channel) {
            give(&channel.context.counts.channels);
            // SAFETY: within `abi`, which lives as long as `channel`; the application may
            // have moved the descriptor.
            let fd = unsafe { (*channel.abi.get()).fd };
            channel.events.close(fd);
        }
        Ok(())
    }

    /// `ibv_get_cq_event`.
    ///
    /// # Errors
    /// Those of read(2).
    pub(crate) fn next(channel: *mut ibv_comp_channel) -> Result<&'static CompletionQueue, Errno> {
        let channel: &'static Self = handle::find(channel)?;
        let cq = channel.events.next()?;
        cq.unacknowledged.fetch_add(1, Ordering::Relaxed);
        Ok(cq)
    }
}
