//! The value that the programs of one interface and their processes share.
//!
//! One writer at a time (the lock of the network namespace); the programs read. A change is
//! made in the next bank, and one store of its number makes it the table in force: each
//! frame sees one whole table. A bank is written again only after a grace period.

use crate::flow::Entry;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Queues of one interface.
pub(super) const QUEUES: usize = 256;
/// Rules of one interface.
pub(super) const RULES: usize = 1024;
/// Tables kept.
pub(super) const BANKS: usize = 16;

/// What programs tell about a queue, and are told.
#[repr(C, align(64))]
pub(super) struct Slot {
    /// 1: the next frame wakes the sleeper.
    pub(super) armed: AtomicU32,
    /// Unused.
    pub(super) reserved: AtomicU32,
    /// Frames that found the queue full.
    pub(super) lost: AtomicU64,
}

/// One table.
#[repr(C, align(64))]
pub(super) struct Bank {
    /// Entries in use.
    pub(super) count: AtomicU32,
    /// Keeps the entries off the counter's line.
    pub(super) reserved: [u32; 15],
    /// In the order of [`crate::flow::walk`].
    pub(super) entries: [Entry; RULES],
}

/// The whole value.
#[repr(C, align(64))]
pub(super) struct Shared {
    /// Bank in force, modulo [`BANKS`].
    pub(super) active: AtomicU32,
    /// Changes since the last grace period.
    pub(super) changes: AtomicU32,
    /// Last rule name given.
    pub(super) last_id: AtomicU64,
    /// Keeps the slots off the first line.
    pub(super) padding: [u64; 6],
    /// By slot number.
    pub(super) slots: [Slot; QUEUES],
    /// By bank number.
    pub(super) banks: [Bank; BANKS],
}

/// Start of a record: what the program writes before the frame.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordHeader {
    /// Bytes of the frame.
    pub(super) len: u32,
    /// Payload of each datagram of a super-frame; 0: one ordinary frame.
    pub(super) segment: u32,
    /// Tag of the rule.
    pub(super) tag: u32,
    /// Bit 16: the frame had a tag that is not in it; below: the tag.
    pub(super) vlan: u32,
    /// International atomic time, ns.
    pub(super) time: u64,
    /// Unused.
    pub(super) reserved: u64,
}

/// Offset of the frame in its record.
pub(super) const FRAME: usize = size_of::<RecordHeader>();
/// Frames take a record of the first class they fit.
pub(super) const CLASSES: [usize; 4] = [224, 2016, 16_352, 65_632];

const _: () = assert!(FRAME == 32);
const _: () = assert!(size_of::<Slot>() == 64);
const _: () = assert!(size_of::<Bank>() == 64 + RULES * 96);
