//! Frames that are left without returning: cancellation, pthread_exit or longjmp from a
//! handler, under a call of ours that waits.
//!
//! libc runs what is registered by its older cleanup interface in all these cases, longjmp
//! included, if the frame is one of those left. Source: glibc nptl/cleanup_compat.c,
//! nptl/unwind.c, sysdeps/nptl/jmp-unwind.c.

use super::defer;
use std::ffi::c_void;
use std::marker::PhantomPinned;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

/// `struct _pthread_cleanup_buffer`.
#[repr(C)]
struct Buffer {
    routine: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
    cancel_type: libc::c_int,
    previous: *mut Buffer,
}

type Push = unsafe extern "C" fn(*mut Buffer, unsafe extern "C" fn(*mut c_void), *mut c_void);
type Pop = unsafe extern "C" fn(*mut Buffer, libc::c_int);

static PUSH: AtomicUsize = AtomicUsize::new(0);
static POP: AtomicUsize = AtomicUsize::new(0);

/// The addresses of `_pthread_cleanup_push` and `_pthread_cleanup_pop`. Once, before the first
/// wait; without them nothing is cleaned up.
pub fn set_cleanup(push: usize, pop: usize) {
    if push != 0 && pop != 0 {
        POP.store(pop, Ordering::Relaxed);
        PUSH.store(push, Ordering::Release);
    }
}

/// Something of a waiting call that is dropped even if its frame is left.
pub struct Kept<T> {
    buffer: Buffer,
    value: ManuallyDrop<T>,
    armed: bool,
    _pinned: PhantomPinned,
}

/// Its use between registration and return.
pub struct Armed<'a, T>(&'a mut Kept<T>);

impl<T> std::fmt::Debug for Armed<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Armed").finish_non_exhaustive()
    }
}

impl<T> std::fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

unsafe extern "C" fn drop_value<T>(at: *mut c_void) {
    let _scope = defer::enter();
    // SAFETY: the value of a frame that is still there and will not run again.
    unsafe { std::ptr::drop_in_place(at.cast::<T>()) };
}

impl<T> Kept<T> {
    /// Not registered yet: it may be moved.
    pub fn new(value: T) -> Self {
        Self {
            buffer: Buffer {
                routine: drop_value::<T>,
                argument: std::ptr::null_mut(),
                cancel_type: 0,
                previous: std::ptr::null_mut(),
            },
            value: ManuallyDrop::new(value),
            armed: false,
            _pinned: PhantomPinned,
        }
    }

    /// Registers it for as long as it is borrowed. The borrow must end in the frame that holds
    /// it, in the order of a stack, as that of a local variable does.
    pub fn arm(&mut self) -> Armed<'_, T> {
        self.arm_if(true)
    }

    /// As [`Self::arm`], unless the call does not wait.
    pub fn arm_if(&mut self, waits: bool) -> Armed<'_, T> {
        let push = PUSH.load(Ordering::Acquire);
        if waits && push != 0 {
            self.armed = true;
            let argument = (&raw mut self.value).cast::<c_void>();
            // SAFETY: the address is that of _pthread_cleanup_push.
            let push: Push = unsafe { std::mem::transmute(push) };
            // SAFETY: buffer and value stay where they are until `Armed` is dropped.
            unsafe { push(&raw mut self.buffer, drop_value::<T>, argument) };
        }
        Armed(self)
    }
}

impl<T> Drop for Armed<'_, T> {
    fn drop(&mut self) {
        if self.0.armed {
            self.0.armed = false;
            // SAFETY: the address is that of _pthread_cleanup_pop.
            let pop: Pop = unsafe { std::mem::transmute(POP.load(Ordering::Relaxed)) };
            // SAFETY: the innermost one that is registered; it is not run.
            unsafe { pop(&raw mut self.0.buffer, 0) };
        }
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        // SAFETY: nobody uses it after this; the routine was not run, or this frame would be gone.
        unsafe { ManuallyDrop::drop(&mut self.value) };
    }
}

impl<T> Deref for Armed<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0.value
    }
}

impl<T> DerefMut for Armed<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0.value
    }
}

impl<T> Deref for Kept<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}
