//! Which process an object belongs to. A child of fork(2) has the objects' memory but not the
//! card's pages: whatever it calls on them fails. The data path may not make a system call to
//! see that, so it looks at a page that the kernel clears in children (`MADV_WIPEONFORK`).

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::sync::atomic::{AtomicU32, Ordering};

/// True in the process that made it, false in its children.
#[derive(Clone, Copy)]
pub(crate) struct Owner(&'static AtomicU32);

impl Owner {
    /// The calling process.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub(crate) fn current() -> Result<Self, Errno> {
        static PAGE: Mutex<Option<Owner>> = Mutex::new(None);
        let mut page = PAGE.lock();
        if let Some(owner) = *page
            && owner.is_current()
        {
            return Ok(owner);
        }
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping, which the kernel places.
        let address =
            unsafe { mmap_anonymous(core::ptr::null_mut(), 4096, protection, MapFlags::PRIVATE) }?;
        // SAFETY: the advice concerns the mapping made above.
        unsafe { madvise(address, 4096, Advice::LinuxWipeOnFork) }?;
        // SAFETY: page-aligned, zeroed, and never unmapped.
        let value = unsafe { &*address.cast::<AtomicU32>() };
        value.store(1, Ordering::Relaxed);
        let owner = Self(value);
        *page = Some(owner);
        Ok(owner)
    }

    /// Whether this is still that process.
    pub(crate) fn is_current(self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}
