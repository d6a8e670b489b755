//! The send side of a queue pair: small frames inside the work request, others by way of a
//! registered buffer.
//!
//! Owns the buffers. Buffer and request of a frame are the card's until a completion says
//! that it, or a later one, has been sent; every Nth asks for one. Sending neither
//! allocates nor makes a system call.

use super::abi::{self, WorkCompletion};
use super::cq::CompletionQueue;
use super::qp::QueuePair;
use crate::error::Errno;
use ibverbs_sys as ibv;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Completions taken at a time.
const REAP: usize = 16;

type Post = unsafe extern "C" fn(
    *mut ibv::ibv_qp,
    *mut ibv::ibv_send_wr,
    *mut *mut ibv::ibv_send_wr,
) -> c_int;

/// Shape of a send ring.
#[derive(Clone, Copy, Debug)]
pub struct TxShape {
    /// Frames on the way at the most.
    pub slots: u32,
    /// Bytes of a buffer.
    pub slot_size: u32,
    /// Every so many frames one asks for its completion; at most half the slots.
    pub signal_every: u32,
    /// Frames up to this many bytes travel inside the request.
    pub inline: u32,
}

/// The one work request, which the library copies at each post.
struct Request {
    request: ibv::ibv_send_wr,
    element: ibv::ibv_sge,
}

impl Request {
    fn new(lkey: u32) -> Box<Self> {
        // SAFETY: all zeros is a value of this plain structure: no successor, no flags.
        let request: ibv::ibv_send_wr = unsafe { MaybeUninit::zeroed().assume_init() };
        let element = ibv::ibv_sge {
            addr: 0,
            length: 0,
            lkey,
        };
        let mut made = Box::new(Self { request, element });
        made.request.opcode = ibv::ibv_wr_opcode::IBV_WR_SEND;
        made.request.num_sge = 1;
        made
    }
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").finish_non_exhaustive()
    }
}

/// The send ring of a queue pair.
#[derive(Debug)]
pub struct TxRing {
    cq: CompletionQueue,
    pair: Arc<QueuePair>,
    post: Post,
    shape: TxShape,
    request: Box<Request>,
    /// Where the buffers begin in the queue pair's memory.
    base: usize,
    /// Frames posted since the beginning.
    posted: u64,
    /// Frames of these known to be sent.
    sent: u64,
    /// Buffer of the next frame.
    slot: u32,
    /// Frames that may be posted before a completion must be seen.
    room: u32,
    /// Frames until one asks for its completion, itself counted.
    until_signal: u32,
    completions: Box<[WorkCompletion]>,
    stamps: Box<[u64]>,
    /// `enum ibv_wc_status` of the first send that failed; 0: none.
    failed: u32,
}

// SAFETY: the pointer in the work request leads into its own box; the rest is plain data.
// One thread at a time uses it, by `&mut`.
unsafe impl Send for TxRing {}

impl TxRing {
    /// Bytes of memory that a shape needs.
    #[must_use]
    pub fn memory(shape: &TxShape) -> usize {
        shape.slots as usize * shape.slot_size as usize
    }

    /// Wraps the send side of a queue pair in RTS, with room for `shape.slots` requests.
    ///
    /// # Errors
    /// EINVAL for a shape that its memory cannot hold, and for a second ring.
    pub fn new(pair: Arc<QueuePair>, cq: CompletionQueue, shape: TxShape) -> Result<Self, Errno> {
        if shape.signal_every == 0
            || shape.slots < 2 * shape.signal_every
            || Self::memory(&shape) > pair.memory.send_len()
            || shape.inline > pair.granted().inline
            || pair.sending.swap(true, Ordering::Relaxed)
        {
            return Err(Errno::INVAL);
        }
        let post = pair.context().ops().post_send;
        Ok(Self {
            cq,
            post: post.ok_or(Errno(libc::ENOSYS))?,
            shape,
            request: Request::new(pair.memory.region.lkey()),
            base: pair.memory.receive_len(),
            pair,
            posted: 0,
            sent: 0,
            slot: 0,
            room: shape.slots,
            until_signal: shape.signal_every,
            completions: vec![WorkCompletion::default(); REAP].into_boxed_slice(),
            stamps: vec![0; REAP].into_boxed_slice(),
            failed: 0,
        })
    }

    /// The status of the first send that completed in error (`enum ibv_wc_status`).
    #[must_use]
    pub fn failed(&self) -> Option<u32> {
        (self.failed != 0).then_some(self.failed)
    }

    /// Sends a frame; `checksum`: the card fills the checksums of IPv4 and UDP in.
    ///
    /// # Errors
    /// EAGAIN: no room, even after the completions were looked at; EMSGSIZE: longer than a
    /// buffer; ENETDOWN: an earlier send failed, and with it the queue pair.
    #[inline]
    pub fn send(&mut self, frame: &[u8], checksum: bool) -> Result<(), Errno> {
        if self.room == 0 {
            self.make_room()?;
        }
        let length = frame.len() as u32;
        let mut flags = if checksum { abi::SEND_IP_CSUM } else { 0 };
        let mut at = frame.as_ptr().addr() as u64;
        if length <= self.shape.inline {
            flags |= abi::SEND_INLINE;
        } else if length <= self.shape.slot_size {
            at = self.copy(frame);
        } else {
            return Err(Errno::MSGSIZE);
        }
        if self.until_signal == 1 {
            flags |= abi::SEND_SIGNALED;
        }
        let Request { request, element } = &mut *self.request;
        element.addr = at;
        element.length = length;
        request.sg_list = element;
        request.wr_id = self.posted + 1;
        request.send_flags = flags;
        // Which request was refused: there is only one.
        let mut bad = MaybeUninit::uninit();
        // SAFETY: the queue pair is alive; request and element stay where they are. The frame
        // lives as long as the call (inline), or is in a buffer that nobody touches until it
        // is sent.
        let result = unsafe { (self.post)(self.pair.raw.as_ptr(), request, bad.as_mut_ptr()) };
        if result != 0 {
            return Err(self.refused(result, length > self.shape.inline));
        }
        self.posted += 1;
        self.room -= 1;
        self.until_signal -= 1;
        if self.until_signal == 0 {
            return self.after_signal();
        }
        Ok(())
    }

    /// Looks what has become of the frames before. Where one of them has failed, this one
    /// cannot have been sent.
    #[inline(never)]
    fn after_signal(&mut self) -> Result<(), Errno> {
        self.until_signal = self.shape.signal_every;
        self.reap();
        if self.failed != 0 {
            return Err(Errno(libc::ENETDOWN));
        }
        Ok(())
    }

    /// Puts a frame into the next buffer; its address. Frames inside their requests use none,
    /// so that what was in this one before is at least as many frames ago as there are slots.
    #[inline]
    fn copy(&mut self, frame: &[u8]) -> u64 {
        let offset = self.base + self.slot as usize * self.shape.slot_size as usize;
        self.slot += 1;
        if self.slot == self.shape.slots {
            self.slot = 0;
        }
        // SAFETY: slot < slots, so that the buffer lies inside the region.
        let at = unsafe { self.pair.memory.region.base().add(offset) };
        // SAFETY: the frame is no longer than a buffer; whatever was sent from this one is
        // sent (there is room), and nobody else has it.
        unsafe { ptr::copy_nonoverlapping(frame.as_ptr(), at.as_ptr(), frame.len()) };
        at.as_ptr().addr() as u64
    }

    #[cold]
    fn make_room(&mut self) -> Result<(), Errno> {
        self.reap();
        if self.failed != 0 {
            return Err(Errno(libc::ENETDOWN));
        }
        if self.room == 0 {
            return Err(Errno::AGAIN);
        }
        Ok(())
    }

    /// A request that the library did not take, and with it the buffer if it had one.
    #[cold]
    fn refused(&mut self, result: c_int, buffered: bool) -> Errno {
        if buffered {
            self.slot = self.slot.checked_sub(1).unwrap_or(self.shape.slots - 1);
        }
        self.reap();
        if self.failed != 0 {
            return Errno(libc::ENETDOWN);
        }
        match result {
            // The card counts its room in another way than we do.
            libc::ENOMEM | libc::ENOBUFS | libc::EAGAIN => Errno::AGAIN,
            n if n > 0 => Errno(n),
            _ => Errno(libc::EIO),
        }
    }

    /// Polls readable when a send has failed, after [`Self::watch_errors`].
    #[must_use]
    pub fn error_fd(&self) -> Option<RawFd> {
        self.cq.sleep_fd()
    }

    /// Asks to be told of a send that fails, and looks whether one has: without it that shows
    /// only when the next one asks for its completion.
    pub fn watch_errors(&mut self) {
        if self.failed == 0 {
            let _ = self.cq.arm_for_errors();
            self.reap();
        }
    }

    /// Takes the completions that wait.
    pub fn reap(&mut self) {
        loop {
            let taken = self.cq.poll(&mut self.completions, &mut self.stamps);
            let taken = taken.unwrap_or(0).min(REAP);
            for wc in &self.completions[..taken] {
                if wc.status != 0 && self.failed == 0 {
                    self.failed = wc.status;
                }
                if wc.wr_id > self.sent && wc.wr_id <= self.posted {
                    // Never more than the slots: they were posted one by one.
                    self.room += (wc.wr_id - self.sent) as u32;
                    self.sent = wc.wr_id;
                }
            }
            if taken < REAP {
                return;
            }
        }
    }
}
