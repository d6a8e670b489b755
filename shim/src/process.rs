//! fork, vfork, exec, daemon, descriptors passed to others: what each side keeps.
//!
//! - **fork** (also inside daemon(3) and forkpty(3)): handlers registered with
//!   pthread_atfork when the library is loaded. The child's engine is told; its sockets
//!   are given back at first use.
//! - **daemon**: the parent goes at once, and with it the engine that the sockets are
//!   on. They go back to the kernel before that, so that nothing falls in between.
//! - **vfork, posix_spawn, clone(CLONE_VM)**: the child shares our memory but has its own
//!   descriptors. It is known by its pid, which is not the remembered one. There, what
//!   would change our tables is left to the kernel alone. vfork itself needs no hook:
//!   nothing has to be kept for it, and a C function cannot stand in for it anyway (it
//!   would return twice on one frame).
//! - **exec**: sockets that stay open across it go back to the kernel first, since no
//!   engine runs behind them afterwards. libc's internal calls do not pass the hooks,
//!   so every public entry has its own. A vfork child that execs cannot do that (the
//!   sockets are its parent's); posix_spawn is the same case.
//! - **SCM_RIGHTS**: a socket that is sent to another process goes back first.
//!
//! Sources: fork(2), vfork(2), execve(2), pthread_atfork(3), unix(7).

use crate::fdtable::Held;
use crate::{FDS, abi, startup};
use abi::kernel;
use engine::error::Reason;
use engine::ready::Object;
use engine::sys::defer::{self, Scope};
use engine::sys::heap;
use libc::{c_char, c_int, msghdr};
use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// The process whose memory this is; 0 before the library is initialised.
static PID: AtomicI32 = AtomicI32::new(0);

/// Remembers the process and follows its forks.
pub(crate) fn initialise() {
    PID.store(kernel::getpid(), Ordering::Relaxed);
    // Failure (no memory) leaves fork to `after_fork`.
    // SAFETY: functions of the right type that live as long as the library.
    let _ = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
}

/// False in a vfork child, which runs in its parent's memory, and before initialisation.
pub(crate) fn is_own() -> bool {
    kernel::getpid() == PID.load(Ordering::Relaxed)
}

extern "C" fn prepare() {
    if is_own() {
        // Until the fork is over: a handler would wait for what is held here.
        defer::enter().keep();
        startup::hold();
        if let Some(stack) = startup::running() {
            stack.fork_prepare();
        }
        heap::hold();
    }
}

extern "C" fn parent() {
    if is_own() {
        heap::release();
        if let Some(stack) = startup::running() {
            stack.fork_parent();
        }
        startup::release();
        drop(Scope::kept());
    }
}

extern "C" fn child() {
    PID.store(kernel::getpid(), Ordering::Relaxed);
    heap::release();
    if let Some(stack) = startup::running() {
        stack.fork_child();
    }
    startup::release();
    // Not where `prepare` did nothing, or was not registered.
    if defer::inside() {
        drop(Scope::kept());
    }
}

/// After fork in the child: what the handlers did already is not done again.
pub(crate) fn after_fork() {
    if PID.load(Ordering::Relaxed) != 0 && !is_own() {
        child();
    }
}

/// Before exec: sockets without FD_CLOEXEC go back to the kernel.
pub(crate) fn before_exec() {
    if FDS.is_empty() || !is_own() {
        return;
    }
    let _scope = defer::enter();
    // Sets after what is in them, which may still get something from the engine.
    for sets in [false, true] {
        FDS.for_each(|fd, held| {
            let flags = kernel::fcntl_int(fd, libc::F_GETFD, 0).unwrap_or(0);
            let stays = flags & libc::FD_CLOEXEC as usize == 0;
            if stays && matches!(held.object, Object::Epoll(_)) == sets {
                hand_over(fd, held);
            }
        });
    }
}

/// Before daemon: the process that serves the sockets is about to end.
pub(crate) fn before_daemon() {
    if FDS.is_empty() || !is_own() {
        return;
    }
    let _scope = defer::enter();
    FDS.for_each(|_, held| {
        if let Object::Udp(socket) = &held.object {
            socket.hand_back(Reason::Forked);
        }
    });
}

/// Gives an object to whoever else will use its descriptor.
pub(crate) fn hand_over(fd: c_int, held: &Held) {
    let _scope = defer::enter();
    match &held.object {
        Object::Udp(socket) => socket.hand_back(Reason::HandedOver),
        Object::Epoll(epoll) => epoll.hand_over(fd),
    }
}

/// Before sendmsg: sockets among the descriptors that it passes on go back to the kernel.
///
/// # Safety
/// `header` is null or valid with its control buffer, as sendmsg(2) asks.
pub(crate) unsafe fn before_passing(header: *const msghdr) {
    let pass = |fd: c_int| {
        if !FDS.is_foreign(fd) && is_own() {
            FDS.get(fd).iter().for_each(|held| hand_over(fd, held));
        }
    };
    // SAFETY: passed on.
    unsafe { abi::control::for_each_right(header, pass) };
}

/// Puts a variable into the environment that children inherit.
pub(crate) fn set_environment(name: &CStr, value: &CStr) {
    // SAFETY: C strings. The constructor calls this before main, where a program has no
    // threads yet that could read the environment; libc copies both.
    let _ = unsafe { libc::setenv(name.as_ptr(), value.as_ptr(), 1) };
}

/// A variable of the environment, without allocating.
pub(crate) fn environment(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: a C string; the constructor is alone, nobody changes the environment.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a C string of the environment, which the caller only looks at at once.
    Some(unsafe { CStr::from_ptr(value) })
}

/// The next definition of a function after ours; null if there is none (an older libc).
pub(crate) fn next_symbol(name: &CStr) -> *mut libc::c_void {
    // SAFETY: a C string; RTLD_NEXT looks behind this library.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// A function that an older libc lacks, looked up once.
pub(crate) struct Optional {
    name: &'static CStr,
    found: AtomicPtr<libc::c_void>,
}

impl Optional {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(std::ptr::dangling_mut()),
        }
    }

    /// Its address, or null.
    pub(crate) fn get(&self) -> *mut libc::c_void {
        let found = self.found.load(Ordering::Relaxed);
        if found != std::ptr::dangling_mut() {
            return found;
        }
        let found = next_symbol(self.name);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// The command line as the banner shows it.
pub(crate) fn command_line() -> String {
    let words: Vec<_> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}

/// exec's argv and envp.
pub(crate) type Strings = *const *const c_char;
