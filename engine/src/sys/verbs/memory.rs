//! The frames' memory, registered with the card.
//!
//! Owns one mapping and its memory region. The card writes to it whenever a receive is
//! posted, so that the bytes are reached through [`super::rx`] and [`super::tx`] alone, which
//! know what is whose. Huge pages if there are any: fewer translations in the card. It never
//! gets into a forked child: the pages stay the parent's, and a fork stays cheap.
//!
//! Source: ibv_reg_mr(3), mmap(2), madvise(2) MADV_DONTFORK.

use super::device::{Domain, last_error};
use crate::error::Errno;
use crate::sys::foreign;
use crate::sys::raw::syscall6;
use ibverbs_sys as ibv;
use std::ptr::NonNull;
use std::sync::Arc;

const HUGE_PAGE: usize = 2 << 20;
const PAGE: usize = 4096;

/// Anonymous pages; unmapped on drop.
#[derive(Debug)]
struct Pages {
    base: NonNull<u8>,
    len: usize,
    huge: bool,
}

impl Pages {
    fn map(len: usize, huge: bool) -> Result<Self, Errno> {
        let (page, extra) = if huge {
            // Taken now: a page that is not there after all would be a fault later.
            (
                HUGE_PAGE,
                libc::MAP_HUGETLB | libc::MAP_HUGE_2MB | libc::MAP_POPULATE,
            )
        } else {
            (PAGE, 0)
        };
        let len = len.next_multiple_of(page);
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | extra;
        // SAFETY: a new anonymous mapping where the kernel likes.
        let base = unsafe {
            syscall6(
                libc::SYS_mmap,
                [0, len, prot as usize, flags as usize, usize::MAX, 0],
            )
        }?;
        let base = NonNull::new(base as *mut u8).ok_or(Errno(libc::ENOMEM))?;
        let pages = Self { base, len, huge };
        // SAFETY: the range is the mapping just made.
        let kept_out = unsafe {
            syscall6(
                libc::SYS_madvise,
                [
                    base.as_ptr() as usize,
                    len,
                    libc::MADV_DONTFORK as usize,
                    0,
                    0,
                    0,
                ],
            )
        };
        kept_out.map(|_| pages)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let at = self.base.as_ptr() as usize;
        // SAFETY: the mapping of `map`, whose region is gone.
        let _ = unsafe { syscall6(libc::SYS_munmap, [at, self.len, 0, 0, 0, 0]) };
    }
}

/// A registered mapping. Its queue pair owns it and is destroyed first.
#[derive(Debug)]
pub struct Region {
    raw: NonNull<ibv::ibv_mr>,
    pages: Pages,
    domain: Arc<Domain>,
}

// SAFETY: nothing of it is tied to a thread; its bytes are not reachable from here.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps and registers `len` bytes, in huge pages if `huge` and if there are any.
    ///
    /// # Errors
    /// ENOMEM: no memory, or more than RLIMIT_MEMLOCK allows.
    pub fn new(domain: &Arc<Domain>, len: usize, huge: bool) -> Result<Self, Errno> {
        if huge && let Ok(region) = Self::register(domain, len, true) {
            return Ok(region);
        }
        Self::register(domain, len, false)
    }

    fn register(domain: &Arc<Domain>, len: usize, huge: bool) -> Result<Self, Errno> {
        let pages = Pages::map(len, huge)?;
        let _inside = foreign::enter();
        let access = ibv::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0 as i32;
        let base = pages.base.as_ptr().cast();
        // SAFETY: the whole range is mapped, and stays so until the region is gone.
        let raw = unsafe {
            (domain.context.functions.ibv_reg_mr)(domain.raw.as_ptr(), base, pages.len, access)
        };
        Ok(Self {
            raw: NonNull::new(raw).ok_or_else(last_error)?,
            pages,
            domain: Arc::clone(domain),
        })
    }

    /// Whether it consists of huge pages.
    #[must_use]
    pub fn is_huge(&self) -> bool {
        self.pages.huge
    }

    pub(super) fn base(&self) -> NonNull<u8> {
        self.pages.base
    }

    /// Bytes, rounded up to whole pages.
    pub(super) fn len(&self) -> usize {
        self.pages.len
    }

    /// The key that work requests name it by.
    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: registered until our drop.
        unsafe { (*self.raw.as_ptr()).lkey }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let _inside = foreign::enter();
        // SAFETY: the queue pair that owned it has been destroyed. The pages go after this,
        // by the order of a drop.
        let _ = unsafe { (self.domain.context.functions.ibv_dereg_mr)(self.raw.as_ptr()) };
    }
}
