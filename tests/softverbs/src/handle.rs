//! Which objects live. A pointer that comes from outside is looked up in a table by the calls of
//! the control plane; the data path looks at a mark in the object itself and takes no lock.
//!
//! The memory of an object is never freed: using it after its destruction is then found for
//! certain instead of reading what else was allocated there. What an object held is freed.

use crate::strict;
use parking_lot::Mutex;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// The mark of an object: its kind while it lives.
pub(crate) struct Header(AtomicU32);

const LIVE: u32 = 0x51f7_0000;
const DEAD: u32 = 0xdead_0000;

impl Header {
    /// Of an object that is not published yet.
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(DEAD))
    }
}

/// What the C side holds pointers to.
///
/// # Safety
/// `Abi` lies `OFFSET` bytes into the `repr(C)` type, and the type may be shared by threads.
pub(crate) unsafe trait Object: Sized + Sync + 'static {
    /// What the C side sees of it.
    type Abi;
    /// What messages call it.
    const NAME: &'static str;
    /// Distinguishes kinds; not zero.
    const KIND: u16;
    /// Where the C side's part is.
    const OFFSET: usize = 0;
    /// Its mark.
    fn header(&self) -> &Header;

    /// The pointer that the C side gets.
    fn pointer(&'static self) -> *mut Self::Abi {
        core::ptr::from_ref(self)
            .cast::<u8>()
            .wrapping_add(Self::OFFSET)
            .cast_mut()
            .cast()
    }

    /// Whether it has not been destroyed.
    fn lives(&self) -> bool {
        self.header().0.load(Ordering::Acquire) == LIVE | u32::from(Self::KIND)
    }
}

static TABLE: Mutex<BTreeMap<usize, u16>> = Mutex::new(BTreeMap::new());

/// Gives an object its address and its life.
pub(crate) fn publish<T: Object>(object: T) -> &'static T {
    let object: &'static T = Box::leak(Box::new(object));
    TABLE.lock().insert(object.pointer().addr(), T::KIND);
    let mark = LIVE | u32::from(T::KIND);
    object.header().0.store(mark, Ordering::Release);
    object
}

/// Ends an object's life. False: it had ended already.
pub(crate) fn retire<T: Object>(object: &'static T) -> bool {
    let mark = DEAD | u32::from(T::KIND);
    object.header().0.store(mark, Ordering::Release);
    TABLE.lock().remove(&object.pointer().addr()).is_some()
}

/// The object behind a pointer, for the control plane: any pointer may be asked about.
pub(crate) fn find<T: Object>(pointer: *mut T::Abi) -> Result<&'static T, Errno> {
    if TABLE.lock().get(&pointer.addr()) != Some(&T::KIND) {
        return Err(dead::<T>(pointer.addr()));
    }
    let object = pointer.cast::<u8>().wrapping_sub(T::OFFSET).cast::<T>();
    // SAFETY: the table holds addresses of published objects of this kind only, never freed.
    Ok(unsafe { &*object })
}

/// The object behind a pointer, for the data path.
///
/// # Safety
/// The pointer is null, or was once returned for an object of this kind.
pub(crate) unsafe fn data<T: Object>(pointer: *mut T::Abi) -> Result<&'static T, Errno> {
    if pointer.is_null() {
        return Err(dead::<T>(0));
    }
    let object = pointer.cast::<u8>().wrapping_sub(T::OFFSET).cast::<T>();
    // SAFETY: by this function's contract; objects are never freed.
    let object: &'static T = unsafe { &*object };
    if object.lives() {
        Ok(object)
    } else {
        Err(dead::<T>(pointer.addr()))
    }
}

#[cold]
fn dead<T: Object>(address: usize) -> Errno {
    let name = T::NAME;
    strict::violated(
        Errno::INVAL,
        format_args!("{name} {address:#x} is not live: destroyed before, or never created"),
    )
}
