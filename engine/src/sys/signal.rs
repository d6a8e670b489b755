//! Telling a spinning call that a signal handler ran (signal(7)).
//!
//! The kernel interrupts a call that sleeps in it; nobody interrupts one that spins in
//! user space. So the handlers of asynchronous signals are entered through [`enter`],
//! which counts per thread, and a spinning call compares the counts. Handlers of
//! faults are left alone: no call is interrupted by those.
//!
//! Nothing is wrapped before the engine starts.

use super::raw::syscall6;
use crate::error::Errno;
use std::cell::Cell;
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

thread_local! {
    // In the static TLS block, for the library is loaded with the program: no allocation.
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { interrupting: 0, restarting: 0 }) };
}

/// The calling thread's counts.
#[inline]
#[must_use]
pub fn counts() -> Counts {
    COUNTS.with(Cell::get)
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

/// What the kernel calls instead of the program's handler.
extern "C" fn enter(signal: i32, info: usize, context: usize) {
    let index = signal as usize % SIGNALS;
    let handler = HANDLERS[index].load(Ordering::Acquire);
    let restart = FLAGS[index].load(Ordering::Relaxed) & libc::SA_RESTART as u64 != 0;
    COUNTS.with(|c| {
        let mut counts = c.get();
        if restart {
            counts.restarting = counts.restarting.wrapping_add(1);
        } else {
            counts.interrupting = counts.interrupting.wrapping_add(1);
        }
        c.set(counts);
    });
    if handler > 1 {
        // SAFETY: the value came from the program's own sigaction call; the kernel passes
        // all three arguments whether or not SA_SIGINFO is set.
        let call: extern "C" fn(i32, usize, usize) = unsafe { std::mem::transmute(handler) };
        call(signal, info, context);
    }
}

fn trampoline() -> usize {
    enter as extern "C" fn(i32, usize, usize) as usize
}

/// Wraps every handler that the program has installed so far. Once, at engine start.
pub fn adopt_all() {
    STARTED.store(true, Ordering::SeqCst);
    for signal in (1..SIGNALS as i32).filter(|s| is_asynchronous(*s)) {
        let mut now = Action::default();
        if rt_sigaction(signal, None, &mut now).is_err() {
            continue;
        }
        if now.handler > 1 && now.handler != trampoline() {
            let mut ignored = Action::default();
            let wrapped = wrap(signal, &now);
            let _ = rt_sigaction(signal, Some(&wrapped), &mut ignored);
        }
    }
}

/// Remembers the program's handler and answers what the kernel is to be told.
fn wrap(signal: i32, wanted: &Action) -> Action {
    let index = signal as usize;
    FLAGS[index].store(wanted.flags, Ordering::Relaxed);
    HANDLERS[index].store(wanted.handler, Ordering::Release);
    Action {
        handler: trampoline(),
        ..*wanted
    }
}

/// Before the call that sets an action: what to set instead. None: as it is.
#[must_use]
pub fn substitute(signal: i32, handler: usize, flags: i32) -> Option<usize> {
    let wrapped = STARTED.load(Ordering::Relaxed)
        && (1..SIGNALS as i32).contains(&signal)
        && is_asynchronous(signal)
        && handler > 1;
    wrapped.then(|| {
        let action = Action {
            handler,
            flags: flags as u64,
            ..Action::default()
        };
        wrap(signal, &action).handler
    })
}

/// After a libc function that chose the flags itself (signal, siginterrupt): takes the
/// kernel's word for them.
pub fn refresh_flags(signal: i32) {
    let mut now = Action::default();
    if (1..SIGNALS as i32).contains(&signal) && rt_sigaction(signal, None, &mut now).is_ok() {
        FLAGS[signal as usize].store(now.flags, Ordering::Relaxed);
    }
}

/// The program's handler of a signal as it stands before [`substitute`].
#[must_use]
pub fn program_handler(signal: i32) -> usize {
    usize::try_from(signal)
        .ok()
        .and_then(|i| HANDLERS.get(i))
        .map_or(0, |h| h.load(Ordering::Acquire))
}

/// What the program is to see where the kernel reported `handler`; `before` is
/// [`program_handler`] of the time before the change.
#[must_use]
pub fn reveal(handler: usize, before: usize) -> usize {
    if handler == trampoline() {
        before
    } else {
        handler
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
        assert_eq!(program_handler(libc::SIGUSR2), address);
        assert_eq!(reveal(trampoline(), address), address);
        let before = counts();
        // SAFETY: delivers a signal to this thread.
        unsafe { libc::raise(libc::SIGUSR2) };
        assert_eq!(SEEN.load(Ordering::SeqCst), libc::SIGUSR2);
        // signal(3) means SA_RESTART.
        assert_eq!(counts().restarting, before.restarting + 1);
        assert_eq!(counts().interrupting, before.interrupting);
    }
}
