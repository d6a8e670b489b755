//! Consumer of one ring of records that the program fills.
//!
//! Source: Documentation/bpf/ringbuf.rst. The first page holds the consumer's position and is
//! ours to write; then come the producer's position and the records, mapped twice in a row so
//! that none is torn. A record's head is its length, with a bit while it is being written and
//! one when it was given up.

use super::layout::{CLASSES, FRAME, RecordHeader};
use crate::wire::syscall::Mapping;
use rustix::io::Errno;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const PAGE: usize = 4096;
const HEAD: usize = 8;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// Largest ring: some thousand frames of the largest usual size, and more than any kernel
/// socket keeps. Its pages count for the process, twice, as they are mapped twice.
const LARGEST: usize = 8 << 20;

/// Bytes of a ring for `depth` frames of at most `frame` bytes each; a power of two.
pub(super) fn size_for(depth: usize, frame: usize) -> usize {
    let class = CLASSES
        .into_iter()
        .find(|&c| c >= frame)
        .unwrap_or(CLASSES[3]);
    // One super-frame must fit in any case.
    (depth * (HEAD + FRAME + class))
        .clamp(2 * CLASSES[3], LARGEST)
        .next_power_of_two()
}

/// A received frame in place.
pub(super) struct Record<'a> {
    /// What the program wrote about it.
    pub(super) header: RecordHeader,
    /// Its bytes.
    pub(super) frame: &'a [u8],
    next: u64,
}

/// The reading end.
pub(super) struct Ring {
    consumer: Mapping,
    producer: Mapping,
    mask: usize,
}

impl Ring {
    /// Maps the ring of a descriptor.
    pub(super) fn map(fd: RawFd, size: usize) -> Result<Self, Errno> {
        let consumer = Mapping::new(fd, 0, PAGE, true)?;
        let producer = Mapping::new(fd, PAGE, PAGE + 2 * size, false)?;
        // These pages are the map's own; where the kernel has them it can show them at once.
        let _ = consumer.populate(PAGE, true);
        let _ = producer.populate(PAGE + 2 * size, false);
        Ok(Self {
            consumer,
            producer,
            mask: size - 1,
        })
    }

    fn consumed(&self) -> &AtomicU64 {
        // SAFETY: the page starts with the aligned consumer position and lives as long as self.
        unsafe { &*self.consumer.start().cast::<AtomicU64>() }
    }

    fn produced(&self) -> &AtomicU64 {
        // SAFETY: the page starts with the aligned producer position, which we only read.
        unsafe { &*self.producer.start().cast::<AtomicU64>() }
    }

    /// Whether anything is in the ring, finished or not.
    pub(super) fn pending(&self) -> bool {
        self.produced().load(Ordering::Acquire) != self.consumed().load(Ordering::Relaxed)
    }

    /// The oldest record. Only one caller at a time.
    pub(super) fn peek(&self) -> Option<Record<'_>> {
        loop {
            let at = self.consumed().load(Ordering::Relaxed);
            if at == self.produced().load(Ordering::Acquire) {
                return None;
            }
            let offset = PAGE + (at as usize & self.mask);
            // SAFETY: the offset is below PAGE + size, within the mapping of PAGE + 2 * size.
            let start = unsafe { self.producer.start().add(offset) };
            // SAFETY: records start at multiples of eight; the kernel writes the head atomically.
            let head = unsafe { &*start.cast::<AtomicU32>() }.load(Ordering::Acquire);
            if head & BUSY != 0 {
                return None;
            }
            let len = (head & !(BUSY | DISCARDED)) as usize;
            let next = at + (HEAD + len).next_multiple_of(8) as u64;
            if head & DISCARDED != 0 {
                self.consumed().store(next, Ordering::Release);
                continue;
            }
            // SAFETY: the program reserves no record shorter than FRAME, so this is within it.
            let body = unsafe { start.add(HEAD) };
            // SAFETY: as above, and aligned to eight; any bits are a valid header.
            let header = unsafe { body.cast::<RecordHeader>().read() };
            // SAFETY: as above.
            let frame = unsafe { body.add(FRAME) };
            // SAFETY: the program checked the frame's length against the record's, which, being
            // mapped twice, lies in one piece; it is not written before it is released.
            let frame = unsafe { std::slice::from_raw_parts(frame, header.len as usize) };
            return Some(Record {
                header,
                frame,
                next,
            });
        }
    }

    /// Gives the space of a record back.
    pub(super) fn release(&self, next: u64) {
        self.consumed().store(next, Ordering::Release);
    }
}

impl Record<'_> {
    /// Where the following record starts, for [`Ring::release`].
    pub(super) fn next(&self) -> u64 {
        self.next
    }
}
