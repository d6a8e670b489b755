//! Sends. A request is done when it is posted: the frame is on the wire before the call returns.
//! What an application can tell from outside is as on a card: a slot is in use until a signalled
//! completion of it, or of a later one, has been polled.

use super::QueuePair;
use crate::abi::*;
use crate::cq::Completion;
use crate::memory::Fault;
use crate::strict;
use crate::wire::{SendError, Wire};
use crate::{checksum, settings, trace};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Shortest frame a ConnectX card takes: the part it wants inlined into the descriptor.
const SHORTEST: usize = 18;

/// Ethernet header and one 802.1Q tag.
const HEADERS: usize = 18;

/// What the send lock protects.
pub(super) struct Sends {
    /// Requests ever posted since the reset.
    posted: u64,
    /// Where a frame of several parts, or one whose checksums are filled in, is put together.
    frame: Vec<u8>,
    /// None once the queue pair is destroyed, which is never freed.
    wire: Option<Arc<dyn Wire>>,
}

impl Sends {
    pub(super) fn new(mtu: u32, wire: Arc<dyn Wire>) -> Self {
        Self {
            posted: 0,
            frame: Vec::with_capacity(mtu as usize + HEADERS),
            wire: Some(wire),
        }
    }

    pub(super) fn restart(&mut self) {
        self.posted = 0;
    }

    pub(super) fn release(&mut self) {
        self.frame = Vec::new();
        self.wire = None;
    }
}

/// One piece of a frame, in this process's memory.
pub(super) fn piece(address: usize, length: u32) -> &'static [u8] {
    if length == 0 {
        return &[];
    }
    let start = core::ptr::with_exposed_provenance(address);
    // SAFETY: within a registered region, which was mapped when it was registered, or inline
    // data, which the caller vouches for; it outlives the post by the interface's contract.
    unsafe { core::slice::from_raw_parts(start, length as usize) }
}

impl QueuePair {
    /// `ibv_post_send`.
    ///
    /// # Errors
    /// What is wrong with the request that `bad` then points to; those before it are posted.
    ///
    /// # Safety
    /// `qp` as [`crate::handle::data`]; the list of requests is valid.
    pub(crate) unsafe fn post_send(
        qp: *mut ibv_qp,
        mut wr: *mut ibv_send_wr,
        bad: &mut *mut ibv_send_wr,
    ) -> Result<(), Errno> {
        *bad = wr;
        // SAFETY: by this function's contract.
        let qp = unsafe { Self::data(qp) }?;
        let mut send = qp.send.lock();
        // SAFETY: by this function's contract the list is valid, ended by null.
        while let Some(request) = unsafe { wr.as_ref() } {
            *bad = wr;
            let failed = qp.send_one(&mut send, request)?;
            if failed {
                drop(send);
                qp.fail();
                send = qp.send.lock();
            }
            wr = request.next;
        }
        Ok(())
    }

    /// Sends one request; true if the queue pair has to go into error.
    fn send_one(&'static self, send: &mut Sends, wr: &ibv_send_wr) -> Result<bool, Errno> {
        let refused = |errno: Errno, rule: core::fmt::Arguments| {
            strict::violated(errno, format_args!("post_send: {rule}"))
        };
        let state = self.state();
        if !matches!(state, IBV_QPS_RTS | IBV_QPS_ERR) {
            let rule = format_args!("queue pair in state {state}");
            return Err(refused(Errno::INVAL, rule));
        }
        let outstanding = send.posted - self.sends_retired.load(Ordering::Acquire);
        if outstanding >= u64::from(self.cap.max_send_wr) {
            let rule = format_args!("{outstanding} requests outstanding, none polled");
            return Err(refused(Errno::NOMEM, rule));
        }
        let count = usize::try_from(wr.num_sge).unwrap_or(usize::MAX);
        if count > self.cap.max_send_sge as usize {
            let rule = format_args!("{} entries of {}", wr.num_sge, self.cap.max_send_sge);
            return Err(refused(Errno::NOMEM, rule));
        }
        if wr.opcode != IBV_WR_SEND {
            let rule = format_args!("opcode {} on a raw-packet queue pair", wr.opcode);
            return Err(refused(Errno::INVAL, rule));
        }
        let known = IBV_SEND_FENCE
            | IBV_SEND_SIGNALED
            | IBV_SEND_SOLICITED
            | IBV_SEND_INLINE
            | IBV_SEND_IP_CSUM;
        let checksums = wr.send_flags & IBV_SEND_IP_CSUM != 0;
        if wr.send_flags & !known != 0 || checksums && !settings::get().ip_checksum {
            let rule = format_args!("flags {:#x}", wr.send_flags);
            return Err(refused(Errno::INVAL, rule));
        }
        // SAFETY: by the contract of `post_send` the list has that many entries.
        let entries = unsafe { super::entries(wr.sg_list, count) };
        let length: usize = entries.iter().map(|e| e.length as usize).sum();
        let inline = wr.send_flags & IBV_SEND_INLINE != 0;
        if inline && length > self.cap.max_inline_data as usize {
            let granted = self.cap.max_inline_data;
            let rule = format_args!("{length} bytes inline, {granted} granted");
            return Err(refused(Errno::NOMEM, rule));
        }
        if length < SHORTEST {
            let rule = format_args!("{length} bytes are no Ethernet frame");
            return Err(refused(Errno::INVAL, rule));
        }
        let index = send.posted;
        send.posted += 1;
        if self.context.gone.load(Ordering::Relaxed) {
            // The doorbell of a device that is gone rings nowhere: no completion ever comes.
            return Ok(false);
        }
        let status = if state == IBV_QPS_ERR {
            IBV_WC_WR_FLUSH_ERR
        } else {
            if !inline {
                self.note_sent(index, entries);
            }
            self.transmit(send, entries, inline, checksums)
        };
        let signalled = self.signal_all || wr.send_flags & IBV_SEND_SIGNALED != 0;
        if signalled || status != IBV_WC_SUCCESS {
            self.send_cq.complete(Completion {
                wr_id: wr.wr_id,
                status,
                opcode: IBV_WC_SEND,
                length: length as u32,
                flags: 0,
                tag: 0,
                time: self.send_cq.now(),
                qp: self,
                index,
            });
        }
        if trace::data() {
            trace::line(format_args!(
                "post_send qp={} length={length} flags={:#x} status={status}",
                self.number, wr.send_flags
            ));
        }
        Ok(status != IBV_WC_SUCCESS && state != IBV_QPS_ERR)
    }

    /// Puts one frame on the wire; the status of its completion.
    fn transmit(
        &self,
        send: &mut Sends,
        entries: &[ibv_sge],
        inline: bool,
        checksums: bool,
    ) -> u32 {
        let locate = |entry: &ibv_sge| -> Result<&'static [u8], Fault> {
            if inline {
                return Ok(piece(entry.addr as usize, entry.length));
            }
            let memory = &self.context.memory;
            let domain = self.pd.number;
            let at = memory.locate(entry.lkey, domain, entry.addr, entry.length, false)?;
            Ok(piece(at, entry.length))
        };
        let frame = if let ([entry], false) = (entries, checksums) {
            locate(entry)
        } else {
            send.frame.clear();
            let room = send.frame.capacity();
            let mut total = 0;
            let mut found = Ok(());
            for entry in entries.iter().filter(|e| e.length != 0) {
                match locate(entry) {
                    Ok(bytes) => {
                        total += bytes.len();
                        if total <= room {
                            send.frame.extend_from_slice(bytes);
                        }
                    }
                    Err(fault) => found = Err(fault),
                }
            }
            if total > room {
                return self.too_long(total);
            }
            if checksums {
                checksum::fill(&mut send.frame);
            }
            found.map(|()| &send.frame[..])
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(fault) => {
                let rule = format_args!("post_send: {}", fault.text());
                strict::violated(Errno::FAULT, rule);
                return IBV_WC_LOC_PROT_ERR;
            }
        };
        let tagged = frame[12..14] == [0x81, 0];
        let longest = self.mtu as usize + if tagged { 18 } else { 14 };
        if frame.len() > longest {
            return self.too_long(frame.len());
        }
        let sent = match &send.wire {
            Some(wire) => wire.send(frame),
            None => Err(SendError::Broken(Errno::NODEV)),
        };
        match sent {
            Ok(()) | Err(SendError::Full | SendError::LinkDown) => IBV_WC_SUCCESS,
            Err(SendError::Broken(_)) => IBV_WC_FATAL_ERR,
            Err(SendError::Failed(status)) => status,
        }
    }

    fn too_long(&self, length: usize) -> u32 {
        let mtu = self.mtu;
        let rule = format_args!("post_send: a frame of {length} bytes on an MTU of {mtu}");
        strict::violated(Errno::MSGSIZE, rule);
        IBV_WC_LOC_LEN_ERR
    }
}
