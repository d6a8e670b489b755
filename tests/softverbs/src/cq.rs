//! Completion queues: a ring of what has been done, and the flag that asks for an event.
//!
//! A card writes completions by itself; here a poll first lets the queue pairs take what their
//! wires hold, so that a frame uses up a receive request, or is lost without one, before any
//! completion is handed out.
//!
//! Lock order: this queue's lock, then a queue pair's receive lock. A queue pair's send lock is
//! taken before. Event queues are leaves. No call holds two completion queues' locks.

use crate::abi::*;
use crate::channel::Channel;
use crate::context::{Context, Subject, give, take};
use crate::handle::{self, Header, Object};
use crate::lifetime::Owner;
use crate::qp::QueuePair;
use crate::wire::WireQueue;
use crate::{clock, interrupts, settings, strict};
use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::ops::{Deref, DerefMut};
use parking_lot::RawMutex;
use parking_lot::lock_api::RawMutex as _;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// One completion, before it is given to the application.
#[derive(Clone, Copy)]
pub(crate) struct Completion {
    /// Of the work request.
    pub(crate) wr_id: u64,
    /// `enum ibv_wc_status`.
    pub(crate) status: u32,
    /// `enum ibv_wc_opcode`.
    pub(crate) opcode: u32,
    /// Bytes of the frame.
    pub(crate) length: u32,
    /// `enum ibv_wc_flags`.
    pub(crate) flags: u32,
    /// Tag of the flow rule.
    pub(crate) tag: u32,
    /// Nanoseconds of `CLOCK_REALTIME`.
    pub(crate) time: u64,
    /// Whose.
    pub(crate) qp: &'static QueuePair,
    /// Which request of its queue: polling it frees the slots up to here.
    pub(crate) index: u64,
}

impl Completion {
    /// Of a receive.
    pub(crate) fn is_receive(&self) -> bool {
        self.opcode & IBV_WC_RECV != 0
    }
}

/// What a completion event is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Armed {
    No,
    /// Only for errors: raw packets carry no solicited bit.
    Solicited,
    Any,
}

/// A queue pair that receives into this queue.
pub(crate) struct Receiver {
    /// Whose frames they are.
    pub(crate) qp: &'static QueuePair,
    /// Where they come from.
    pub(crate) queue: Arc<dyn WireQueue>,
    watch: Option<u64>,
}

/// What the lock protects.
pub(crate) struct State {
    ring: VecDeque<Completion>,
    capacity: usize,
    armed: Armed,
    /// Overrun: nothing is added any more.
    broken: bool,
    /// Queue pairs that receive here.
    pub(crate) receivers: Vec<Receiver>,
    /// What an extended poll is looking at.
    current: Option<Completion>,
}

/// One completion queue.
#[repr(C)]
pub(crate) struct CompletionQueue {
    abi: UnsafeCell<ibv_cq_ex>,
    header: Header,
    /// What it was made in.
    pub(crate) context: &'static Context,
    owner: Owner,
    channel: Option<&'static Channel>,
    lock: RawMutex,
    state: UnsafeCell<State>,
    /// An extended poll is between start and end, and holds the lock.
    polling: AtomicBool,
    ignore_overrun: bool,
    stamped: bool,
    /// Queue pairs that use it.
    pub(crate) users: AtomicU32,
    /// Completion events read but not acknowledged.
    pub(crate) unacknowledged: AtomicU32,
    /// Asynchronous events likewise.
    pub(crate) unacknowledged_async: AtomicU32,
}

// SAFETY: `state` is only reached with the lock held, and of `abi` only `status` and `wr_id`
// change, by whoever polls.
unsafe impl Sync for CompletionQueue {}

// SAFETY: repr(C) with `abi` first, of which `ibv_cq` is the beginning; shared as said above.
unsafe impl Object for CompletionQueue {
    type Abi = ibv_cq;
    const NAME: &'static str = "cq";
    const KIND: u16 = 4;
    fn header(&self) -> &Header {
        &self.header
    }
}

/// The queue, locked.
pub(crate) struct Guard<'a>(&'a CompletionQueue);

impl Deref for Guard<'_> {
    type Target = State;
    fn deref(&self) -> &State {
        // SAFETY: the lock is held as long as the guard lives.
        unsafe { &*self.0.state.get() }
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: the lock is held as long as the guard lives, which is borrowed exclusively.
        unsafe { &mut *self.0.state.get() }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: locked by whoever made the guard.
        unsafe { self.0.lock.unlock() };
    }
}

/// How a queue is asked for, by either call.
pub(crate) struct Wanted {
    /// Least number of completions it holds.
    pub(crate) entries: u32,
    /// The application's own.
    pub(crate) user: *mut core::ffi::c_void,
    /// Channel, or null.
    pub(crate) channel: *mut ibv_comp_channel,
    /// Completion vector.
    pub(crate) vector: u32,
    /// What does not fit may be dropped.
    pub(crate) ignore_overrun: bool,
    /// Completions carry the time.
    pub(crate) stamped: bool,
}

impl CompletionQueue {
    /// `ibv_create_cq` and `ibv_create_cq_ex`; the latter fills in the functions afterwards.
    ///
    /// # Errors
    /// `EINVAL` for a size or vector that the card does not have, `ENOMEM` for one too many.
    pub(crate) fn create(
        context: *mut ibv_context,
        wanted: &Wanted,
        functions: impl FnOnce(&mut ibv_cq_ex),
    ) -> Result<&'static Self, Errno> {
        let context = Context::find(context)?;
        let s = settings::get();
        if wanted.entries == 0 || wanted.entries > s.max_cqe {
            let rule = format_args!("create_cq: {} entries of 1..={}", wanted.entries, s.max_cqe);
            return Err(strict::violated(Errno::INVAL, rule));
        }
        if wanted.vector >= crate::api::COMPLETION_VECTORS {
            let rule = format_args!("create_cq: completion vector {}", wanted.vector);
            return Err(strict::violated(Errno::INVAL, rule));
        }
        let channel = if wanted.channel.is_null() {
            None
        } else {
            Some(handle::find::<Channel>(wanted.channel)?)
        };
        if channel.is_some_and(|c| !core::ptr::eq(c.context, context)) {
            let rule = format_args!("create_cq: the channel is of another context");
            return Err(strict::violated(Errno::INVAL, rule));
        }
        take(&context.counts.cqs, s.max_cq)?;
        // A power of two, one of which a card cannot use.
        let capacity = (wanted.entries + 1).next_power_of_two() - 1;
        // SAFETY: integers, pointers and optional functions, for which zero is a value.
        let mut abi: ibv_cq_ex = unsafe { core::mem::zeroed() };
        abi.context = context.pointer();
        abi.channel = wanted.channel;
        abi.cq_context = wanted.user;
        abi.handle = context.number();
        abi.cqe = capacity.cast_signed();
        functions(&mut abi);
        let cq = handle::publish(Self {
            abi: UnsafeCell::new(abi),
            header: Header::new(),
            context,
            owner: context.owner,
            channel,
            lock: RawMutex::INIT,
            state: UnsafeCell::new(State {
                ring: VecDeque::with_capacity(capacity as usize),
                capacity: capacity as usize,
                armed: Armed::No,
                broken: false,
                receivers: Vec::new(),
                current: None,
            }),
            polling: AtomicBool::new(false),
            ignore_overrun: wanted.ignore_overrun,
            stamped: wanted.stamped,
            users: AtomicU32::new(0),
            unacknowledged: AtomicU32::new(0),
            unacknowledged_async: AtomicU32::new(0),
        });
        if let Some(channel) = channel {
            channel.users().fetch_add(1, Ordering::Relaxed);
        }
        context.add_cq(cq);
        Ok(cq)
    }

    /// `ibv_destroy_cq`.
    ///
    /// # Errors
    /// `EBUSY` while a queue pair uses it, or events of it are not acknowledged.
    pub(crate) fn destroy(cq: *mut ibv_cq) -> Result<(), Errno> {
        let cq: &'static Self = handle::find(cq)?;
        cq.context.owned()?;
        if cq.users.load(Ordering::Relaxed) != 0 {
            let rule = format_args!("destroy_cq: a queue pair uses it");
            return Err(strict::violated(Errno::BUSY, rule));
        }
        acknowledged(
            "destroy_cq",
            &[&cq.unacknowledged, &cq.unacknowledged_async],
        )?;
        if !handle::retire(cq) {
            return Ok(());
        }
        cq.context.remove_cq(cq);
        let is_it = |subject: &Subject| matches!(subject, Subject::Cq(c) if core::ptr::eq(*c, cq));
        cq.context.events.forget(|event| is_it(&event.subject));
        if let Some(channel) = cq.channel {
            channel.events.forget(|c| core::ptr::eq(*c, cq));
            channel.users().fetch_sub(1, Ordering::Relaxed);
        }
        cq.lock().ring = VecDeque::new();
        give(&cq.context.counts.cqs);
        Ok(())
    }

    /// Locks it.
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.lock.lock();
        Guard(self)
    }

    /// The time, if completions here carry it.
    pub(crate) fn now(&self) -> u64 {
        if self.stamped { clock::realtime() } else { 0 }
    }

    /// The application's own pointer.
    pub(crate) fn user(&self) -> *mut core::ffi::c_void {
        // SAFETY: written before the queue was published.
        unsafe { (*self.abi.get()).cq_context }
    }

    /// A queue for the data path.
    ///
    /// # Safety
    /// As [`handle::data`].
    pub(crate) unsafe fn data(cq: *mut ibv_cq) -> Result<&'static Self, Errno> {
        // SAFETY: by this function's contract.
        let cq: &'static Self = unsafe { handle::data(cq) }?;
        if cq.owner.is_current() {
            return Ok(cq);
        }
        let rule = format_args!("a child of fork polls its parent's completion queue");
        Err(strict::violated(Errno::IO, rule))
    }

    /// Adds one completion.
    pub(crate) fn complete(&'static self, completion: Completion) {
        self.lock().push(self, completion);
    }

    /// `ibv_poll_cq`: hands completions to `each` until it has `count`.
    pub(crate) fn poll(
        &'static self,
        count: usize,
        mut each: impl FnMut(usize, &Completion),
    ) -> usize {
        let mut state = self.lock();
        state.fill(self);
        for taken in 0..count {
            let Some(completion) = state.pop() else {
                return taken;
            };
            each(taken, &completion);
        }
        count
    }

    /// `start_poll` of an extended queue. The lock is held until [`CompletionQueue::end_poll`],
    /// unless there is nothing.
    ///
    /// # Errors
    /// `ENOENT` if there is no completion.
    pub(crate) fn start_poll(&'static self) -> Result<(), Errno> {
        let mut state = self.lock();
        state.fill(self);
        self.step(&mut state)?;
        self.polling.store(true, Ordering::Relaxed);
        // Held until the end of the poll.
        let _ = ManuallyDrop::new(state);
        Ok(())
    }

    /// `next_poll`.
    ///
    /// # Errors
    /// `ENOENT` if there is no further completion, `EINVAL` outside a poll.
    pub(crate) fn next_poll(&'static self) -> Result<(), Errno> {
        self.within("next_poll")?;
        // Not dropped: the lock stays held until the end of the poll.
        let mut state = ManuallyDrop::new(Guard(self));
        self.step(&mut state)
    }

    /// `end_poll`.
    pub(crate) fn end_poll(&'static self) {
        if self.within("end_poll").is_ok() {
            self.polling.store(false, Ordering::Relaxed);
            drop(Guard(self));
        }
    }

    /// What the extended poll is looking at.
    pub(crate) fn current(&'static self) -> Option<Completion> {
        self.within("reading a completion").ok()?;
        ManuallyDrop::new(Guard(self)).current
    }

    fn within(&self, what: &str) -> Result<(), Errno> {
        if self.polling.load(Ordering::Relaxed) {
            return Ok(());
        }
        let rule = format_args!("{what} of a cq without a start_poll that found something");
        Err(strict::violated(Errno::INVAL, rule))
    }

    fn step(&self, state: &mut State) -> Result<(), Errno> {
        let completion = state.pop().ok_or(Errno::NOENT)?;
        state.current = Some(completion);
        let abi = self.abi.get();
        // SAFETY: `abi` lives as long as `self`; only who polls reads or writes this field.
        unsafe { (*abi).status = completion.status };
        // SAFETY: as above.
        unsafe { (*abi).wr_id = completion.wr_id };
        Ok(())
    }

    /// `ibv_req_notify_cq`. What is there already raises no event: the caller looks again.
    ///
    /// # Errors
    /// `EINVAL` without a channel.
    pub(crate) fn request_notification(&'static self, solicited: bool) -> Result<(), Errno> {
        if self.channel.is_none() {
            let rule = format_args!("req_notify_cq: the completion queue has no channel");
            return Err(strict::violated(Errno::INVAL, rule));
        }
        let mut state = self.lock();
        if state.armed != Armed::Any {
            state.armed = if solicited {
                Armed::Solicited
            } else {
                Armed::Any
            };
        }
        if state.armed == Armed::Any {
            state.receivers.iter().for_each(|r| r.queue.arm());
        }
        Ok(())
    }

    /// A frame arrived in one of the wire queues while the queue was armed.
    pub(crate) fn interrupt(&'static self) {
        let mut state = self.lock();
        if self.lives() && state.armed == Armed::Any && !state.broken {
            state.notify(self);
        }
    }

    /// Enters a queue pair that receives here.
    ///
    /// # Errors
    /// Those of watching its wire queue.
    pub(crate) fn add_receiver(
        &'static self,
        qp: &'static QueuePair,
        queue: Arc<dyn WireQueue>,
    ) -> Result<(), Errno> {
        let watch = match self.channel {
            Some(_) => Some(interrupts::watch(Arc::clone(&queue), self)?),
            None => None,
        };
        queue.stamp(self.stamped);
        let mut state = self.lock();
        if state.armed == Armed::Any {
            queue.arm();
        }
        state.receivers.push(Receiver { qp, queue, watch });
        Ok(())
    }

    /// Takes a queue pair out, with the completions it has here.
    pub(crate) fn remove(&'static self, qp: &'static QueuePair) {
        let mut state = self.lock();
        state.clean(qp);
        let is_it = |r: &Receiver| core::ptr::eq(r.qp, qp);
        let found = state.receivers.iter().position(is_it);
        let receiver = found.map(|at| state.receivers.swap_remove(at));
        drop(state);
        if let Some(watch) = receiver.and_then(|r| r.watch) {
            interrupts::unwatch(watch);
        }
    }

    /// The queue goes into error: an event, and no completion any more.
    pub(crate) fn break_down(&'static self) {
        self.lock().break_down(self);
    }
}

/// Waits until the events of an object that is to be destroyed are acknowledged, as the real
/// library does without end; here for a few seconds.
///
/// # Errors
/// `EBUSY`.
pub(crate) fn acknowledged(call: &str, counts: &[&AtomicU32]) -> Result<(), Errno> {
    let pause = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    for _ in 0..3000 {
        if counts.iter().all(|c| c.load(Ordering::Relaxed) == 0) {
            return Ok(());
        }
        let _ = rustix::thread::nanosleep(&pause);
    }
    let rule = format_args!("{call}: events of it are not acknowledged; a card waits for ever");
    Err(strict::violated(Errno::BUSY, rule))
}

impl State {
    /// Lets the queue pairs take the frames that wait for them, and flushes those in error.
    pub(crate) fn fill(&mut self, cq: &'static CompletionQueue) {
        if cq.context.gone.load(Ordering::Relaxed) {
            return;
        }
        // Out of the state for the time, which the completions go into.
        let receivers = std::mem::take(&mut self.receivers);
        for receiver in &receivers {
            let mut push = |completion| self.push(cq, completion);
            if receiver.queue.pending() {
                receiver.qp.receive(&*receiver.queue, &mut push);
            }
            if receiver.qp.state() == IBV_QPS_ERR {
                receiver.qp.flush_receives(&mut push);
            }
        }
        self.receivers = receivers;
    }

    /// Adds a completion and raises the event that was asked for.
    pub(crate) fn push(&mut self, cq: &'static CompletionQueue, completion: Completion) {
        if self.broken {
            return;
        }
        if self.ring.len() == self.capacity {
            if cq.ignore_overrun {
                return;
            }
            let rule = format_args!("completion queue overrun: {} entries", self.capacity);
            strict::violated(Errno::OVERFLOW, rule);
            self.break_down(cq);
            completion.qp.overrun();
            return;
        }
        self.ring.push_back(completion);
        let wanted = match self.armed {
            Armed::No => false,
            Armed::Solicited => completion.status != IBV_WC_SUCCESS,
            Armed::Any => true,
        };
        if wanted {
            self.notify(cq);
        }
    }

    fn notify(&mut self, cq: &'static CompletionQueue) {
        self.armed = Armed::No;
        if let Some(channel) = cq.channel {
            channel.events.post(cq);
        }
    }

    fn break_down(&mut self, cq: &'static CompletionQueue) {
        if !self.broken {
            self.broken = true;
            cq.context.post(IBV_EVENT_CQ_ERR, Subject::Cq(cq));
        }
    }

    /// The oldest completion; its request's slot is free from now on.
    fn pop(&mut self) -> Option<Completion> {
        let completion = self.ring.pop_front()?;
        completion.qp.polled(&completion);
        Some(completion)
    }

    /// Removes a queue pair's completions.
    pub(crate) fn clean(&mut self, qp: &QueuePair) {
        self.ring.retain(|c| !core::ptr::eq(c.qp, qp));
    }

    /// The wire queue of a queue pair that receives here.
    pub(crate) fn queue_of(&self, qp: &QueuePair) -> Option<Arc<dyn WireQueue>> {
        let receiver = self.receivers.iter().find(|r| core::ptr::eq(r.qp, qp))?;
        Some(Arc::clone(&receiver.queue))
    }
}

/// A completion as `ibv_poll_cq` writes it. Fields that mean nothing after an error are filled
/// with nonsense, so that whoever reads them is found out.
pub(crate) fn work_completion(completion: &Completion) -> ibv_wc {
    let good = completion.status == IBV_WC_SUCCESS;
    ibv_wc {
        wr_id: completion.wr_id,
        status: completion.status,
        opcode: if good { completion.opcode } else { 0x7f },
        vendor_err: if good { 0 } else { 0x5356 },
        byte_len: if good { completion.length } else { u32::MAX },
        imm_data: 0,
        qp_num: completion.qp.number,
        src_qp: 0,
        wc_flags: if good { completion.flags } else { 0 },
        pkey_index: 0,
        slid: 0,
        sl: 0,
        dlid_path_bits: 0,
    }
}
