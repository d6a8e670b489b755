//! A queue's ring: many producers in many processes, one consumer, no lock.
//!
//! The ring is of cells of one cache line. A frame takes as many as it needs, in a row; what
//! is left at the end of the ring and too short is taken by a filler. A producer claims the
//! cells from `tail` on by exchanging one word, the claim of the first of them, which says how
//! many there are and who claims them; then `tail` is moved, by whoever sees that it has to be.
//! So it is known who is writing a frame, and the consumer can step over one whose writer has
//! died. A frame is published by storing the mark of its position in its first cell.
//!
//! Claims are not in the cells: the consumer watches the first cell of the next frame, and a line
//! that it watches is taken from it once a frame, not twice. The consumer writes no cell: a
//! producer asks `head` whether cells are free, and only when what it remembers does not tell.
//!
//! Positions only grow, also from one owner of the window to the next: what is on its way from
//! an earlier time cannot be taken for the present (until 2^40 cells have been sent).

use super::layout::{CLAIMS, CellHeader, FRAME, RingHeader, WINDOW};
use crate::wire::syscall::Mapping;
use std::arch::x86_64::_rdtsc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest producer number.
pub(super) const PRODUCER_MAX: u32 = (1 << PRODUCER_BITS) - 1;
const PRODUCER_BITS: u32 = 12;
const COUNT_BITS: u32 = 11;
const POSITION_BITS: u32 = 40;
const FRAMES_BITS: u32 = 64 - POSITION_BITS;
/// Bytes of a cell.
const CELL: usize = 64;
/// Bytes of a frame that lie in its first cell.
const NEAR: usize = CELL - FRAME;
/// Length of what is no frame.
const FILLER: u32 = u32::MAX;
/// A tail that is nowhere: the queue is closed.
const CLOSED: u64 = u64::MAX;

/// Cells that a frame takes.
const fn cells(len: usize) -> u64 {
    (FRAME + len).div_ceil(CELL) as u64
}

/// Bytes of the claims of a ring.
const fn claims_len(capacity: u64) -> usize {
    (capacity as usize * 8).next_multiple_of(4096)
}

/// Cells of the largest ring: some thousand frames of the largest usual size.
const LARGEST: u64 = 1 << 17;

/// A ring of this many cells holds `depth` frames of `frame` bytes, or some thousand.
pub(super) fn capacity_for(depth: usize, frame: usize) -> u64 {
    // One frame must fit besides a filler in any case.
    let least = 4 * cells(frame).next_power_of_two();
    ((depth as u64 + 1) * cells(frame))
        .next_power_of_two()
        .clamp(least, LARGEST.max(least))
}

/// Bytes of a window that a ring needs.
pub(super) const fn needed(capacity: u64) -> usize {
    CLAIMS + claims_len(capacity) + capacity as usize * CELL
}

/// A place in the ring, and how many frames were put in before it: `tail` and `head`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// Cells since ever.
    pub(super) position: u64,
    /// Frames, modulo 2^24.
    pub(super) frames: u64,
}

impl Mark {
    const fn unpack(word: u64) -> Self {
        Self {
            position: word >> FRAMES_BITS,
            frames: word & ((1 << FRAMES_BITS) - 1),
        }
    }

    const fn pack(self) -> u64 {
        self.position << FRAMES_BITS | self.frames & ((1 << FRAMES_BITS) - 1)
    }

    /// Behind a frame, or a filler, of so many cells.
    const fn behind(self, count: u64, filler: bool) -> Self {
        Self {
            position: self.position + count,
            frames: self.frames + !filler as u64,
        }
    }
}

/// Who takes which cells.
#[derive(Clone, Copy)]
struct Claim {
    position: u64,
    filler: bool,
    count: u64,
    producer: u32,
}

impl Claim {
    const fn unpack(word: u64) -> Self {
        Self {
            position: word >> (PRODUCER_BITS + COUNT_BITS + 1),
            filler: word >> (PRODUCER_BITS + COUNT_BITS) & 1 == 1,
            count: word >> PRODUCER_BITS & ((1 << COUNT_BITS) - 1),
            producer: word as u32 & PRODUCER_MAX,
        }
    }

    const fn pack(self) -> u64 {
        ((self.position << 1 | self.filler as u64) << COUNT_BITS | self.count) << PRODUCER_BITS
            | self.producer as u64
    }
}

/// Copies; a call of memcpy costs more than copying a short rest.
///
/// # Safety
/// `to` has room for the bytes, and nobody else looks at it.
#[inline]
unsafe fn copy_short(from: &[u8], to: *mut u8) {
    const STEP: usize = 16;
    let len = from.len();
    if !(STEP..=8 * STEP).contains(&len) {
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, len) };
        return;
    }
    let mut at = 0;
    while let Some(chunk) = from[at..].first_chunk::<STEP>() {
        // SAFETY: `at + STEP` is within the bytes that there is room for.
        let place = unsafe { to.add(at) };
        // SAFETY: as above; an array of bytes has no alignment.
        unsafe { place.cast::<[u8; STEP]>().write(*chunk) };
        at += STEP;
        if at < len && at + STEP > len {
            at = len - STEP;
        }
    }
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// In the ring; true: the consumer wants to be woken.
    Done(bool),
    /// No room: lost.
    Full,
    /// The queue is another's, or nobody's.
    Gone,
}

/// What is at a place of the ring.
pub(super) enum Pulled<'a> {
    /// A frame, in place.
    Frame {
        /// Its bytes.
        frame: &'a [u8],
        /// Time stamp counter at sending; 0: the consumer did not ask for it.
        ticks: u64,
        /// Tag of the rule.
        tag: u32,
        /// The place behind it.
        next: Mark,
    },
    /// No frame; the next may be here.
    Filler(Mark),
    /// Nothing, or nothing finished.
    Empty,
}

/// A mapped window.
pub(super) struct Window {
    map: Mapping,
    /// What the producers of this process know of `head`.
    known_head: AtomicU64,
}

impl Window {
    /// Of a mapping of [`WINDOW`] bytes.
    pub(super) fn new(map: Mapping) -> Self {
        Self {
            map,
            known_head: AtomicU64::new(0),
        }
    }

    /// The ring's control words.
    #[inline]
    pub(super) fn header(&self) -> &RingHeader {
        // SAFETY: the mapping is page aligned, longer than the header and lives as long as self;
        // every field is an atomic, for which any bits do.
        unsafe { &*self.map.start().cast::<RingHeader>() }
    }

    /// Cells of the ring; what the header says, as far as the window can hold it.
    #[inline]
    fn capacity(&self) -> u64 {
        let capacity = self.header().capacity.load(Ordering::Relaxed);
        capacity.clamp(1, (WINDOW / (2 * CELL)) as u64)
    }

    /// The cell of a position, and the bytes from there to the end of the ring.
    #[inline]
    fn cell(&self, position: u64) -> (&CellHeader, usize) {
        let capacity = self.capacity();
        let index = (position & (capacity - 1)) as usize;
        let offset = CLAIMS + claims_len(capacity) + index * CELL;
        // SAFETY: claims take an eighth of what cells do, and cells, by `capacity`, at most half
        // of the window: the offset is within the mapping.
        let start = unsafe { self.map.start().add(offset) };
        // SAFETY: aligned to 64 and within; the fields are atomics.
        let cell = unsafe { &*start.cast::<CellHeader>() };
        (cell, (capacity as usize - index) * CELL)
    }

    /// First byte of the frame of a cell.
    #[inline]
    fn frame(cell: &CellHeader) -> *mut u8 {
        let start = std::ptr::from_ref(cell).cast_mut().cast::<u8>();
        // SAFETY: a cell is longer than its header.
        unsafe { start.add(FRAME) }
    }

    /// The claim of the cell of a position.
    #[inline]
    fn claim(&self, position: u64) -> &AtomicU64 {
        let index = (position & (self.capacity() - 1)) as usize;
        // SAFETY: as in `cell`.
        let place = unsafe { self.map.start().add(CLAIMS + index * 8) };
        // SAFETY: aligned to eight, alive as long as self, and atomic.
        unsafe { &*place.cast::<AtomicU64>() }
    }

    /// What the first cell of a finished frame says. The bytes of an earlier frame may lie where
    /// it is looked for, hence the salt.
    #[inline]
    fn mark(&self, position: u64) -> u64 {
        let salt = self.header().salt.load(Ordering::Relaxed);
        position.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt
    }

    /// Has the ring's pages there.
    pub(super) fn populate(&self) {
        let _ = self.map.populate(needed(self.capacity()), true);
    }

    /// Makes an empty ring of it. No producer may be in it; under the lock.
    pub(super) fn reset(&self, generation: u32, capacity: u64, depth: usize) {
        let header = self.header();
        header.tail.0.store(CLOSED, Ordering::SeqCst);
        let head = Mark::unpack(header.head.0.load(Ordering::Relaxed));
        let used = head.position + header.capacity.load(Ordering::Relaxed);
        let start = used.next_multiple_of(capacity) + capacity;
        // SAFETY: reads a counter.
        let salt = unsafe { _rdtsc() };
        header
            .salt
            .store(salt.wrapping_mul(0xd6e8_feb8_6659_fd93), Ordering::Relaxed);
        header.capacity.store(capacity, Ordering::Relaxed);
        header.depth.store(depth as u64, Ordering::Relaxed);
        header
            .generation
            .store(generation.into(), Ordering::Relaxed);
        header.stamps.store(0, Ordering::Relaxed);
        header.armed.0.store(0, Ordering::Relaxed);
        header.lost.0.store(0, Ordering::Relaxed);
        for position in start - capacity..start {
            let claim = Claim {
                position,
                filler: false,
                count: 1,
                producer: 0,
            };
            self.claim(position).store(claim.pack(), Ordering::Relaxed);
            let mark = self.mark(position);
            self.cell(position).0.mark.store(mark, Ordering::Relaxed);
        }
        let start = Mark {
            position: start,
            frames: 0,
        };
        header.head.0.store(start.pack(), Ordering::Relaxed);
        header.tail.0.store(start.pack(), Ordering::Release);
    }

    /// The consumer's place.
    pub(super) fn head(&self) -> Mark {
        Mark::unpack(self.header().head.0.load(Ordering::Acquire))
    }

    /// From now on nothing can be put in.
    pub(super) fn close(&self) {
        self.header().tail.0.store(CLOSED, Ordering::SeqCst);
    }

    /// Producers that have claimed cells and not finished.
    pub(super) fn claims(&self) -> Vec<u32> {
        if self.header().capacity.load(Ordering::Relaxed) == 0 {
            return Vec::new();
        }
        (0..self.capacity())
            .map(|index| Claim::unpack(self.claim(index).load(Ordering::SeqCst)))
            .filter(|claim| claim.producer != 0 && self.is_unfinished(claim))
            .map(|claim| claim.producer)
            .collect()
    }

    fn is_unfinished(&self, claim: &Claim) -> bool {
        let head = Mark::unpack(self.header().head.0.load(Ordering::SeqCst));
        claim.position >= head.position
            && self.cell(claim.position).0.mark.load(Ordering::SeqCst) != self.mark(claim.position)
    }

    /// Puts a frame in.
    #[inline]
    pub(super) fn push(&self, generation: u32, producer: u32, frame: &[u8], tag: u32) -> Pushed {
        let header = self.header();
        let capacity = self.capacity();
        let wanted = cells(frame.len());
        // Others may be faster, but not for ever.
        for _ in 0..100_000 {
            let word = header.tail.0.load(Ordering::Acquire);
            if word == CLOSED || header.generation.load(Ordering::Relaxed) != generation.into() {
                return Pushed::Gone;
            }
            let tail = Mark::unpack(word);
            let (cell, left) = self.cell(tail.position);
            let filler = wanted as usize * CELL > left;
            let count = if filler { (left / CELL) as u64 } else { wanted };
            if !self.has_room(tail, count, filler) {
                // A tail that others have left behind tells nothing.
                if header.tail.0.load(Ordering::Acquire) != word {
                    continue;
                }
                header.lost.0.fetch_add(1, Ordering::Relaxed);
                return Pushed::Full;
            }
            let claim = Claim {
                position: tail.position,
                // A filler can be longer than a claim tells: a part of it then.
                count: count.min((1 << COUNT_BITS) - 1),
                filler,
                producer,
            };
            let (claimed, holder) = self.try_claim(capacity, claim);
            if claimed {
                let mark = self.mark(tail.position);
                if filler {
                    cell.len.store(FILLER, Ordering::Relaxed);
                    cell.tag.store(claim.count as u32, Ordering::Relaxed);
                    cell.mark.store(mark, Ordering::Release);
                } else {
                    let ticks = if header.stamps.load(Ordering::Relaxed) == 0 {
                        0
                    } else {
                        // SAFETY: reads a counter.
                        unsafe { _rdtsc() }
                    };
                    Self::write(cell, frame, ticks, tag);
                    cell.mark.store(mark, Ordering::Release);
                }
            }
            // A failure means that others have moved it on. Either way a full barrier between the
            // frame's publication and the look at `armed`.
            let _ = header.tail.0.compare_exchange(
                word,
                tail.behind(holder.count, holder.filler).pack(),
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
            if claimed && !filler {
                let asleep = header.armed.0.load(Ordering::SeqCst) != 0
                    && header.armed.0.swap(0, Ordering::SeqCst) != 0;
                return Pushed::Done(asleep);
            }
        }
        header.lost.0.fetch_add(1, Ordering::Relaxed);
        Pushed::Full
    }

    /// Whether cells, and a frame, from a tail on are free.
    #[inline]
    fn has_room(&self, tail: Mark, count: u64, filler: bool) -> bool {
        let header = self.header();
        let depth = header.depth.load(Ordering::Relaxed) & ((1 << FRAMES_BITS) - 1);
        let fits = |word: u64| {
            let head = Mark::unpack(word);
            let frames = tail.frames.wrapping_sub(head.frames) & ((1 << FRAMES_BITS) - 1);
            (tail.position + count).wrapping_sub(head.position) <= self.capacity()
                && (filler || frames < depth)
        };
        fits(self.known_head.load(Ordering::Relaxed)) || {
            // Pairs with the consumer's release: it is done with the cells before.
            let head = header.head.0.load(Ordering::Acquire);
            self.known_head.store(head, Ordering::Relaxed);
            fits(head)
        }
    }

    /// Claims, or tells who was first.
    #[inline]
    fn try_claim(&self, capacity: u64, claim: Claim) -> (bool, Claim) {
        let place = self.claim(claim.position);
        let mut found = place.load(Ordering::Acquire);
        while Claim::unpack(found).position + capacity <= claim.position {
            match place.compare_exchange(found, claim.pack(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return (true, claim),
                Err(other) => found = other,
            }
        }
        (false, Claim::unpack(found))
    }

    /// Fills claimed cells: what the consumer does not watch goes first.
    #[inline]
    fn write(cell: &CellHeader, frame: &[u8], ticks: u64, tag: u32) {
        let room = Self::frame(cell);
        match frame.split_first_chunk::<NEAR>() {
            Some((first, rest)) => {
                // SAFETY: the claim is for all cells of the frame, and makes them ours to write
                // until it is published.
                let far = unsafe { room.add(NEAR) };
                // SAFETY: as above.
                unsafe { copy_short(rest, far) };
                // SAFETY: as above.
                unsafe { room.cast::<[u8; NEAR]>().write(*first) };
            }
            // SAFETY: as above.
            None => unsafe { std::ptr::copy_nonoverlapping(frame.as_ptr(), room, frame.len()) },
        }
        cell.ticks.store(ticks, Ordering::Relaxed);
        cell.len.store(frame.len() as u32, Ordering::Relaxed);
        cell.tag.store(tag, Ordering::Relaxed);
    }

    /// Looks at a place. Only the consumer.
    #[inline]
    pub(super) fn pull(&self, at: Mark) -> Pulled<'_> {
        let (cell, left) = self.cell(at.position);
        // Pairs with the producer's publication.
        if cell.mark.load(Ordering::Acquire) != self.mark(at.position) {
            return Pulled::Empty;
        }
        let len = cell.len.load(Ordering::Relaxed);
        let tag = cell.tag.load(Ordering::Relaxed);
        if len == FILLER {
            return Pulled::Filler(at.behind(tag.into(), true));
        }
        let len = (len as usize).min(left - FRAME);
        Pulled::Frame {
            // SAFETY: within the ring; no producer writes it before `head` has passed.
            frame: unsafe { std::slice::from_raw_parts(Self::frame(cell), len) },
            ticks: cell.ticks.load(Ordering::Relaxed),
            tag,
            next: at.behind(cells(len), false),
        }
    }

    /// Gives the cells before a place back. Only the consumer.
    #[inline]
    pub(super) fn release(&self, head: Mark) {
        self.header().head.0.store(head.pack(), Ordering::Release);
    }

    /// Whether someone has claimed the cells at a place, or cells behind.
    pub(super) fn is_claimed(&self, at: Mark) -> bool {
        let tail = self.header().tail.0.load(Ordering::Acquire);
        tail != CLOSED && Mark::unpack(tail).position > at.position
    }

    /// Who has claimed the cells at a place and not finished; and the place behind.
    pub(super) fn claimant(&self, at: Mark) -> Option<(u32, Mark)> {
        let claim = Claim::unpack(self.claim(at.position).load(Ordering::Acquire));
        (claim.position == at.position && self.is_unfinished(&claim))
            .then(|| (claim.producer, at.behind(claim.count, claim.filler)))
    }
}

#[cfg(test)]
mod tests;
