//! Handlers: a spinning call has to know that one ran (see `engine::sys::signal`).
//!
//! Until the engine has started everything goes straight to libc.

use engine::sys::{defer, signal as handlers};
use libc::{c_int, sighandler_t};
use std::sync::atomic::{AtomicU64, Ordering};

redhook::hook! {
    unsafe fn sigaction(number: c_int, new: *const libc::sigaction, old: *mut libc::sigaction)
        -> c_int => shim_sigaction
    {
        let before = handlers::program_handler(number);
        // SAFETY: sigaction(2)'s contract: null or a readable structure.
        let wanted = unsafe { new.as_ref() };
        let substitute = wanted.and_then(|action| {
            let (sa_sigaction, sa_flags) =
                handlers::substitute(number, action.sa_sigaction, action.sa_flags)?;
            Some(libc::sigaction { sa_sigaction, sa_flags, ..*action })
        });
        let new = substitute.as_ref().map_or(new, std::ptr::from_ref);
        // SAFETY: the caller's arguments, or a copy that outlives the call.
        let result = unsafe { redhook::real!(sigaction)(number, new, old) };
        if result != 0 {
            handlers::restore(number, before);
        // SAFETY: null or the structure that libc has just filled.
        } else if let Some(action) = unsafe { old.as_mut() } {
            (action.sa_sigaction, action.sa_flags) =
                handlers::reveal(action.sa_sigaction, action.sa_flags, before);
        }
        result
    }
}

/// Signals that siginterrupt(3) has said end calls, as signal(3) has to know, by their bits.
static INTERRUPTING: AtomicU64 = AtomicU64::new(0);

/// Flags of sysv_signal(3) as glibc has them, with the old Unix's SA_INTERRUPT.
const ONCE: c_int = libc::SA_RESETHAND | libc::SA_NODEFER | 0x2000_0000;

const fn bit(number: c_int) -> u64 {
    1 << (number - 1)
}

/// What signal(3) and its kin do for a handler that is wrapped, so that it never stands bare: the
/// action that was before. Source: glibc sysdeps/posix/signal.c, sysv_signal.c, sigset.c.
fn set_wrapped(
    number: c_int,
    handler: sighandler_t,
    flags: c_int,
    blocks_itself: bool,
) -> sighandler_t {
    let before = handlers::program_handler(number);
    let Some((sa_sigaction, sa_flags)) = handlers::substitute(number, handler, flags) else {
        return libc::SIG_ERR;
    };
    // SAFETY: all-zero is an action.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    (new.sa_sigaction, new.sa_flags) = (sa_sigaction, sa_flags);
    if blocks_itself {
        // SAFETY: a set of ours, and a number that is one.
        unsafe { libc::sigaddset(&raw mut new.sa_mask, number) };
    }
    // SAFETY: all-zero is an action.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both live until the call returns.
    if unsafe { redhook::real!(sigaction)(number, &raw const new, &raw mut old) } != 0 {
        handlers::restore(number, before);
        return libc::SIG_ERR;
    }
    handlers::reveal(old.sa_sigaction, old.sa_flags, before).0
}

fn is_wrapped(number: c_int, handler: sighandler_t) -> bool {
    handlers::wraps(number) && !matches!(handler, libc::SIG_DFL | libc::SIG_IGN | libc::SIG_ERR)
}

macro_rules! setters {
    ($(fn $name:ident = $internal:ident once $once:literal;)*) => {
        $(
        redhook::hook! {
            unsafe fn $name(number: c_int, handler: sighandler_t) -> sighandler_t => $internal {
                if is_wrapped(number, handler) {
                    let restarts = INTERRUPTING.load(Ordering::Relaxed) & bit(number) == 0;
                    let flags = match ($once, restarts) {
                        (true, _) => ONCE,
                        (false, true) => libc::SA_RESTART,
                        (false, false) => 0,
                    };
                    return set_wrapped(number, handler, flags, !$once);
                }
                let before = handlers::program_handler(number);
                // SAFETY: no handler, or a signal that is not wrapped.
                let old = unsafe { redhook::real!($name)(number, handler) };
                // The engine may have started meanwhile.
                handlers::adopt(number);
                handlers::reveal(old, 0, before).0
            }
        }
        )*

        fn resolve_setters() {
            $(let _ = redhook::real!($name);)*
        }
    };
}

setters! {
    fn signal = shim_signal once false;
    fn bsd_signal = shim_bsd_signal once false;
    fn ssignal = shim_ssignal once false;
    fn sysv_signal = shim_sysv_signal once true;
    fn __sysv_signal = shim_alias_sysv_signal once true;
}

redhook::hook! {
    unsafe fn sigset(number: c_int, disposition: sighandler_t) -> sighandler_t => shim_sigset {
        if disposition != SIG_HOLD && is_wrapped(number, disposition) {
            let old = set_wrapped(number, disposition, 0, false);
            if old == libc::SIG_ERR {
                return old;
            }
            // SAFETY: all-zero is a set.
            let (mut this, mut mask): (libc::sigset_t, libc::sigset_t) =
                unsafe { std::mem::zeroed() };
            // SAFETY: a set of ours, and a number that is one.
            unsafe { libc::sigaddset(&raw mut this, number) };
            // SAFETY: both live until the call returns.
            unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const this, &raw mut mask) };
            // SAFETY: the set that has just been filled.
            let held = unsafe { libc::sigismember(&raw const mask, number) } == 1;
            return if held { SIG_HOLD } else { old };
        }
        let before = handlers::program_handler(number);
        // It changes the mask itself, so none is kept around it.
        // SAFETY: no handler, or a signal that is not wrapped.
        let old = unsafe { redhook::real!(sigset)(number, disposition) };
        handlers::adopt(number);
        handlers::reveal(old, 0, before).0
    }
}

/// sigset(3)'s disposition that only blocks the signal.
const SIG_HOLD: sighandler_t = 2;

redhook::hook! {
    unsafe fn siginterrupt(number: c_int, flag: c_int) -> c_int => shim_siginterrupt {
        // SAFETY: integers only.
        let result = unsafe { redhook::real!(siginterrupt)(number, flag) };
        if result == 0 && (1..=64).contains(&number) {
            if flag == 0 {
                INTERRUPTING.fetch_and(!bit(number), Ordering::Relaxed);
            } else {
                INTERRUPTING.fetch_or(bit(number), Ordering::Relaxed);
            }
        }
        handlers::adopt(number);
        result
    }
}

redhook::hook! {
    unsafe fn pthread_setcanceltype(kind: c_int, old: *mut c_int)
        -> c_int => shim_pthread_setcanceltype
    {
        let original = redhook::real!(pthread_setcanceltype);
        // SAFETY: the caller's own arguments.
        let result = unsafe { original(kind, old) };
        if result == 0 {
            defer::cancel_type(kind, original as usize);
        }
        result
    }
}

/// Looks the originals up, so that no handler has to.
pub(super) fn resolve() {
    let _ = redhook::real!(sigaction);
    resolve_setters();
    let _ = redhook::real!(sigset);
    let _ = redhook::real!(pthread_setcanceltype);
    let _ = redhook::real!(siginterrupt);
}
