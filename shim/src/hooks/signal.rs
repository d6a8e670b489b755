//! Handlers: a spinning call has to know that one ran (see `engine::sys::signal`).
//!
//! Until the engine has started everything goes straight to libc.

use engine::sys::signal as handlers;
use libc::{c_int, sighandler_t};

redhook::hook! {
    unsafe fn sigaction(number: c_int, new: *const libc::sigaction, old: *mut libc::sigaction)
        -> c_int => shim_sigaction
    {
        let before = handlers::program_handler(number);
        // SAFETY: sigaction(2)'s contract: null or a readable structure.
        let wanted = unsafe { new.as_ref() };
        let substitute = wanted.and_then(|action| {
            let handler = handlers::substitute(number, action.sa_sigaction, action.sa_flags)?;
            Some(libc::sigaction { sa_sigaction: handler, ..*action })
        });
        let new = substitute.as_ref().map_or(new, std::ptr::from_ref);
        // SAFETY: the caller's arguments, or a copy that outlives the call.
        let result = unsafe { redhook::real!(sigaction)(number, new, old) };
        if result == 0 {
            // SAFETY: null or the structure that libc has just filled.
            if let Some(action) = unsafe { old.as_mut() } {
                action.sa_sigaction = handlers::reveal(action.sa_sigaction, before);
            }
        }
        result
    }
}

redhook::hook! {
    unsafe fn signal(number: c_int, handler: sighandler_t) -> sighandler_t => shim_signal {
        let before = handlers::program_handler(number);
        let wanted = handlers::substitute(number, handler, libc::SA_RESTART).unwrap_or(handler);
        // SAFETY: a handler of the program, or the one that calls it.
        let old = unsafe { redhook::real!(signal)(number, wanted) };
        if wanted != handler {
            handlers::refresh_flags(number);
        }
        handlers::reveal(old, before)
    }
}

redhook::hook! {
    unsafe fn siginterrupt(number: c_int, flag: c_int) -> c_int => shim_siginterrupt {
        // SAFETY: integers only.
        let result = unsafe { redhook::real!(siginterrupt)(number, flag) };
        handlers::refresh_flags(number);
        result
    }
}

/// Looks the originals up, so that no handler has to.
pub(super) fn resolve() {
    let _ = redhook::real!(sigaction);
    let _ = redhook::real!(signal);
    let _ = redhook::real!(siginterrupt);
}
