//! Receives: requests wait in a ring until a frame uses them up.

use super::QueuePair;
use crate::abi::*;
use crate::cq::Completion;
use crate::memory::Fault;
use crate::wire::{Checksums, Meta, WireQueue};
use crate::{checksum, settings, strict, trace};
use rustix::io::Errno;
use std::sync::atomic::Ordering;

/// What the receive lock protects: a ring of requests, each with its scatter entries.
pub(super) struct Receives {
    ids: Box<[u64]>,
    counts: Box<[u8]>,
    entries: Box<[ibv_sge]>,
    /// Scatter entries a request may have.
    width: usize,
    /// Requests ever posted since the reset.
    posted: u64,
    /// Requests that a frame, or a flush, used up.
    used: u64,
}

impl Receives {
    pub(super) fn new(cap: &ibv_qp_cap) -> Self {
        let (depth, width) = (cap.max_recv_wr as usize, cap.max_recv_sge as usize);
        let none = ibv_sge {
            addr: 0,
            length: 0,
            lkey: 0,
        };
        Self {
            ids: vec![0; depth].into_boxed_slice(),
            counts: vec![0; depth].into_boxed_slice(),
            entries: vec![none; depth * width].into_boxed_slice(),
            width,
            posted: 0,
            used: 0,
        }
    }

    pub(super) fn restart(&mut self) {
        self.posted = 0;
        self.used = 0;
    }

    pub(super) fn release(&mut self) {
        self.restart();
        (self.ids, self.counts, self.entries) = (Box::default(), Box::default(), Box::default());
    }

    fn place(&self, index: u64) -> usize {
        (index % self.ids.len() as u64) as usize
    }

    fn scatter(&self, at: usize) -> &[ibv_sge] {
        let first = at * self.width;
        &self.entries[first..first + usize::from(self.counts[at])]
    }

    fn push(&mut self, wr_id: u64, entries: &[ibv_sge]) {
        let at = self.place(self.posted);
        self.ids[at] = wr_id;
        self.counts[at] = entries.len() as u8;
        self.entries[at * self.width..][..entries.len()].copy_from_slice(entries);
        self.posted += 1;
    }

    /// The oldest request's place and number in the queue.
    fn pop(&mut self) -> Option<(usize, u64)> {
        if self.used == self.posted {
            return None;
        }
        let index = self.used;
        self.used += 1;
        Some((self.place(index), index))
    }

    pub(super) fn uses(&self, key: u32) -> bool {
        (self.used..self.posted)
            .map(|index| self.place(index))
            .any(|at| self.scatter(at).iter().any(|e| e.lkey == key))
    }
}

impl QueuePair {
    /// `ibv_post_recv`.
    ///
    /// # Errors
    /// What is wrong with the request that `bad` then points to; those before it are posted.
    ///
    /// # Safety
    /// `qp` as [`crate::handle::data`]; the list of requests is valid.
    pub(crate) unsafe fn post_recv(
        qp: *mut ibv_qp,
        mut wr: *mut ibv_recv_wr,
        bad: &mut *mut ibv_recv_wr,
    ) -> Result<(), Errno> {
        *bad = wr;
        // SAFETY: by this function's contract.
        let qp = unsafe { Self::data(qp) }?;
        let mut receive = qp.receive.lock();
        // SAFETY: by this function's contract the list is valid, ended by null.
        while let Some(request) = unsafe { wr.as_ref() } {
            *bad = wr;
            qp.post_one(&mut receive, request)?;
            wr = request.next;
        }
        drop(receive);
        if qp.state() == IBV_QPS_ERR {
            qp.fail();
        }
        Ok(())
    }

    fn post_one(&self, receive: &mut Receives, wr: &ibv_recv_wr) -> Result<(), Errno> {
        let refused = |errno: Errno, rule: core::fmt::Arguments| {
            strict::violated(errno, format_args!("post_recv: {rule}"))
        };
        if self.state() == IBV_QPS_RESET {
            return Err(refused(Errno::INVAL, format_args!("queue pair in reset")));
        }
        let outstanding = receive.posted - self.receives_retired.load(Ordering::Acquire);
        if outstanding >= u64::from(self.cap.max_recv_wr) {
            let rule = format_args!("{outstanding} requests outstanding");
            return Err(refused(Errno::NOMEM, rule));
        }
        let count = usize::try_from(wr.num_sge).unwrap_or(usize::MAX);
        if count > self.cap.max_recv_sge as usize {
            let rule = format_args!("{} entries of {}", wr.num_sge, self.cap.max_recv_sge);
            return Err(refused(Errno::INVAL, rule));
        }
        // SAFETY: by the contract of `post_recv` the list has that many entries.
        let entries = unsafe { super::entries(wr.sg_list, count) };
        if strict::aborts() {
            // A card looks only when a frame arrives; here the culprit is still on the stack.
            for entry in entries {
                if let Err(fault) = self.destination(entry, entry.length) {
                    return Err(refused(Errno::FAULT, format_args!("{}", fault.text())));
                }
            }
        }
        receive.push(wr.wr_id, entries);
        if trace::data() {
            trace::line(format_args!(
                "post_recv qp={} wr_id={:#x}",
                self.number, wr.wr_id
            ));
        }
        Ok(())
    }

    fn destination(&self, entry: &ibv_sge, length: u32) -> Result<usize, Fault> {
        let domain = self.pd.number;
        let memory = &self.context.memory;
        memory.locate(entry.lkey, domain, entry.addr, length, true)
    }

    /// Takes the frames that wait in the wire's queue, at most as many as it may hold.
    pub(crate) fn receive(&'static self, queue: &dyn WireQueue, push: &mut dyn FnMut(Completion)) {
        let mut receive = self.receive.lock();
        for _ in 0..self.cap.max_recv_wr.max(1) {
            let more = queue.receive(&mut |frame, meta| {
                if matches!(self.state(), IBV_QPS_RTR | IBV_QPS_RTS) {
                    match receive.pop() {
                        Some(request) => push(self.deliver(&receive, request, frame, meta)),
                        None => {
                            self.out_of_buffer.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                true
            });
            if !more {
                break;
            }
        }
    }

    /// Writes one frame where the request says.
    fn deliver(
        &'static self,
        receive: &Receives,
        (at, index): (usize, u64),
        frame: &[u8],
        meta: &Meta,
    ) -> Completion {
        let mut status = meta.status;
        let mut rest = frame;
        for entry in receive.scatter(at) {
            let length = rest.len().min(entry.length as usize);
            if length == 0 {
                continue;
            }
            match self.destination(entry, length as u32) {
                Ok(address) => {
                    let to = core::ptr::with_exposed_provenance_mut::<u8>(address);
                    // SAFETY: within a registered region, mapped writable when it was
                    // registered, and given to the card until the completion is polled.
                    unsafe { core::ptr::copy_nonoverlapping(rest.as_ptr(), to, length) };
                }
                Err(fault) => {
                    strict::violated(Errno::FAULT, format_args!("receive: {}", fault.text()));
                    status = IBV_WC_LOC_PROT_ERR;
                    break;
                }
            }
            rest = &rest[length..];
        }
        if status == IBV_WC_SUCCESS && !rest.is_empty() {
            let rule = format_args!(
                "receive: a frame of {} bytes, {} too many for the request",
                frame.len(),
                rest.len()
            );
            strict::violated(Errno::MSGSIZE, rule);
            status = IBV_WC_LOC_LEN_ERR;
        }
        if status != IBV_WC_SUCCESS {
            self.set_state(IBV_QPS_ERR);
        }
        let unfinished = meta.checksums == Checksums::Good;
        let good = settings::get().ip_checksum && checksum::verified(frame, unfinished);
        self.completion(receive.ids[at], index, status, frame.len(), good, meta)
    }

    fn completion(
        &'static self,
        wr_id: u64,
        index: u64,
        status: u32,
        length: usize,
        good: bool,
        meta: &Meta,
    ) -> Completion {
        Completion {
            wr_id,
            status,
            opcode: IBV_WC_RECV,
            length: length as u32,
            flags: if good { IBV_WC_IP_CSUM_OK } else { 0 },
            tag: meta.tag,
            time: meta.timestamp_ns,
            qp: self,
            index,
        }
    }

    /// Completes all posted receives with a flush error.
    pub(crate) fn flush_receives(&'static self, push: &mut dyn FnMut(Completion)) {
        let mut receive = self.receive.lock();
        while let Some((at, index)) = receive.pop() {
            push(Completion {
                wr_id: receive.ids[at],
                status: IBV_WC_WR_FLUSH_ERR,
                opcode: IBV_WC_RECV,
                length: 0,
                flags: 0,
                tag: 0,
                time: self.recv_cq.now(),
                qp: self,
                index,
            });
        }
    }
}
