//! What the processes of a switch share: one file under `/dev/shm`.
//!
//! First [`Shared`], then a window of fixed size for each queue ([`RingHeader`], claims, cells). The
//! file is sparse; each process maps the first part, and a window when it first needs it.
//!
//! Writers of everything but rings hold the lock (a file beside, flock(2): the kernel lets go of
//! it when the holder dies). Each change leaves a consistent state at every step.

use crate::flow::Entry;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

/// Says what the file is; counts layouts.
pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"softvrb1");
/// Interfaces.
pub(super) const PORTS: usize = 32;
/// Processes, once for each of their interfaces.
pub(super) const MEMBERS: usize = 128;
/// Queues of all.
pub(super) const QUEUES: usize = 256;
/// Rules of one interface.
pub(super) const RULES: usize = 1024;
/// Tables kept of one interface.
pub(super) const BANKS: usize = 8;
/// Chains of the index of a table; a power of two.
pub(super) const BUCKETS: usize = 1024;
/// End of a chain.
pub(super) const NONE: u16 = u16::MAX;
/// Bytes of the file for one queue.
pub(super) const WINDOW: usize = 64 << 20;
/// Claims of a ring's cells start here in its window; the cells follow.
pub(super) const CLAIMS: usize = 4096;
/// Where the windows start.
pub(super) const WINDOWS: usize = size_of::<Shared>().next_multiple_of(4096);
/// The file's length.
pub(super) const FILE: usize = WINDOWS + QUEUES * WINDOW;

/// One process on one interface.
#[repr(C)]
pub(super) struct Member {
    /// Its number, 0: none. Stored last.
    pub(super) id: AtomicU32,
    /// Process.
    pub(super) pid: AtomicU32,
    /// When the process started (a number of a dead process is given again).
    pub(super) started: AtomicU64,
    /// Its port.
    pub(super) port: AtomicU32,
    /// Unused.
    pub(super) reserved: AtomicU32,
}

/// Who owns a queue.
#[repr(C)]
pub(super) struct QueueState {
    /// Member, 0: free.
    pub(super) owner: AtomicU32,
    /// Counts the owners that this number had.
    pub(super) generation: AtomicU32,
}

/// One state of a port's flow table, with an index.
#[repr(C, align(64))]
pub(super) struct Bank {
    /// Entries in use.
    pub(super) count: AtomicU32,
    /// First of the entries that are not for one address and port.
    pub(super) wild: AtomicU16,
    /// Unused.
    pub(super) reserved: AtomicU16,
    /// Unused.
    pub(super) padding: [u64; 7],
    /// First entry of each chain.
    pub(super) buckets: [AtomicU16; BUCKETS],
    /// Next entry of the same chain.
    pub(super) next: [AtomicU16; RULES],
    /// In order; each word by itself.
    pub(super) entries: [[AtomicU64; ENTRY_WORDS]; RULES],
}

/// Words of an entry.
pub(super) const ENTRY_WORDS: usize = size_of::<Entry>() / 8;

/// One interface.
#[repr(C, align(64))]
pub(super) struct PortTable {
    /// Counts the states of the table; modulo [`BANKS`] the bank in force.
    pub(super) version: AtomicU64,
    /// Unused.
    pub(super) padding: [u64; 7],
    /// The table's states.
    pub(super) banks: [Bank; BANKS],
}

/// Everything but the rings.
#[repr(C, align(64))]
pub(super) struct Shared {
    /// [`MAGIC`], stored last.
    pub(super) magic: AtomicU64,
    /// Last rule name given.
    pub(super) last_rule: AtomicU64,
    /// Last member number given.
    pub(super) last_member: AtomicU32,
    /// Unused.
    pub(super) reserved: AtomicU32,
    /// Unused.
    pub(super) padding: [u64; 5],
    /// Address of each port's interface, 0: free.
    pub(super) addresses: [AtomicU64; PORTS],
    /// Who is there.
    pub(super) members: [Member; MEMBERS],
    /// By queue number.
    pub(super) queues: [QueueState; QUEUES],
    /// By port number.
    pub(super) tables: [PortTable; PORTS],
}

/// Start of a queue's window. What producers write, what the consumer writes and what nobody
/// writes are on different cache lines, twice so, for lines are fetched in pairs.
#[repr(C, align(128))]
pub(super) struct RingHeader {
    /// Cells; a power of two.
    pub(super) capacity: AtomicU64,
    /// Frames that may wait.
    pub(super) depth: AtomicU64,
    /// The owner's generation.
    pub(super) generation: AtomicU64,
    /// Makes marks unlike any data.
    pub(super) salt: AtomicU64,
    /// 1: frames carry the time.
    pub(super) stamps: AtomicU32,
    /// Where producers look first for free cells.
    pub(super) tail: Line<AtomicU64>,
    /// Everything before has been consumed.
    pub(super) head: Line<AtomicU64>,
    /// 1: the next frame wakes the sleeper.
    pub(super) armed: Line<AtomicU32>,
    /// Frames that found no room.
    pub(super) lost: Line<AtomicU64>,
}

/// Alone on its cache lines.
#[repr(C, align(128))]
pub(super) struct Line<T>(pub(super) T);

/// Start of a frame's first cell.
#[repr(C, align(64))]
pub(super) struct CellHeader {
    /// Tells the position of the frame that is there. Stored last.
    pub(super) mark: AtomicU64,
    /// The processor's time stamp counter at sending, or 0.
    pub(super) ticks: AtomicU64,
    /// Bytes of the frame.
    pub(super) len: AtomicU32,
    /// Tag of the rule.
    pub(super) tag: AtomicU32,
}

/// Offset of the frame in its first cell.
pub(super) const FRAME: usize = 24;

const _: () = assert!(std::mem::offset_of!(CellHeader, tag) == FRAME - 4);
const _: () = assert!(size_of::<RingHeader>() <= CLAIMS);
