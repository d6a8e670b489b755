//! Which descriptor numbers are ours: fd → object, read without a lock.
//!
//! A two-level array of pointers. Chunks are mapped when their first number is used
//! and stay; a number beyond the array belongs to the kernel. An [`Entry`] is never
//! returned to an allocator but recycled through a free list, so a reader may always
//! touch its state word. A reader loads the slot, counts itself in, and looks at the
//! slot again: unchanged ⇒ the object cannot go away before it counts itself out.
//! Closing clears the slot and drops the table's share; the last user drops the object.
//!
//! The module must never block and never allocate on the lookup path: it runs in
//! signal handlers and vfork children for descriptors that are not ours.

use engine::error::Errno;
use engine::ready::Object;
use engine::sys::raw::syscall6;
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const CHUNK: usize = 512;
/// Numbers that the table can hold: the kernel's default for fs.nr_open.
const LIMIT: usize = 1 << 20;
/// Entries that one mapping of the pool holds.
const SLAB: usize = 1024;

/// There is an object inside.
const FULL: u64 = 1;
/// Table's share of an entry: some slot points at it.
const LINKED: u64 = 1 << 1;
/// One reader that is counted in. In the low bits are flags, so that the number which a
/// leaving reader looks for fits an instruction.
const READER: u64 = 1 << 2;

/// What hangs on a descriptor number.
#[derive(Clone, Debug)]
pub(crate) struct Held<T = Object> {
    /// The engine's object.
    pub(crate) object: T,
    /// An AF_INET6 socket.
    pub(crate) v6: bool,
}

#[repr(align(64))]
struct Entry<T> {
    /// LINKED, FULL and the number of readers that are counted in. Every change is
    /// a read-modify-write: a late reader may count itself in and out of a recycled entry.
    state: AtomicU64,
    /// Index of the next free entry + 1, while on the free list.
    next: AtomicU32,
    index: UnsafeCell<u32>,
    held: UnsafeCell<MaybeUninit<Held<T>>>,
}

struct Chunk<T>([AtomicPtr<Entry<T>>; CHUNK]);

struct Slab<T>([Entry<T>; SLAB]);

/// The table. All-zero memory is an empty one.
pub(crate) struct FdTable<T = Object> {
    chunks: [AtomicPtr<Chunk<T>>; LIMIT / CHUNK],
    slabs: [AtomicPtr<Slab<T>>; LIMIT / SLAB],
    /// Entries ever taken from the slabs.
    fresh: AtomicU32,
    /// Head of the free list: change counter in the upper half, index + 1 in the lower.
    free: AtomicU64,
    /// Linked entries.
    count: AtomicUsize,
}

// SAFETY: slots and entries are reached through atomics; an entry's cells are written
// only while its state word says that nobody else reads them.
unsafe impl<T: Send + Sync> Sync for FdTable<T> {}

/// The place of a number that was ours a moment ago.
pub(crate) struct Slot<'a, T = Object>(&'a AtomicPtr<Entry<T>>);

/// A counted use of an entry.
pub(crate) struct Ref<'a, T = Object> {
    table: &'a FdTable<T>,
    entry: &'a Entry<T>,
}

impl<T> Deref for Ref<'_, T> {
    type Target = Held<T>;
    fn deref(&self) -> &Held<T> {
        // SAFETY: the reader is counted in and saw the slot unchanged after that, so
        // FULL is set and nobody takes the object out; only shared references exist.
        let held = unsafe { &*self.entry.held.get() };
        // SAFETY: FULL says that it was written.
        unsafe { held.assume_init_ref() }
    }
}

impl<T> Drop for Ref<'_, T> {
    fn drop(&mut self) {
        self.table.count_out(self.entry);
    }
}

impl<T> fmt::Debug for Ref<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ref").finish_non_exhaustive()
    }
}

/// Zeroed memory for the life of the process; null when there is none.
fn map_zeroed<M>() -> *mut M {
    let args = [
        0,
        size_of::<M>(),
        (libc::PROT_READ | libc::PROT_WRITE) as usize,
        (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize,
        usize::MAX,
        0,
    ];
    // SAFETY: a fresh anonymous mapping touches no existing memory.
    match unsafe { syscall6(libc::SYS_mmap, args) } {
        Ok(address) => ptr::with_exposed_provenance_mut(address),
        Err(_) => ptr::null_mut(),
    }
}

/// The mapping behind `slot`, made if there is none yet.
fn get_or_map<M>(slot: &AtomicPtr<M>) -> Result<&M, Errno> {
    let mut there = slot.load(Ordering::Acquire);
    if there.is_null() {
        let made = map_zeroed::<M>();
        if made.is_null() {
            return Err(Errno(libc::ENOMEM));
        }
        match slot.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => there = made,
            Err(other) => {
                let args = [made.expose_provenance(), size_of::<M>(), 0, 0, 0, 0];
                // SAFETY: the mapping was made above and nobody else has seen it.
                let _ = unsafe { syscall6(libc::SYS_munmap, args) };
                there = other;
            }
        }
    }
    // SAFETY: a mapping of M's size, page aligned, all-zero (valid for the arrays of
    // atomics and cells that M is), never unmapped once it is in the slot.
    Ok(unsafe { &*there })
}

impl<T> FdTable<T> {
    /// An empty table.
    pub(crate) const fn new() -> Self {
        Self {
            chunks: [const { AtomicPtr::new(ptr::null_mut()) }; LIMIT / CHUNK],
            slabs: [const { AtomicPtr::new(ptr::null_mut()) }; LIMIT / SLAB],
            fresh: AtomicU32::new(0),
            free: AtomicU64::new(0),
            count: AtomicUsize::new(0),
        }
    }

    /// True while no number is ours.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    #[inline]
    fn slot(&self, fd: RawFd) -> Option<&AtomicPtr<Entry<T>>> {
        // A negative number becomes a large one.
        let fd = fd.cast_unsigned() as usize;
        let chunk = self.chunks.get(fd / CHUNK)?.load(Ordering::Acquire);
        // SAFETY: a chunk is null or a mapping that stays for the life of the process.
        let chunk = unsafe { chunk.as_ref() }?;
        Some(&chunk.0[fd % CHUNK])
    }

    /// True if the number is not ours: two loads, no write.
    #[inline]
    pub(crate) fn is_foreign(&self, fd: RawFd) -> bool {
        match self.slot(fd) {
            None => true,
            Some(slot) => slot.load(Ordering::Relaxed).is_null(),
        }
    }

    /// The object of a number.
    #[inline(always)]
    pub(crate) fn get(&self, fd: RawFd) -> Option<Ref<'_, T>> {
        self.get_at(Slot(self.slot(fd)?))
    }

    /// Where the object of a number is, if that is not foreign.
    #[inline(always)]
    pub(crate) fn find(&self, fd: RawFd) -> Option<Slot<'_, T>> {
        let slot = self.slot(fd)?;
        (!slot.load(Ordering::Relaxed).is_null()).then_some(Slot(slot))
    }

    /// The same without another look at the bounds.
    ///
    /// # Safety
    /// [`Self::is_foreign`] has said no of this number, at any time.
    #[inline(always)]
    pub(crate) unsafe fn find_known(&self, fd: RawFd) -> Slot<'_, T> {
        let fd = fd.cast_unsigned() as usize;
        // SAFETY: not beyond the array, by the caller's promise.
        let chunk = unsafe { self.chunks.get_unchecked(fd / CHUNK) }.load(Ordering::Acquire);
        // SAFETY: not null, by the caller's promise, and once mapped it stays.
        let chunk = unsafe { &*chunk };
        Slot(&chunk.0[fd % CHUNK])
    }

    /// The object in a slot.
    #[inline(always)]
    pub(crate) fn get_at(&self, Slot(slot): Slot<'_, T>) -> Option<Ref<'_, T>> {
        let seen = slot.load(Ordering::Acquire);
        // SAFETY: an entry's memory is never given back, whatever became of it.
        let entry = unsafe { seen.as_ref() }?;
        // Pairs with the fetch_and of `unlink`: whoever comes second sees the other.
        entry.state.fetch_add(READER, Ordering::AcqRel);
        if ptr::eq(slot.load(Ordering::Acquire), seen) {
            return Some(Ref { table: self, entry });
        }
        self.get_again(slot, entry)
    }

    /// The slot changed under a reader, who is counted in to the entry of before.
    #[cold]
    fn get_again<'a>(
        &'a self,
        slot: &AtomicPtr<Entry<T>>,
        before: &'a Entry<T>,
    ) -> Option<Ref<'a, T>> {
        self.count_out(before);
        loop {
            let seen = slot.load(Ordering::Acquire);
            // SAFETY: as in `get`.
            let entry = unsafe { seen.as_ref() }?;
            entry.state.fetch_add(READER, Ordering::AcqRel);
            if ptr::eq(slot.load(Ordering::Acquire), seen) {
                return Some(Ref { table: self, entry });
            }
            self.count_out(entry);
        }
    }

    /// Puts an object under a number. A stale one under it is taken out and returned.
    ///
    /// # Errors
    /// ENOMEM; EMFILE for a number beyond the table. The number then is not ours.
    pub(crate) fn insert(&self, fd: RawFd, held: Held<T>) -> Result<Option<Held<T>>, Errno>
    where
        T: Clone,
    {
        let number = fd.cast_unsigned() as usize;
        let chunk = self.chunks.get(number / CHUNK).ok_or(Errno(libc::EMFILE))?;
        let slot = &get_or_map(chunk)?.0[number % CHUNK];
        let stale = self.unlink(fd);
        let entry = self.take_free()?;
        self.fill(entry, held);
        let raced = slot.swap(ptr::from_ref(entry).cast_mut(), Ordering::AcqRel);
        // SAFETY: entries stay mapped.
        if let Some(raced) = unsafe { raced.as_ref() } {
            // Two threads said that the kernel gave them the same number: the later is right.
            self.drop_share(raced);
        }
        Ok(stale)
    }

    /// Puts an object under a number that is not ours yet; returns what is there afterwards:
    /// somebody else may have been first.
    ///
    /// # Errors
    /// As [`FdTable::insert`].
    pub(crate) fn insert_new(&self, fd: RawFd, held: Held<T>) -> Result<Held<T>, Errno>
    where
        T: Clone,
    {
        let number = fd.cast_unsigned() as usize;
        let chunk = self.chunks.get(number / CHUNK).ok_or(Errno(libc::EMFILE))?;
        let slot = &get_or_map(chunk)?.0[number % CHUNK];
        let entry = self.take_free()?;
        self.fill(entry, held.clone());
        loop {
            let made = ptr::from_ref(entry).cast_mut();
            let raced =
                slot.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Relaxed);
            if raced.is_ok() {
                return Ok(held);
            }
            if let Some(there) = self.get(fd) {
                self.drop_share(entry);
                return Ok(there.clone());
            }
        }
    }

    /// Makes a free entry a linked one, to be put into a slot.
    fn fill(&self, entry: &Entry<T>, held: Held<T>) {
        // SAFETY: a free entry (not FULL, off the free list) is this thread's alone;
        // late readers touch only its state word.
        let cell = unsafe { &mut *entry.held.get() };
        cell.write(held);
        entry.state.fetch_or(LINKED | FULL, Ordering::Release);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a number out; returns its object. Users that are counted in keep theirs.
    pub(crate) fn unlink(&self, fd: RawFd) -> Option<Held<T>>
    where
        T: Clone,
    {
        let slot = self.slot(fd)?;
        if slot.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let seen = slot.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: entries stay mapped.
        let entry = unsafe { seen.as_ref() }?;
        // SAFETY: the swap made this thread the owner of the table's share, so the
        // object stays inside until `drop_share`.
        let cell = unsafe { &*entry.held.get() };
        // SAFETY: linked entries are FULL.
        let held = unsafe { cell.assume_init_ref() }.clone();
        self.drop_share(entry);
        Some(held)
    }

    /// Calls `f` for every number of ours, in order.
    pub(crate) fn for_each(&self, mut f: impl FnMut(RawFd, &Held<T>)) {
        for (high, chunk) in self.chunks.iter().enumerate() {
            if chunk.load(Ordering::Acquire).is_null() {
                continue;
            }
            for low in 0..CHUNK {
                let fd = RawFd::try_from(high * CHUNK + low).expect("LIMIT fits in an i32");
                if let Some(held) = self.get(fd) {
                    f(fd, &held);
                }
            }
        }
    }

    fn drop_share(&self, entry: &Entry<T>) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        let before = entry.state.fetch_and(!LINKED, Ordering::AcqRel);
        if before & !LINKED == FULL {
            self.reclaim(entry);
        }
    }

    #[inline]
    fn count_out(&self, entry: &Entry<T>) {
        let before = entry.state.fetch_sub(READER, Ordering::AcqRel);
        if before == FULL + READER {
            self.reclaim(entry);
        }
    }

    /// Nobody uses the entry and no slot names it: the one whose exchange succeeds empties it.
    #[cold]
    fn reclaim(&self, entry: &Entry<T>) {
        let won = entry
            .state
            .compare_exchange(FULL, 0, Ordering::AcqRel, Ordering::Relaxed);
        if won.is_err() {
            return;
        }
        // SAFETY: FULL was set and is now cleared by this thread alone; readers that
        // come now find their slot changed and look no further.
        let cell = unsafe { &mut *entry.held.get() };
        // SAFETY: FULL said that it was written; it is not read again.
        let held = unsafe { cell.assume_init_read() };
        self.give_free(entry);
        drop(held);
    }

    fn entry(&self, index: u32) -> Option<&Entry<T>> {
        let index = index as usize;
        let slab = self.slabs.get(index / SLAB)?.load(Ordering::Acquire);
        // SAFETY: a slab is null or a mapping that stays.
        let slab = unsafe { slab.as_ref() }?;
        Some(&slab.0[index % SLAB])
    }

    fn take_free(&self) -> Result<&Entry<T>, Errno> {
        let mut head = self.free.load(Ordering::Acquire);
        while let Some(index) = (head as u32).checked_sub(1) {
            let entry = self
                .entry(index)
                .expect("the free list names entries of slabs");
            let next = u64::from(entry.next.load(Ordering::Relaxed));
            // The counter keeps an entry that went and came back from looking unchanged.
            let after = ((head >> 32).wrapping_add(1) << 32) | next;
            match self
                .free
                .compare_exchange(head, after, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return Ok(entry),
                Err(now) => head = now,
            }
        }
        let index = self.fresh.fetch_add(1, Ordering::Relaxed);
        let Some(slab) = self.slabs.get(index as usize / SLAB) else {
            self.fresh.fetch_sub(1, Ordering::Relaxed);
            return Err(Errno(libc::EMFILE));
        };
        let entry = &get_or_map(slab)?.0[index as usize % SLAB];
        // SAFETY: a fresh index belongs to this thread; nobody has seen the entry.
        unsafe { *entry.index.get() = index };
        Ok(entry)
    }

    fn give_free(&self, entry: &Entry<T>) {
        // SAFETY: written once, before the entry was first linked.
        let index = unsafe { *entry.index.get() };
        let mut head = self.free.load(Ordering::Relaxed);
        loop {
            entry.next.store(head as u32, Ordering::Relaxed);
            let after = ((head >> 32).wrapping_add(1) << 32) | u64::from(index + 1);
            match self
                .free
                .compare_exchange(head, after, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

#[cfg(test)]
mod tests;
