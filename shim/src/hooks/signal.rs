//! Handlers: a spinning call has to know that one ran (see `engine::sys::signal`).
//!
//! Until the engine has started everything goes straight to libc.

use engine::sys::{defer, signal as handlers};
use libc::{c_int, sighandler_t};

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

/// signal(3) and its kin set a handler with flags of their own: the kernel then tells which.
macro_rules! setters {
    ($(fn $name:ident = $internal:ident;)*) => {
        $(
        redhook::hook! {
            unsafe fn $name(number: c_int, handler: sighandler_t) -> sighandler_t => $internal {
                let before = handlers::program_handler(number);
                // SAFETY: a handler of the program.
                let old = unsafe { redhook::real!($name)(number, handler) };
                if old != libc::SIG_ERR {
                    handlers::adopt(number);
                }
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
    fn signal = shim_signal;
    fn bsd_signal = shim_bsd_signal;
    fn ssignal = shim_ssignal;
    fn sysv_signal = shim_sysv_signal;
    fn __sysv_signal = shim_alias_sysv_signal;
}

redhook::hook! {
    unsafe fn sigset(number: c_int, disposition: sighandler_t) -> sighandler_t => shim_sigset {
        let before = handlers::program_handler(number);
        let sets = disposition != SIG_HOLD;
        // It changes the mask itself, so none is kept around it.
        // SAFETY: a handler of the program.
        let old = unsafe { redhook::real!(sigset)(number, disposition) };
        if sets && old != libc::SIG_ERR {
            handlers::adopt(number);
        }
        handlers::reveal(old, 0, before).0
    }
}

/// sigset(3)'s disposition that only blocks the signal.
const SIG_HOLD: sighandler_t = 2;

redhook::hook! {
    unsafe fn siginterrupt(number: c_int, flag: c_int) -> c_int => shim_siginterrupt {
        // SAFETY: integers only.
        let result = unsafe { redhook::real!(siginterrupt)(number, flag) };
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
