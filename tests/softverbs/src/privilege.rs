//! What the kernel's `capable()` would say of the calling thread.

use rustix::thread::{CapabilitySet, capabilities};

/// Whether the capability is in effect.
pub(crate) fn has(wanted: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(wanted))
}
