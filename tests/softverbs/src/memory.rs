//! Registered memory: what a card may reach, by local key.
//!
//! Registering does what the kernel does to the pages: they are faulted in with the access asked
//! for, and counted against `RLIMIT_MEMLOCK` (ib_umem_get, drivers/infiniband/core/umem.c). The
//! table is read on the data path without a lock: an entry is published by its key and withdrawn
//! by it.

use crate::abi::{IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_REMOTE_WRITE};
use crate::{settings, strict};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::mm::{Advice, madvise};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

const PAGE: usize = 4096;

/// Why a work request's memory cannot be used; each is a completion with a protection error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No region has this local key (any more).
    Key,
    /// The region belongs to another protection domain than the queue pair.
    Domain,
    /// Bytes outside the region.
    Range,
    /// A receive into a region registered without `IBV_ACCESS_LOCAL_WRITE`.
    Access,
}

impl Fault {
    /// For messages.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Key => "no memory region has this local key",
            Self::Domain => "the memory region belongs to another protection domain",
            Self::Range => "bytes outside the memory region",
            Self::Access => "the memory region has no local write access",
        }
    }
}

/// A region as it is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// First byte.
    pub(crate) start: usize,
    /// Bytes.
    pub(crate) length: usize,
    /// The address by which work requests name the first byte.
    pub(crate) iova: u64,
    /// `enum ibv_access_flags`.
    pub(crate) access: u32,
    /// Number of the protection domain.
    pub(crate) domain: u32,
}

/// One entry. `key` is zero while it is free; it is stored last (release) and read first and
/// last (acquire) by the data path.
#[derive(Default)]
struct Slot {
    key: AtomicU32,
    domain: AtomicU32,
    iova: AtomicU64,
    start: AtomicUsize,
    length: AtomicUsize,
    writable: AtomicBool,
}

struct Free {
    indices: Vec<u32>,
    /// Low byte of the next key: a key is not used again soon.
    variant: u8,
}

/// The regions of one context.
pub(crate) struct Memory {
    slots: Box<[Slot]>,
    free: Mutex<Free>,
}

impl Memory {
    /// Room for `count` regions.
    pub(crate) fn new(count: u32) -> Self {
        Self {
            slots: (0..count).map(|_| Slot::default()).collect(),
            free: Mutex::new(Free {
                indices: (0..count).rev().collect(),
                variant: 0,
            }),
        }
    }

    /// Registers a region and returns its local key.
    ///
    /// # Errors
    /// `EINVAL` for flags or a length that no card takes, `EFAULT` for pages that are not mapped
    /// or not writable, `ENOMEM` beyond the limit of locked memory or of regions.
    pub(crate) fn register(&self, request: &Request) -> Result<u32, Errno> {
        let remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        if request.access & remote != 0 && request.access & IBV_ACCESS_LOCAL_WRITE == 0 {
            let rule = format_args!("reg_mr: remote write or atomic access needs local write");
            return Err(strict::violated(Errno::INVAL, rule));
        }
        if request.length == 0 || request.start.checked_add(request.length).is_none() {
            let rule = format_args!("reg_mr: a region of {:#x} bytes", request.length);
            return Err(strict::violated(Errno::INVAL, rule));
        }
        let pages = Pages::of(request.start, request.length);
        pages.pin()?;
        if let Err(errno) = pages.fault_in(request.access & IBV_ACCESS_LOCAL_WRITE != 0) {
            pages.unpin();
            return Err(errno);
        }
        let mut free = self.free.lock();
        let Some(index) = free.indices.pop() else {
            pages.unpin();
            return Err(Errno::NOMEM);
        };
        free.variant = free.variant.wrapping_add(1);
        // An index of zero would allow the key 0, which nothing may have.
        let key = (index + 1) << 8 | u32::from(free.variant);
        drop(free);
        let slot = &self.slots[index as usize];
        slot.domain.store(request.domain, Ordering::Relaxed);
        slot.iova.store(request.iova, Ordering::Relaxed);
        slot.start.store(request.start, Ordering::Relaxed);
        slot.length.store(request.length, Ordering::Relaxed);
        let writable = request.access & IBV_ACCESS_LOCAL_WRITE != 0;
        slot.writable.store(writable, Ordering::Relaxed);
        slot.key.store(key, Ordering::Release);
        pages.keep_from_children();
        Ok(key)
    }

    /// Withdraws a region.
    pub(crate) fn deregister(&self, key: u32) {
        let Some(slot) = self.slot(key) else { return };
        slot.key.store(0, Ordering::Release);
        let pages = Pages::of(
            slot.start.load(Ordering::Relaxed),
            slot.length.load(Ordering::Relaxed),
        );
        pages.give_to_children();
        pages.unpin();
        self.free.lock().indices.push((key >> 8) - 1);
    }

    /// Withdraws all regions.
    pub(crate) fn release(&self) {
        for slot in &self.slots {
            let key = slot.key.load(Ordering::Acquire);
            if key != 0 {
                self.deregister(key);
            }
        }
    }

    fn slot(&self, key: u32) -> Option<&Slot> {
        let index = (key >> 8).checked_sub(1)?;
        let slot = self.slots.get(index as usize)?;
        (slot.key.load(Ordering::Acquire) == key).then_some(slot)
    }

    /// Where the bytes of a scatter/gather entry are in this process.
    ///
    /// # Errors
    /// See [`Fault`].
    pub(crate) fn locate(
        &self,
        key: u32,
        domain: u32,
        address: u64,
        length: u32,
        write: bool,
    ) -> Result<usize, Fault> {
        let slot = self.slot(key).ok_or(Fault::Key)?;
        if slot.domain.load(Ordering::Relaxed) != domain {
            return Err(Fault::Domain);
        }
        let offset = address
            .checked_sub(slot.iova.load(Ordering::Relaxed))
            .ok_or(Fault::Range)?;
        let end = offset.checked_add(u64::from(length)).ok_or(Fault::Range)?;
        if end > slot.length.load(Ordering::Relaxed) as u64 {
            return Err(Fault::Range);
        }
        if write && !slot.writable.load(Ordering::Relaxed) {
            return Err(Fault::Access);
        }
        let start = slot.start.load(Ordering::Relaxed);
        if slot.key.load(Ordering::Acquire) != key {
            return Err(Fault::Key);
        }
        Ok(start + offset as usize)
    }
}

/// Pages pinned by this process, as the kernel counts them: a page twice if two regions have it.
static PINNED: AtomicUsize = AtomicUsize::new(0);

/// Whether `ibv_fork_init` was called, and the page ranges that children do not get.
static KEPT: Mutex<Kept> = Mutex::new(Kept {
    enabled: false,
    registered: false,
    ranges: Vec::new(),
});

struct Kept {
    enabled: bool,
    registered: bool,
    ranges: Vec<Pages>,
}

/// `ibv_fork_init`: from now on registered pages stay out of children.
///
/// # Errors
/// `EINVAL` after a region was registered without.
pub(crate) fn fork_init() -> Result<(), Errno> {
    let mut kept = KEPT.lock();
    if kept.registered && !kept.enabled && !settings::get().fork_safe {
        let rule = format_args!("fork_init: memory was registered before it");
        return Err(strict::violated(Errno::INVAL, rule));
    }
    kept.enabled = true;
    Ok(())
}

/// Whether `ibv_fork_init` succeeded.
pub(crate) fn fork_initialized() -> bool {
    KEPT.lock().enabled || settings::get().fork_safe
}

/// Whole pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pages {
    start: usize,
    end: usize,
}

impl Pages {
    fn of(start: usize, length: usize) -> Self {
        Self {
            start: start & !(PAGE - 1),
            end: (start + length).next_multiple_of(PAGE),
        }
    }

    fn count(self) -> usize {
        (self.end - self.start) / PAGE
    }

    fn pin(self) -> Result<(), Errno> {
        let now = PINNED.fetch_add(self.count(), Ordering::Relaxed) + self.count();
        let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
        let beyond = limit.is_some_and(|bytes| now as u64 > bytes / PAGE as u64);
        if beyond && !crate::privilege::has(rustix::thread::CapabilitySet::IPC_LOCK) {
            self.unpin();
            return Err(Errno::NOMEM);
        }
        Ok(())
    }

    fn unpin(self) {
        PINNED.fetch_sub(self.count(), Ordering::Relaxed);
    }

    /// What pinning does to pages: present, and writable if they are to be written.
    fn fault_in(self, write: bool) -> Result<(), Errno> {
        let advice = if write {
            Advice::LinuxPopulateWrite
        } else {
            Advice::LinuxPopulateRead
        };
        match self.advise(advice) {
            Ok(()) => Ok(()),
            // A kernel before 5.14 does not know the advice, not even for nothing.
            Err(Errno::INVAL) if self.nothing().advise(advice).is_err() => Ok(()),
            Err(Errno::NOMEM | Errno::FAULT | Errno::INVAL) => {
                let rule = format_args!(
                    "reg_mr: {:#x}..{:#x} is not mapped, or not {}",
                    self.start,
                    self.end,
                    if write { "writable" } else { "readable" }
                );
                Err(strict::violated(Errno::FAULT, rule))
            }
            Err(errno) => Err(errno),
        }
    }

    fn nothing(self) -> Self {
        Self {
            end: self.start,
            ..self
        }
    }

    fn keep_from_children(self) {
        let mut kept = KEPT.lock();
        kept.registered = true;
        if kept.enabled || settings::get().fork_safe {
            kept.ranges.push(self);
            // The pages were faulted in: they are mapped.
            let _ = self.advise(Advice::LinuxDontFork);
        }
    }

    fn give_to_children(self) {
        let mut kept = KEPT.lock();
        let Some(at) = kept.ranges.iter().position(|p| *p == self) else {
            return;
        };
        kept.ranges.swap_remove(at);
        // What another region still covers stays as it is.
        let mut rest = vec![self];
        for other in &kept.ranges {
            rest = rest.iter().flat_map(|p| p.without(*other)).collect();
        }
        for pages in rest {
            // Unmapped meanwhile: then there is nothing to give.
            let _ = pages.advise(Advice::LinuxDoFork);
        }
    }

    /// The parts that `other` does not cover.
    fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let before = Self {
            start: self.start,
            end: self.end.min(other.start),
        };
        let after = Self {
            start: self.start.max(other.end),
            end: self.end,
        };
        [before, after].into_iter().filter(|p| p.start < p.end)
    }

    fn advise(self, advice: Advice) -> Result<(), Errno> {
        let address = core::ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: of the advices used here none discards contents or unmaps anything.
        unsafe { madvise(address, self.end - self.start, advice) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(memory: &Memory, bytes: &mut [u8], access: u32) -> u32 {
        let start = bytes.as_mut_ptr().addr();
        let request = Request {
            start,
            length: bytes.len(),
            iova: 0x1000,
            access,
            domain: 7,
        };
        memory.register(&request).unwrap()
    }

    #[test]
    fn only_what_was_registered_is_reached() {
        let memory = Memory::new(2);
        let mut bytes = vec![0u8; 100];
        let start = bytes.as_ptr().addr();
        let key = region(&memory, &mut bytes, IBV_ACCESS_LOCAL_WRITE);
        assert_eq!(memory.locate(key, 7, 0x1000, 100, true), Ok(start));
        assert_eq!(memory.locate(key, 7, 0x1063, 1, true), Ok(start + 99));
        assert_eq!(memory.locate(key, 7, 0x1063, 2, true), Err(Fault::Range));
        assert_eq!(memory.locate(key, 7, 0xfff, 1, true), Err(Fault::Range));
        assert_eq!(
            memory.locate(key, 7, u64::MAX, 2, true),
            Err(Fault::Range),
            "no wrapping"
        );
        assert_eq!(memory.locate(key, 8, 0x1000, 1, true), Err(Fault::Domain));
        assert_eq!(memory.locate(key + 1, 7, 0x1000, 1, true), Err(Fault::Key));
        assert_eq!(memory.locate(0, 7, 0x1000, 1, true), Err(Fault::Key));
        memory.deregister(key);
        assert_eq!(memory.locate(key, 7, 0x1000, 1, true), Err(Fault::Key));
    }

    #[test]
    fn a_region_without_local_write_is_only_read() {
        let memory = Memory::new(1);
        let mut bytes = vec![0u8; 10];
        let key = region(&memory, &mut bytes, 0);
        assert!(memory.locate(key, 7, 0x1000, 10, false).is_ok());
        assert_eq!(memory.locate(key, 7, 0x1000, 10, true), Err(Fault::Access));
    }

    #[test]
    fn a_key_is_not_used_again_at_once() {
        let memory = Memory::new(1);
        let mut bytes = vec![0u8; 10];
        let first = region(&memory, &mut bytes, 0);
        memory.deregister(first);
        let second = region(&memory, &mut bytes, 0);
        assert_ne!(first, second);
    }

    #[test]
    fn what_another_region_covers_is_left_out() {
        let page = |from: usize, to: usize| Pages {
            start: from * PAGE,
            end: to * PAGE,
        };
        let parts: Vec<_> = page(0, 10).without(page(3, 5)).collect();
        assert_eq!(parts, [page(0, 3), page(5, 10)]);
        assert_eq!(page(0, 10).without(page(0, 10)).count(), 0);
        assert_eq!(
            page(2, 4).without(page(6, 8)).collect::<Vec<_>>(),
            [page(2, 4)]
        );
    }
}
