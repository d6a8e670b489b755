//! Protection domains, and the memory regions registered in them.

use crate::abi::{ibv_context, ibv_mr, ibv_pd};
use crate::context::{Context, give, take};
use crate::handle::{self, Header, Object};
use crate::memory::Request;
use crate::{settings, strict};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU32, Ordering};

/// One protection domain.
#[repr(C)]
pub(crate) struct ProtectionDomain {
    abi: ibv_pd,
    header: Header,
    /// What it was made in.
    pub(crate) context: &'static Context,
    /// By which regions and queue pairs are compared.
    pub(crate) number: u32,
    /// Regions and queue pairs in it.
    pub(crate) users: AtomicU32,
}

// SAFETY: nothing of it changes but atomics.
unsafe impl Sync for ProtectionDomain {}

// SAFETY: repr(C) with `abi` first; shared by threads as said above.
unsafe impl Object for ProtectionDomain {
    type Abi = ibv_pd;
    const NAME: &'static str = "pd";
    const KIND: u16 = 6;
    fn header(&self) -> &Header {
        &self.header
    }
}

impl ProtectionDomain {
    /// `ibv_alloc_pd`.
    ///
    /// # Errors
    /// `ENOMEM` for one too many.
    pub(crate) fn create(context: *mut ibv_context) -> Result<&'static Self, Errno> {
        let context = Context::find(context)?;
        take(&context.counts.pds, settings::get().max_pd)?;
        let number = context.number();
        Ok(handle::publish(Self {
            abi: ibv_pd {
                context: context.pointer(),
                handle: number,
            },
            header: Header::new(),
            context,
            number,
            users: AtomicU32::new(0),
        }))
    }

    /// A domain for a call of the control plane.
    ///
    /// # Errors
    /// `EINVAL` if it does not live, and those of [`Context::usable`].
    pub(crate) fn find(pd: *mut ibv_pd) -> Result<&'static Self, Errno> {
        let pd: &'static Self = handle::find(pd)?;
        pd.context.usable()?;
        Ok(pd)
    }

    /// `ibv_dealloc_pd`.
    ///
    /// # Errors
    /// `EBUSY` while regions or queue pairs are in it.
    pub(crate) fn destroy(pd: *mut ibv_pd) -> Result<(), Errno> {
        let pd: &'static Self = handle::find(pd)?;
        pd.context.owned()?;
        let users = pd.users.load(Ordering::Relaxed);
        if users != 0 {
            let rule = format_args!("dealloc_pd: {users} regions or queue pairs are in it");
            return Err(strict::violated(Errno::BUSY, rule));
        }
        if handle::retire(pd) {
            give(&pd.context.counts.pds);
        }
        Ok(())
    }
}

/// One memory region.
#[repr(C)]
pub(crate) struct MemoryRegion {
    abi: ibv_mr,
    header: Header,
    pd: &'static ProtectionDomain,
}

// SAFETY: nothing of it changes but its mark.
unsafe impl Sync for MemoryRegion {}

// SAFETY: repr(C) with `abi` first; shared by threads as said above.
unsafe impl Object for MemoryRegion {
    type Abi = ibv_mr;
    const NAME: &'static str = "mr";
    const KIND: u16 = 7;
    fn header(&self) -> &Header {
        &self.header
    }
}

impl MemoryRegion {
    /// `ibv_reg_mr`; `request.domain` is filled in here.
    ///
    /// # Errors
    /// Those of [`crate::memory::Memory::register`].
    pub(crate) fn create(pd: *mut ibv_pd, request: &Request) -> Result<&'static Self, Errno> {
        let pd = ProtectionDomain::find(pd)?;
        let context = pd.context;
        let request = Request {
            domain: pd.number,
            ..*request
        };
        let key = context.memory.register(&request)?;
        take(&context.counts.mrs, u32::MAX)?;
        pd.users.fetch_add(1, Ordering::Relaxed);
        Ok(handle::publish(Self {
            abi: ibv_mr {
                context: context.pointer(),
                pd: pd.pointer(),
                addr: core::ptr::with_exposed_provenance_mut(request.start),
                length: request.length,
                handle: context.number(),
                lkey: key,
                rkey: key,
            },
            header: Header::new(),
            pd,
        }))
    }

    /// The local key.
    pub(crate) fn key(&self) -> u32 {
        self.abi.lkey
    }

    /// `ibv_dereg_mr`. A card lets a region go that posted requests still name, and reports the
    /// error when a frame arrives; in strict mode it is reported here.
    ///
    /// # Errors
    /// `EINVAL` if it does not live.
    pub(crate) fn destroy(mr: *mut ibv_mr) -> Result<(), Errno> {
        let mr: &'static Self = handle::find(mr)?;
        mr.pd.context.owned()?;
        let context = mr.pd.context;
        if strict::aborts() {
            context.each_qp(|qp| {
                if qp.has_posted(mr.key()) {
                    let rule = format_args!("dereg_mr: posted receives lie in the region");
                    strict::violated(Errno::BUSY, rule);
                }
            });
        }
        if handle::retire(mr) {
            context.memory.deregister(mr.key());
            mr.pd.users.fetch_sub(1, Ordering::Relaxed);
            give(&context.counts.mrs);
        }
        Ok(())
    }
}
