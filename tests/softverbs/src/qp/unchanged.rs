//! The rule that a send's memory belongs to the card until its completion, or that of a later
//! send, has been polled. Here a frame leaves while it is posted, so a caller that writes too
//! early would go unnoticed; in strict mode what was sent is compared with what the memory holds
//! when the completion is polled.
//!
//! The lock is a leaf: taken with a queue pair's send lock or a completion queue's lock held.

use super::QueuePair;
use crate::abi::ibv_sge;
use crate::strict;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher as _};

/// Sends whose memory is still the card's.
#[derive(Default)]
pub(super) struct Outstanding(Mutex<VecDeque<Sent>>);

struct Sent {
    index: u64,
    entries: Vec<ibv_sge>,
    hash: u64,
}

impl QueuePair {
    /// Remembers what a send was made of. Inline data was the caller's again at once.
    pub(super) fn note_sent(&self, index: u64, entries: &[ibv_sge]) {
        if !strict::aborts() {
            return;
        }
        // What could not be reached has been reported already.
        if let Some(hash) = self.hash(entries) {
            self.outstanding.0.lock().push_back(Sent {
                index,
                entries: entries.to_vec(),
                hash,
            });
        }
    }

    /// The sends up to this one are complete: their memory has to be what it was.
    pub(super) fn check_sent(&self, index: u64) {
        if !strict::aborts() {
            return;
        }
        let mut outstanding = self.outstanding.0.lock();
        while outstanding.front().is_some_and(|sent| sent.index <= index) {
            let Some(sent) = outstanding.pop_front() else {
                return;
            };
            let now = self.hash(&sent.entries);
            if now != Some(sent.hash) {
                let what = if now.is_none() {
                    "deregistered"
                } else {
                    "written to"
                };
                let rule = format_args!("memory of a send was {what} before its completion");
                strict::violated(Errno::FAULT, rule);
            }
        }
    }

    /// Forgets them: the queue pair was reset.
    pub(super) fn forget_sent(&self) {
        self.outstanding.0.lock().clear();
    }

    fn hash(&self, entries: &[ibv_sge]) -> Option<u64> {
        let mut hasher = DefaultHasher::new();
        for entry in entries {
            let memory = &self.context.memory;
            let domain = self.pd.number;
            let at = memory.locate(entry.lkey, domain, entry.addr, entry.length, false);
            hasher.write(super::send::piece(at.ok()?, entry.length));
        }
        Some(hasher.finish())
    }
}
