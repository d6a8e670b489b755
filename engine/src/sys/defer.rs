//! Signals are put off while a thread is inside the library.
//!
//! A handler may call anything that is async-signal-safe, so sockets too, and it runs on the
//! thread that it interrupts, which may hold any lock of ours. So every call is a [`Scope`].
//! A handler that would begin in one (see [`super::signal`]) is given back to the kernel: the
//! signal is blocked and queued again for this very thread, with all that it carries, and let
//! in at the scope's end. The kernel keeps order, counts and coalesces as ever. A call that
//! waits [opens](open) its scope for so long: what it holds there must be in order, and
//! be given up by [`super::leave`] if the handler never returns.
//!
//! Asynchronous cancellation (pthreads(7)) is deferred in a scope for the same reason.

use super::carried::{self, Carried};
use super::raw::syscall6;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Scopes that the thread is in.
const DEPTH: u32 = 0xffff;
/// Signals wait for the end of the scope.
const WAITING: u32 = 1 << 30;
/// The thread's cancelability type is asynchronous: the sign of the word, so that entering
/// a scope learns of it without another instruction than the jump.
const ASYNCHRONOUS: u32 = 1 << 31;

/// What the library knows of a thread. Only the thread itself and its handlers touch it.
#[repr(C)]
pub(super) struct Thread {
    state: AtomicU32,
    pub(super) interrupting: AtomicU32,
    pub(super) restarting: AtomicU32,
    /// Locks of [`super::mutex`] that it holds or waits for.
    pub(super) mutexes: AtomicU32,
    /// Signals that were put off, as a mask.
    blocked: AtomicU64,
    /// What they carried.
    pub(super) carried: Carried,
}

const SIZE: usize = 24 + carried::SIZE;
const _: () = assert!(size_of::<Thread>() == SIZE && offset_of!(Thread, state) == 0);

// One word reached by the thread pointer and a fixed distance (the initial-exec model), for
// the library is loaded with the program: `thread_local!` would call a function.
std::arch::global_asm!(
    ".pushsection .tbss.engine_thread,\"awT\",@nobits",
    ".p2align 3",
    ".globl engine_thread",
    ".hidden engine_thread",
    ".type engine_thread,@object",
    ".size engine_thread, {size}",
    "engine_thread:",
    ".zero {size}",
    ".popsection",
    size = const SIZE,
);

/// The calling thread's.
#[inline]
pub(super) fn thread() -> &'static Thread {
    let at: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the distance that the linker laid down, and the thread pointer.
    unsafe {
        std::arch::asm!(
            "mov {0}, fs:0",
            "add {0}, qword ptr [rip + engine_thread@GOTTPOFF]",
            out(reg) at,
            options(nostack, readonly, pure)
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "mrs {0}, tpidr_el0",
            "adrp {1}, :gottprel:engine_thread",
            "ldr {1}, [{1}, :gottprel_lo12:engine_thread]",
            "add {0}, {0}, {1}",
            out(reg) at,
            out(reg) _,
            options(nostack, readonly, pure)
        );
    }
    // SAFETY: the thread's own block, zeroed at its start, alive as long as the thread, and
    // handed to no other: the reference is used at once.
    unsafe { &*std::ptr::with_exposed_provenance::<Thread>(at) }
}

/// The thread is inside the library until this is dropped.
#[derive(Debug)]
pub struct Scope(());

/// Begins a scope. They nest.
#[inline(always)]
#[must_use]
pub fn enter() -> Scope {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: adds to the thread's own word; see `thread`.
    unsafe {
        std::arch::asm!(
            "mov rax, qword ptr [rip + engine_thread@GOTTPOFF]",
            "add dword ptr fs:[rax], 1",
            "js {slow}",
            out("rax") _,
            slow = label { begin_slowly() },
            options(nostack)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let state = &thread().state;
        let now = state.load(Ordering::Relaxed).wrapping_add(1);
        state.store(now, Ordering::Relaxed);
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        if now & ASYNCHRONOUS != 0 {
            begin_slowly();
        }
    }
    Scope(())
}

impl Scope {
    /// Goes on until somebody drops [`Self::kept`].
    pub fn keep(self) {
        let _ = std::mem::ManuallyDrop::new(self);
    }

    /// The one that was [kept](Self::keep) by this thread.
    #[must_use]
    pub fn kept() -> Self {
        Self(())
    }
}

impl Drop for Scope {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: takes back what `enter` added.
        unsafe {
            std::arch::asm!(
                "mov rax, qword ptr [rip + engine_thread@GOTTPOFF]",
                "sub dword ptr fs:[rax], 1",
                "jne {slow}",
                out("rax") _,
                slow = label { end_slowly() },
                options(nostack)
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
            let state = &thread().state;
            let now = state.load(Ordering::Relaxed).wrapping_sub(1);
            state.store(now, Ordering::Relaxed);
            if now != 0 {
                end_slowly();
            }
        }
    }
}

#[cold]
#[inline(never)]
fn begin_slowly() {
    if thread().state.load(Ordering::Relaxed) & DEPTH == 1 {
        set_cancel_type(CANCEL_DEFERRED);
    }
}

/// The word is not 0: another scope goes on, or something was put off.
#[cold]
#[inline(never)]
fn end_slowly() {
    let thread = thread();
    if thread.state.load(Ordering::Relaxed) & DEPTH != 0 {
        return;
    }
    let before = thread.state.fetch_and(!WAITING, Ordering::Relaxed);
    if before & WAITING != 0 {
        let set = thread.blocked.load(Ordering::Relaxed);
        // The handlers run before this returns; one that jumps out leaves nothing behind, for
        // the first that begins settles.
        change_mask(libc::SIG_UNBLOCK, set);
        thread.blocked.fetch_and(!set, Ordering::Relaxed);
        thread.carried.forget(set);
    }
    if before & ASYNCHRONOUS != 0 {
        set_cancel_type(CANCEL_ASYNCHRONOUS);
    }
}

/// The thread is in a scope.
#[must_use]
pub fn inside() -> bool {
    thread().state.load(Ordering::Relaxed) & DEPTH != 0
}

/// A stay outside, for a wait; ends on drop.
#[derive(Debug)]
pub struct Open {
    depth: u32,
}

/// Lets handlers and cancellation in: no lock may be held.
#[must_use]
pub fn open() -> Open {
    let state = &thread().state;
    let depth = state.load(Ordering::Relaxed) & DEPTH;
    state.fetch_and(!DEPTH, Ordering::Relaxed);
    end_slowly();
    Open { depth }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.depth != 0 {
            let state = &thread().state;
            let before = state.fetch_add(self.depth, Ordering::Relaxed);
            if before & ASYNCHRONOUS != 0 {
                set_cancel_type(CANCEL_DEFERRED);
            }
        }
    }
}

/// What was put off, at the beginning and the end of a time with another mask in a scope.
#[derive(Debug)]
pub(super) struct Masked {
    /// The program's own mask before.
    old: u64,
    /// Put off before, and kept out by the mask: it waits until the old one is back.
    late: u64,
}

/// `old` is what the mask was until now that every signal is blocked, `mask` the next one;
/// with what to set.
pub(super) fn mask_begins(old: u64, mask: u64) -> (Masked, u64) {
    let ours = thread().blocked.load(Ordering::Relaxed);
    let late = ours & mask;
    thread().blocked.fetch_and(!late, Ordering::Relaxed);
    let old = old & !ours;
    (Masked { old, late }, mask | ours)
}

/// All is blocked again: what only the other mask let in, and had no time to run, stays
/// pending, as after a ppoll(2) that found something. With what to set.
pub(super) fn mask_ends(masked: &Masked) -> u64 {
    let thread = thread();
    let ours = thread.blocked.load(Ordering::Relaxed) & !masked.old | masked.late;
    thread.blocked.store(ours, Ordering::Relaxed);
    if ours != 0 {
        thread.state.fetch_or(WAITING, Ordering::Relaxed);
    }
    masked.old | ours
}

/// Runs the handlers that were put off so far: for a call that spins.
#[inline]
pub fn breathe() {
    if thread().state.load(Ordering::Relaxed) & WAITING != 0 {
        drop(open());
    }
}

/// A handler of `signal` begins outside, with `context`.
#[inline]
pub(super) fn settle(signal: i32, context: usize) {
    if thread().blocked.load(Ordering::Relaxed) != 0 {
        settle_slowly(signal, context);
    }
}

/// It came between the end of a scope and the unblocking of what was put off in it: it must
/// not return to a mask with these, nor run under them unless its action says so.
#[cold]
#[inline(never)]
fn settle_slowly(signal: i32, context: usize) {
    let thread = thread();
    thread.state.fetch_and(!WAITING, Ordering::Relaxed);
    let set = thread.blocked.swap(0, Ordering::Relaxed);
    // SAFETY: the frame that this handler returns by.
    let mask = unsafe { frame_mask(context) };
    *mask &= !set;
    let meanwhile = super::signal::blocked_meanwhile(signal);
    change_mask(libc::SIG_UNBLOCK, set & !meanwhile);
}

/// The signal mask that a handler returns to.
///
/// # Safety
/// `context` is what the kernel gave to a handler of this thread that still runs.
unsafe fn frame_mask<'a>(context: usize) -> &'a mut u64 {
    let context = std::ptr::with_exposed_provenance_mut::<libc::ucontext_t>(context);
    // SAFETY: the frame is alive, and this thread's alone.
    let mask = unsafe { &raw mut (*context).uc_sigmask };
    // SAFETY: the kernel's 64 bits are the first of libc's larger set.
    unsafe { &mut *mask.cast::<u64>() }
}

/// The mask of the time before.
pub(super) fn change_mask(how: i32, set: u64) -> u64 {
    let mut old = 0u64;
    let new = std::ptr::from_ref(&set).addr();
    let args = [how as usize, new, (&raw mut old).addr(), 8, 0, 0];
    // SAFETY: two eight-byte sets that outlive the call.
    let _ = unsafe { syscall6(libc::SYS_rt_sigprocmask, args) };
    old
}

/// A handler is about to run: true if it is put off. `info` and `context` are what the kernel
/// gave to the handler.
pub(super) fn put_off(signal: i32, info: usize, context: usize) -> bool {
    let thread = thread();
    if thread.state.load(Ordering::Relaxed) & DEPTH == 0 {
        return false;
    }
    let bit = 1u64 << (signal - 1);
    // With SA_NODEFER it would come back at once.
    let before = change_mask(libc::SIG_BLOCK, bit);
    if !carried::again(signal, info) {
        // Now, rather than never.
        if before & bit == 0 {
            change_mask(libc::SIG_UNBLOCK, bit);
        }
        return false;
    }
    thread.blocked.fetch_or(bit, Ordering::Relaxed);
    thread.state.fetch_or(WAITING, Ordering::Relaxed);
    // SAFETY: the frame that this handler returns by.
    *unsafe { frame_mask(context) } |= bit;
    true
}

/// PTHREAD_CANCEL_DEFERRED and PTHREAD_CANCEL_ASYNCHRONOUS of pthread.h.
const CANCEL_DEFERRED: libc::c_int = 0;
const CANCEL_ASYNCHRONOUS: libc::c_int = 1;

type SetCancelType = unsafe extern "C" fn(libc::c_int, *mut libc::c_int) -> libc::c_int;

/// libc's own pthread_setcanceltype; 0: not known, and no thread is [asynchronous](cancel_type).
static SET_CANCEL_TYPE: AtomicUsize = AtomicUsize::new(0);

fn set_cancel_type(kind: libc::c_int) {
    let address = SET_CANCEL_TYPE.load(Ordering::Acquire);
    if address == 0 {
        return;
    }
    // SAFETY: the address is that of pthread_setcanceltype.
    let call: SetCancelType = unsafe { std::mem::transmute(address) };
    // SAFETY: the old type is not asked for.
    let _ = unsafe { call(kind, std::ptr::null_mut()) };
}

/// The program has set the calling thread's cancelability type, by the function at `original`.
pub fn cancel_type(kind: libc::c_int, original: usize) {
    SET_CANCEL_TYPE.store(original, Ordering::Release);
    let state = &thread().state;
    if kind == CANCEL_ASYNCHRONOUS {
        state.fetch_or(ASYNCHRONOUS, Ordering::Relaxed);
    } else {
        state.fetch_and(!ASYNCHRONOUS, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::event::SignalMask;
    use crate::sys::signal;
    use std::sync::atomic::AtomicI32;

    static SEEN: AtomicI32 = AtomicI32::new(0);

    extern "C" fn handler(_: i32, info: *const libc::siginfo_t) {
        // SAFETY: the kernel's, for a handler with SA_SIGINFO.
        let info = unsafe { &*info };
        // SAFETY: it was queued with a value.
        let value = unsafe { info.si_value() };
        SEEN.fetch_add(1 + value.sival_ptr.addr() as i32, Ordering::SeqCst);
    }

    fn handle(signal: i32, action: usize, flags: i32) {
        // SAFETY: all-zero is an action.
        let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
        new.sa_sigaction = action;
        new.sa_flags = libc::SA_SIGINFO | flags;
        // SAFETY: a handler that only uses atomics and scopes.
        unsafe { libc::sigaction(signal, &raw const new, std::ptr::null_mut()) };
        signal::adopt_all();
    }

    fn queue(signal: i32, value: usize) {
        let value = libc::sigval {
            sival_ptr: std::ptr::without_provenance_mut(value),
        };
        // SAFETY: takes nothing.
        let me = unsafe { libc::pthread_self() };
        // SAFETY: a live thread, this one.
        unsafe { libc::pthread_sigqueue(me, signal, value) };
    }

    /// What the thread's mask blocks.
    fn blocked_now() -> u64 {
        let mut now = 0u64;
        let args = [0, 0, std::ptr::from_mut(&mut now).addr(), 8, 0, 0];
        // SAFETY: an eight-byte set that outlives the call.
        unsafe { syscall6(libc::SYS_rt_sigprocmask, args) }.unwrap();
        now
    }

    #[test]
    fn a_handler_waits_for_the_outermost_scope() {
        let signal = libc::SIGRTMIN();
        let action = handler as extern "C" fn(i32, *const libc::siginfo_t) as usize;
        handle(signal, action, libc::SA_NODEFER);
        let outer = enter();
        let inner = enter();
        queue(signal, 10);
        queue(signal, 100);
        drop(inner);
        assert_eq!(SEEN.load(Ordering::SeqCst), 0);
        drop(open());
        assert_eq!(SEEN.load(Ordering::SeqCst), 112, "real-time signals queue");
        queue(signal, 1000);
        assert_eq!(SEEN.load(Ordering::SeqCst), 112, "the scope goes on");
        drop(outer);
        assert_eq!(SEEN.load(Ordering::SeqCst), 1113);
        queue(signal, 10_000);
        assert_eq!(SEEN.load(Ordering::SeqCst), 11_114);
    }

    static MASKED: AtomicI32 = AtomicI32::new(0);

    extern "C" fn count_masked(_: i32) {
        MASKED.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn what_another_mask_let_in_too_late_stays_pending() {
        let signal = libc::SIGRTMIN() + 1;
        let bit = 1u64 << (signal - 1);
        handle(signal, count_masked as extern "C" fn(i32) as usize, 0);
        change_mask(libc::SIG_BLOCK, bit);
        let scope = enter();
        let mask = SignalMask::set(0);
        queue(signal, 0);
        drop(mask);
        drop(scope);
        assert_eq!(MASKED.load(Ordering::SeqCst), 0);
        assert_eq!(blocked_now() & bit, bit);
        let scope = enter();
        let mask = SignalMask::set(0);
        breathe();
        assert_eq!(MASKED.load(Ordering::SeqCst), 1, "it was not lost");
        drop(mask);
        drop(scope);
        change_mask(libc::SIG_UNBLOCK, bit);
        // The program does not block it, the mask of a call does.
        let scope = enter();
        queue(signal, 0);
        let (masked, now) = mask_begins(blocked_now(), bit);
        assert_eq!(now & bit, bit);
        breathe();
        assert_eq!(MASKED.load(Ordering::SeqCst), 1);
        assert_eq!(mask_ends(&masked) & bit, bit);
        drop(scope);
        assert_eq!(MASKED.load(Ordering::SeqCst), 2);
        assert_eq!(blocked_now() & bit, 0);
    }

    static ORDER: AtomicU64 = AtomicU64::new(0);

    extern "C" fn first(_: i32) {
        ORDER.store(ORDER.load(Ordering::SeqCst) * 10 + 1, Ordering::SeqCst);
    }

    /// A handler that makes a call of ours.
    extern "C" fn second(_: i32) {
        drop(enter());
        ORDER.store(ORDER.load(Ordering::SeqCst) * 10 + 2, Ordering::SeqCst);
    }

    #[test]
    fn a_handler_between_a_scope_and_its_end_leaves_nothing_blocked() {
        let (one, two) = (libc::SIGRTMIN() + 2, libc::SIGRTMIN() + 3);
        let bit = 1u64 << (one - 1);
        handle(one, first as extern "C" fn(i32) as usize, 0);
        handle(two, second as extern "C" fn(i32) as usize, 0);
        let scope = enter();
        queue(one, 0);
        scope.keep();
        // As the end of a scope, but for what follows.
        thread().state.fetch_sub(1, Ordering::Relaxed);
        queue(two, 0);
        assert_eq!(blocked_now() & bit, 0);
        end_slowly();
        assert_eq!(ORDER.load(Ordering::SeqCst), 12);
        assert_eq!(blocked_now() & bit, 0);
    }

    static TURNS: AtomicU64 = AtomicU64::new(0);

    /// One digit a signal; its scope lets the next ones in where the action says so.
    extern "C" fn note_turn(_: i32, info: *const libc::siginfo_t) {
        // SAFETY: the kernel's, for a handler with SA_SIGINFO.
        let info = unsafe { &*info };
        // SAFETY: it was queued with a value.
        let value = unsafe { info.si_value() }.sival_ptr.addr() as u64;
        assert_eq!(info.si_errno, 0);
        TURNS.store(TURNS.load(Ordering::SeqCst) * 10 + value, Ordering::SeqCst);
        drop(enter());
    }

    #[test]
    fn signals_that_are_put_off_keep_their_order() {
        let signal = libc::SIGRTMIN() + 4;
        let bit = 1u64 << (signal - 1);
        let action = note_turn as extern "C" fn(i32, *const libc::siginfo_t) as usize;
        // With SA_NODEFER Linux makes a frame for each before the last one's handler begins.
        for (flags, turns) in [(0, 123_456), (libc::SA_NODEFER, 654_321)] {
            handle(signal, action, flags);
            TURNS.store(0, Ordering::SeqCst);
            let scope = enter();
            change_mask(libc::SIG_BLOCK, bit);
            (1..=4).for_each(|n| queue(signal, n));
            // The first is put off behind the others, and others come behind it.
            change_mask(libc::SIG_UNBLOCK, bit);
            queue(signal, 5);
            queue(signal, 6);
            assert_eq!(TURNS.load(Ordering::SeqCst), 0);
            drop(scope);
            assert_eq!(TURNS.load(Ordering::SeqCst), turns);
            assert_eq!(blocked_now() & bit, 0);
        }
        // A token that is gone keeps nothing back.
        let scope = enter();
        queue(signal, 7);
        // SAFETY: all-zero is a set.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: a set of ours.
        unsafe { libc::sigaddset(&raw mut set, signal) };
        // SAFETY: takes the pending one; nothing is asked of it.
        unsafe { libc::sigwaitinfo(&raw const set, std::ptr::null_mut()) };
        drop(scope);
        TURNS.store(0, Ordering::SeqCst);
        queue(signal, 8);
        assert_eq!(TURNS.load(Ordering::SeqCst), 8);
    }
}
