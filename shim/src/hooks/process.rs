//! fork, daemon and the exec family.

use super::hooks;
use crate::abi::kernel;
use crate::process::{self, Strings};
use crate::verdict::Verdict;
use libc::{c_char, c_int};

redhook::hook! {
    unsafe fn fork() -> c_int => shim_fork {
        // SAFETY: no arguments.
        let pid = unsafe { redhook::real!(fork)() };
        if pid == 0 {
            process::after_fork();
        }
        pid
    }
}

redhook::hook! {
    unsafe fn daemon(nochdir: c_int, noclose: c_int) -> c_int => shim_daemon {
        process::before_daemon();
        // SAFETY: no memory is involved.
        unsafe { redhook::real!(daemon)(nochdir, noclose) }
    }
}

/// Nothing is decided: the sockets go back and libc makes the call.
fn leave() -> Verdict {
    process::before_exec();
    Verdict::PassThrough
}

hooks! {
    fn execve(path: *const c_char, words: Strings, environment: Strings) -> c_int = shim_execve,
    pass if false => leave();

    fn execv(path: *const c_char, words: Strings) -> c_int = shim_execv,
    pass if false => leave();

    fn execvp(file: *const c_char, words: Strings) -> c_int = shim_execvp,
    pass if false => leave();

    fn execvpe(file: *const c_char, words: Strings, environment: Strings)
        -> c_int = shim_execvpe,
    pass if false => leave();

    fn fexecve(fd: c_int, words: Strings, environment: Strings) -> c_int = shim_fexecve,
    pass if false => leave();
}

// The system call itself is all that glibc's execveat (2.34) makes.
redhook::hook! {
    unsafe fn execveat(directory: c_int, path: *const c_char, words: Strings,
        environment: Strings, flags: c_int) -> c_int => shim_execveat {
        process::before_exec();
        // SAFETY: execveat(2)'s contract with the caller.
        let result = unsafe { kernel::execveat(directory, path, words, environment, flags) };
        Verdict::from(result).or_else(|| -1)
    }
}

/// For the variadic ones: gives the sockets back, and says where libc's function is.
extern "C" fn leave_by(which: usize) -> *mut libc::c_void {
    process::before_exec();
    process::next_symbol([c"execl", c"execle", c"execlp"][which])
}

/// A function with any number of arguments cannot be written in Rust: keep the argument
/// registers, ask `leave_by`, jump. The arguments on the stack stay where they are.
macro_rules! variadic {
    ($($name:ident = $index:literal;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[cfg(target_arch = "x86_64")]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                "mov edi, {index}",
                "call {leave}",
                "mov r11, rax",
                "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                "jmp r11",
                index = const $index,
                leave = sym leave_by,
            )
        }

        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[cfg(target_arch = "aarch64")]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                "stp x0, x1, [sp, #-80]!",
                "stp x2, x3, [sp, #16]", "stp x4, x5, [sp, #32]",
                "stp x6, x7, [sp, #48]", "str x30, [sp, #64]",
                "mov x0, {index}",
                "bl {leave}",
                "mov x16, x0",
                "ldp x2, x3, [sp, #16]", "ldp x4, x5, [sp, #32]",
                "ldp x6, x7, [sp, #48]", "ldr x30, [sp, #64]",
                "ldp x0, x1, [sp], #80",
                "br x16",
                index = const $index,
                leave = sym leave_by,
            )
        }
    )*};
}

variadic! {
    execl = 0;
    execle = 1;
    execlp = 2;
}
