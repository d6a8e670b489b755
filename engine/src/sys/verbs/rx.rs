//! The receive side of a queue pair: buffers in a ring, posted to the card in batches.
//!
//! Owns the buffers' order. A buffer is the card's from the moment it is posted until its
//! completion has been taken, and ours from there until it is posted again. The work
//! requests are written once and lie in a circle; the card completes them in order.
//! Taking a frame neither allocates nor makes a system call.

use super::abi::{self, WorkCompletion};
use super::cq::CompletionQueue;
use super::qp::QueuePair;
use super::watch::EventWatch;
use crate::error::Errno;
use ibverbs_sys as ibv;
use std::ffi::c_int;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most completions taken at a time.
const MOST: usize = 128;

type Post = unsafe extern "C" fn(
    *mut ibv::ibv_qp,
    *mut ibv::ibv_recv_wr,
    *mut *mut ibv::ibv_recv_wr,
) -> c_int;

/// Shape of a receive ring.
#[derive(Clone, Copy, Debug)]
pub struct RxShape {
    /// Buffers.
    pub slots: u32,
    /// Bytes of each.
    pub slot_size: u32,
    /// Buffers posted at a time.
    pub batch: u32,
    /// Completions taken at a time.
    pub poll: u32,
}

/// A received frame.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// From the Ethernet header on.
    pub data: &'a [u8],
    /// The card found the checksums right.
    pub verified: bool,
    /// The card's wall clock in ns; 0: it does not say.
    pub stamp: u64,
}

/// Why nothing comes any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxTrouble {
    /// A receive completed in error; the number is `enum ibv_wc_status`.
    Completion(u32),
    /// Completions come in an order that a receive queue does not have.
    Disorder,
    /// The completion queue cannot be read.
    Queue,
    /// The card takes no buffers.
    Post,
}

/// Buffers and their work requests, which never move.
#[derive(Debug)]
pub struct RxRing {
    // Before the queue pair, which holds the memory that the requests name.
    cq: CompletionQueue,
    pair: Arc<QueuePair>,
    post: Post,
    shape: RxShape,
    requests: Vec<ibv::ibv_recv_wr>,
    _elements: Vec<ibv::ibv_sge>,
    completions: Box<[WorkCompletion; MOST]>,
    stamps: Box<[u64; MOST]>,
    /// The completion that is looked at, of `filled`.
    at: usize,
    filled: usize,
    /// Buffer of the next completion.
    next: u32,
    /// Buffers that are ours: those before `next`, and not yet posted again.
    spare: u32,
    trouble: Option<RxTrouble>,
    /// Raised when trouble comes.
    watch: Arc<EventWatch>,
}

// SAFETY: the pointers in the work requests lead into vectors and a region that it owns; the
// rest is plain data. One thread at a time uses it, by `&mut`.
unsafe impl Send for RxRing {}

impl RxRing {
    /// Bytes of memory that a shape needs.
    #[must_use]
    pub fn memory(shape: &RxShape) -> usize {
        shape.slots as usize * shape.slot_size as usize
    }

    /// Lays the buffers out in the queue pair's receive memory and posts them. The queue
    /// pair must be in INIT, with room for `shape.slots` requests.
    ///
    /// # Errors
    /// EINVAL for a shape that its memory cannot hold, and for a second ring; the device's.
    pub fn new(
        pair: Arc<QueuePair>,
        cq: CompletionQueue,
        shape: RxShape,
        watch: Arc<EventWatch>,
    ) -> Result<Self, Errno> {
        let region = &pair.memory.region;
        if shape.slots == 0
            || shape.batch == 0
            || shape.batch > shape.slots
            || Self::memory(&shape) > pair.memory.receive_len()
            || pair.receiving.swap(true, Ordering::Relaxed)
        {
            return Err(Errno::INVAL);
        }
        let base = region.base().as_ptr().addr() as u64;
        let lkey = region.lkey();
        let mut elements: Vec<ibv::ibv_sge> = (0..shape.slots)
            .map(|i| ibv::ibv_sge {
                addr: base + u64::from(i) * u64::from(shape.slot_size),
                length: shape.slot_size,
                lkey,
            })
            .collect();
        let mut requests: Vec<ibv::ibv_recv_wr> = elements
            .iter_mut()
            .zip(0..)
            .map(|(element, id)| ibv::ibv_recv_wr {
                wr_id: id,
                next: ptr::null_mut(),
                sg_list: ptr::from_mut(element),
                num_sge: 1,
            })
            .collect();
        let first = requests.as_mut_ptr();
        for (i, request) in requests.iter_mut().enumerate() {
            let after = (i + 1) % shape.slots as usize;
            request.next = first.wrapping_add(after);
        }
        let post = pair.context().ops().post_recv;
        let shape = RxShape {
            poll: shape.poll.clamp(1, MOST as u32),
            ..shape
        };
        let mut ring = Self {
            cq,
            pair,
            post: post.ok_or(Errno(libc::ENOSYS))?,
            shape,
            requests,
            _elements: elements,
            completions: Box::new([WorkCompletion::default(); MOST]),
            stamps: Box::new([0; MOST]),
            at: 0,
            filled: 0,
            next: 0,
            spare: shape.slots,
            trouble: None,
            watch,
        };
        while ring.spare >= ring.shape.batch && ring.trouble.is_none() {
            ring.refill();
        }
        match ring.trouble {
            Some(_) => Err(Errno(libc::EIO)),
            None => Ok(ring),
        }
    }

    /// The shape it has.
    #[must_use]
    pub fn shape(&self) -> RxShape {
        self.shape
    }

    /// The completion queue.
    pub fn completions(&mut self) -> &mut CompletionQueue {
        &mut self.cq
    }

    /// Polls readable when a frame has come after the completion queue was armed.
    #[must_use]
    pub fn sleep_fd(&self) -> Option<RawFd> {
        self.cq.sleep_fd()
    }

    /// See [`RxTrouble`]; what arrived before is still handed out.
    #[must_use]
    pub fn trouble(&self) -> Option<RxTrouble> {
        self.trouble
    }

    /// Whether the frames taken from the card are used up: the next look asks the card.
    #[inline]
    #[must_use]
    pub fn is_dry(&self) -> bool {
        self.at == self.filled
    }

    /// Asks the card for more; call it when dry. True: there is something.
    #[inline(always)]
    pub fn look(&mut self) -> bool {
        self.at = 0;
        let most = self.shape.poll as usize;
        let room = &mut self.completions[..most];
        self.filled = match self.cq.poll(room, &mut self.stamps[..]) {
            Ok(filled) => filled,
            Err(_) => {
                self.troubled(RxTrouble::Queue);
                0
            }
        };
        self.filled != 0
    }

    /// The frame at the head, the same one until [`Self::release`]; None: there is none, or
    /// there was trouble. `looked` is called when the card had something.
    #[inline(always)]
    pub fn head(&mut self, looked: impl FnOnce()) -> Option<Arrived<'_>> {
        if self.at == self.filled {
            if !self.look() {
                return None;
            }
            looked();
        }
        let wc = &self.completions[self.at % MOST];
        if wc.status != 0 || wc.wr_id != u64::from(self.next) {
            self.break_down();
            return None;
        }
        let offset = self.next as usize * self.shape.slot_size as usize;
        let length = wc.byte_len.min(self.shape.slot_size) as usize;
        // SAFETY: next < slots, so that the buffer lies inside the region.
        let start = unsafe { self.pair.memory.region.base().add(offset) };
        // SAFETY: the card is done with this buffer (its completion is here), and it gets
        // it back by `release`, which needs `&mut self`.
        let data = unsafe { std::slice::from_raw_parts(start.as_ptr(), length) };
        Some(Arrived {
            data,
            verified: wc.wc_flags & abi::WC_IP_CSUM_OK != 0,
            // Where the queue does not stamp, nobody writes there.
            stamp: self.stamps[self.at % MOST],
        })
    }

    #[cold]
    #[inline(never)]
    fn break_down(&mut self) {
        let wc = &self.completions[self.at % MOST];
        let trouble = if wc.status != 0 {
            RxTrouble::Completion(wc.status)
        } else {
            RxTrouble::Disorder
        };
        self.troubled(trouble);
        // What follows an error is flushed: nothing more to have.
        self.at = self.filled;
    }

    /// The first trouble counts.
    #[cold]
    #[inline(never)]
    fn troubled(&mut self, trouble: RxTrouble) {
        if self.trouble.is_none() {
            self.trouble = Some(trouble);
            self.watch.raise();
        }
    }

    /// The frame at the head is done with.
    #[inline]
    pub fn release(&mut self) {
        if self.at == self.filled {
            return;
        }
        self.at += 1;
        self.next += 1;
        if self.next == self.shape.slots {
            self.next = 0;
        }
        self.spare += 1;
        if self.spare >= self.shape.batch {
            self.refill();
        }
    }

    /// Posts a batch of the buffers that are ours, the oldest first.
    fn refill(&mut self) {
        if self.trouble.is_some() {
            return;
        }
        let slots = self.shape.slots;
        let first = (self.next + slots - self.spare % slots) % slots;
        let last = (first + self.shape.batch - 1) % slots;
        // The circle is cut behind the last one for the time of the call.
        let after = std::mem::replace(&mut self.requests[last as usize].next, ptr::null_mut());
        let head = &raw mut self.requests[first as usize];
        let mut bad = ptr::null_mut();
        // SAFETY: the queue pair is alive; the requests name buffers of its receive memory
        // that are ours, and stay where they are.
        let result = unsafe { (self.post)(self.pair.raw.as_ptr(), head, &raw mut bad) };
        self.requests[last as usize].next = after;
        if result == 0 {
            self.spare -= self.shape.batch;
        } else {
            self.troubled(RxTrouble::Post);
        }
    }
}
