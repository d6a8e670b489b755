//! The C functions that a program calls instead of libc's. Each: is the number ours? No ⇒
//! libc. Yes ⇒ arguments to Rust types, the operation, its verdict to the C result.
//!
//! Must stay async-signal-safe for what is not ours: no lock, no allocation, no log line.
//! The exported names are listed in `exports.txt`.
//!
//! Of glibc's double-underscore aliases only those are here that programs import: the
//! fortified twins, and `__poll`, `__read`, `__write`, `__close`, which old libraries use.
//! Functions that an older libc lacks (close_range, closefrom, epoll_pwait2, execveat) work
//! without it: the system call is made.

mod fd;
mod number;
mod process;
mod ready;
mod signal;
mod socket;
mod transfer;

/// Defines hooks through redhook: `name(arguments) -> result = internal name, pass if
/// (condition) => operation`. The operation is a [`crate::verdict::Verdict`]; `errno` is kept
/// meanwhile and handlers are put off, `keeping errno` means that the operation does both itself.
macro_rules! hooks {
    (@keep $kept:ident $scope:ident) => {
        let $scope = engine::sys::defer::enter();
        let $kept = Some($crate::abi::KeptErrno::new());
    };
    (@keep $kept:ident $scope:ident errno) => {
        let $scope = ();
        let $kept = None;
    };
    ($(
        fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty = $internal:ident,
        pass if $foreign:expr $(, keeping $itself:ident)? => $verdict:expr;
    )*) => {
        $(
        redhook::hook! {
            unsafe fn $name($($arg: $type),*) -> $result => $internal {
                // Of its own, lest a call that is passed on pay for its frame.
                #[inline(never)]
                unsafe fn ours($($arg: $type),*) -> $result {
                    $crate::hooks::hooks!(@keep kept scope $($itself)?);
                    let verdict: $crate::verdict::Verdict = $verdict;
                    let _ = { scope };
                    // SAFETY: the caller's own arguments.
                    verdict.finish(kept, || unsafe { redhook::real!($name)($($arg),*) })
                }
                if $foreign {
                    // SAFETY: the caller's own arguments.
                    return unsafe { redhook::real!($name)($($arg),*) };
                }
                // SAFETY: the caller's own arguments.
                unsafe { ours($($arg),*) }
            }
        }
    )*

        /// Looks these originals up, so that no signal handler or vfork child has to.
        pub(super) fn resolve() {
            $(let _ = redhook::real!($name);)*
        }
    };
}
pub(crate) use hooks;

/// Run by the dynamic linker when the library is loaded, before main.
extern "C" fn load() {
    fd::resolve();
    transfer::resolve();
    ready::resolve();
    socket::resolve();
    process::resolve();
    signal::resolve();
    crate::abi::kernel::resolve();
    number::resolve();
    crate::startup::load();
}

/// Run at exit, after the program's own handlers.
extern "C" fn unload() {
    crate::startup::unload();
}

// The unit tests' own process is not preloaded.
#[used]
// SAFETY: the section holds pointers to functions of this type.
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static LOAD: extern "C" fn() = load;

#[used]
// SAFETY: the section holds pointers to functions of this type.
#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
static UNLOAD: extern "C" fn() = unload;
