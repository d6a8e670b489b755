//! The program's handlers run in [`enter`]: it puts them off while their thread is inside the
//! library ([`super::defer`]), and tells a spinning call that one ran.
//!
//! The kernel interrupts a call that sleeps in it; nobody interrupts one that spins in
//! user space. So handlers are counted per thread, and a spinning call compares the counts.
//! Handlers of faults are left alone: they cannot wait, and interrupt no call.
//!
//! The kernel is told SA_SIGINFO always, for a signal that is put off has to carry what it
//! carries, and never SA_RESETHAND, which would have the default action take the second
//! delivery; what the program is told is what it set. Nothing is wrapped before the engine starts.
//! Source: sigaction(2), signal(7).

use super::raw::syscall6;
use super::{carried, defer};
use crate::error::Errno;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

const SIGNALS: usize = 65;

/// The program's handlers, by signal number; 0: not wrapped.
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];
/// Their sa_flags.
static FLAGS: [AtomicU64; SIGNALS] = [const { AtomicU64::new(0) }; SIGNALS];
static STARTED: AtomicBool = AtomicBool::new(false);

/// How many handlers have run on a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Without SA_RESTART: a blocking call fails with EINTR.
    pub interrupting: u32,
    /// With SA_RESTART: recv and send go on, poll and its kin fail.
    pub restarting: u32,
}

/// The calling thread's counts.
#[inline]
#[must_use]
pub fn counts() -> Counts {
    let thread = defer::thread();
    Counts {
        interrupting: thread.interrupting.load(Ordering::Relaxed),
        restarting: thread.restarting.load(Ordering::Relaxed),
    }
}

/// `struct kernel_sigaction` of rt_sigaction(2) on x86-64 and aarch64.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Action {
    /// Handler, SIG_DFL or SIG_IGN.
    pub handler: usize,
    /// SA_* flags.
    pub flags: u64,
    /// Return trampoline, libc's.
    pub restorer: usize,
    /// Signals blocked meanwhile.
    pub mask: u64,
}

fn rt_sigaction(signal: i32, new: Option<&Action>, old: &mut Action) -> Result<(), Errno> {
    let new = new.map_or(0, |a| std::ptr::from_ref(a) as usize);
    let old = std::ptr::from_mut(old) as usize;
    // SAFETY: both structures live until the call returns and have the kernel's layout.
    unsafe { syscall6(libc::SYS_rt_sigaction, [signal as usize, new, old, 8, 0, 0]) }.map(drop)
}

fn is_asynchronous(signal: i32) -> bool {
    !matches!(
        signal,
        libc::SIGSEGV
            | libc::SIGBUS
            | libc::SIGFPE
            | libc::SIGILL
            | libc::SIGTRAP
            | libc::SIGSYS
            | libc::SIGKILL
            | libc::SIGSTOP
            | 32..34 // libc's own: cancellation and setxid
    )
}

/// What the kernel calls instead of the program's handler. Frugal: it may be on a stack that
/// has no more room than the handler asked for.
extern "C" fn enter(signal: i32, info: usize, context: usize) {
    if defer::put_off(signal, info, context) {
        return;
    }
    defer::settle(signal, context);
    carried::recall(signal, info);
    let index = signal as usize % SIGNALS;
    let handler = HANDLERS[index].load(Ordering::Acquire);
    let flags = FLAGS[index].load(Ordering::Relaxed);
    if flags & RESETHAND != 0 {
        reset(signal);
    }
    let thread = defer::thread();
    let count = if flags & libc::SA_RESTART as u64 != 0 {
        &thread.restarting
    } else {
        &thread.interrupting
    };
    count.fetch_add(1, Ordering::Relaxed);
    if handler > 1 {
        // SAFETY: the value came from the program's own sigaction call; whoever wants one
        // argument does not look at the others.
        let call: extern "C" fn(i32, usize, usize) = unsafe { std::mem::transmute(handler) };
        call(signal, info, context);
    }
}

/// What is blocked while a handler runs, beside what was before.
pub(super) fn blocked_meanwhile(signal: i32) -> u64 {
    let mut now = Action::default();
    let _ = rt_sigaction(signal, None, &mut now);
    if now.flags & libc::SA_NODEFER as u64 != 0 {
        now.mask
    } else {
        now.mask | 1 << (signal - 1)
    }
}

/// SA_RESETHAND: the handler is good for once.
#[cold]
#[inline(never)]
fn reset(signal: i32) {
    let mut old = Action::default();
    if rt_sigaction(signal, None, &mut old).is_ok() && old.handler == trampoline() {
        let hidden =
            FLAGS[signal as usize % SIGNALS].load(Ordering::Relaxed) & (RESETHAND | SIGINFO);
        let default = Action {
            handler: libc::SIG_DFL,
            flags: old.flags & !SIGINFO | hidden,
            ..old
        };
        let _ = rt_sigaction(signal, Some(&default), &mut old);
    }
}

fn trampoline() -> usize {
    enter as extern "C" fn(i32, usize, usize) as usize
}

const RESETHAND: u64 = libc::SA_RESETHAND as u32 as u64;
const SIGINFO: u64 = libc::SA_SIGINFO as u64;

/// The flags that the kernel is to have.
const fn kernel_flags(flags: u64) -> u64 {
    flags & !RESETHAND | SIGINFO
}

/// Wraps every handler that the program has installed so far. Once, at engine start.
pub fn adopt_all() {
    STARTED.store(true, Ordering::SeqCst);
    for signal in 1..SIGNALS as i32 {
        adopt(signal);
    }
}

/// Takes the kernel's word for a signal's handler and flags, and wraps it: also after a libc
/// function that chose the flags itself (signal, siginterrupt).
pub fn adopt(signal: i32) {
    if !wraps(signal) {
        return;
    }
    let mut now = Action::default();
    if rt_sigaction(signal, None, &mut now).is_err() || now.handler <= 1 {
        return;
    }
    if now.handler == trampoline() {
        // Ours, changed by one that kept the rest (siginterrupt).
        let hidden = FLAGS[signal as usize].load(Ordering::Relaxed) & (RESETHAND | SIGINFO);
        let flags = now.flags & !SIGINFO | hidden;
        FLAGS[signal as usize].store(flags, Ordering::Relaxed);
        return;
    }
    FLAGS[signal as usize].store(now.flags, Ordering::Relaxed);
    HANDLERS[signal as usize].store(now.handler, Ordering::Release);
    let wrapped = Action {
        handler: trampoline(),
        flags: kernel_flags(now.flags),
        ..now
    };
    let mut old = Action::default();
    let _ = rt_sigaction(signal, Some(&wrapped), &mut old);
}

/// Handlers of this signal are wrapped.
#[must_use]
pub fn wraps(signal: i32) -> bool {
    STARTED.load(Ordering::Relaxed)
        && (1..SIGNALS as i32).contains(&signal)
        && is_asynchronous(signal)
}

/// Before the call that sets an action: handler and flags to set instead. None: as they are.
#[must_use]
pub fn substitute(signal: i32, handler: usize, flags: i32) -> Option<(usize, i32)> {
    if !wraps(signal) || handler <= 1 {
        return None;
    }
    let index = signal as usize;
    let flags = u64::from(flags.cast_unsigned());
    FLAGS[index].store(flags, Ordering::Relaxed);
    HANDLERS[index].store(handler, Ordering::Release);
    let flags = (kernel_flags(flags) as u32).cast_signed();
    Some((trampoline(), flags))
}

/// The program's handler of a signal, and its flags, as they stand before [`substitute`].
#[must_use]
pub fn program_handler(signal: i32) -> (usize, i32) {
    let index = usize::try_from(signal).unwrap_or(SIGNALS);
    let (Some(handler), Some(flags)) = (HANDLERS.get(index), FLAGS.get(index)) else {
        return (0, 0);
    };
    let flags = flags.load(Ordering::Relaxed) as u32;
    (handler.load(Ordering::Acquire), flags.cast_signed())
}

/// The call that was to set an action failed: what [`substitute`] noted is taken back.
pub fn restore(signal: i32, (handler, flags): (usize, i32)) {
    if wraps(signal) {
        let index = signal as usize;
        HANDLERS[index].store(handler, Ordering::Release);
        FLAGS[index].store(u64::from(flags.cast_unsigned()), Ordering::Relaxed);
    }
}

/// What the program is to see where the kernel reported `handler` and `flags`; `before` is
/// [`program_handler`] of the time before the change.
#[must_use]
pub fn reveal(handler: usize, flags: i32, before: (usize, i32)) -> (usize, i32) {
    const HIDDEN: i32 = libc::SA_SIGINFO | libc::SA_RESETHAND;
    if handler == trampoline() {
        (before.0, flags & !HIDDEN | before.1 & HIDDEN)
    } else {
        (handler, flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI32;

    static SEEN: AtomicI32 = AtomicI32::new(0);

    extern "C" fn handler(signal: i32) {
        SEEN.store(signal, Ordering::SeqCst);
    }

    #[test]
    fn counts_a_handler_that_ran_on_this_thread() {
        let address = handler as extern "C" fn(i32) as usize;
        // SAFETY: installs a handler that only stores to an atomic.
        unsafe { libc::signal(libc::SIGUSR2, address) };
        adopt_all();
        let (handler, flags) = program_handler(libc::SIGUSR2);
        assert_eq!(handler, address);
        assert_eq!(flags & libc::SA_SIGINFO, 0);
        let seen = reveal(trampoline(), libc::SA_SIGINFO, (address, flags));
        assert_eq!(seen, (address, 0));
        let before = counts();
        // SAFETY: delivers a signal to this thread.
        unsafe { libc::raise(libc::SIGUSR2) };
        assert_eq!(SEEN.load(Ordering::SeqCst), libc::SIGUSR2);
        // signal(3) means SA_RESTART.
        assert_eq!(counts().restarting, before.restarting + 1);
        assert_eq!(counts().interrupting, before.interrupting);
    }
}
