//! System calls that the operations make themselves, by number: they are neither our
//! hooks nor libc's wrappers, and leave `errno` alone.

use crate::process::{Optional, Strings};
use engine::error::Errno;
use engine::sys::event::engine_threads;
use engine::sys::raw::syscall6;
use libc::{c_char, c_int, c_long};
use std::os::fd::RawFd;
use std::ptr;

/// An int as the kernel takes it in a register.
pub(crate) const fn arg(value: c_int) -> usize {
    value as isize as usize
}

/// close(2).
pub(crate) fn close(fd: RawFd) -> Result<usize, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall6(libc::SYS_close, [arg(fd), 0, 0, 0, 0, 0]) }
}

/// dup3(2). Without flags and with two different numbers it is dup2(2).
pub(crate) fn dup3(old: RawFd, new: RawFd, flags: c_int) -> Result<usize, Errno> {
    // SAFETY: no memory is involved.
    unsafe { syscall6(libc::SYS_dup3, [arg(old), arg(new), arg(flags), 0, 0, 0]) }
}

/// fcntl(2) with a command whose argument is an integer.
pub(crate) fn fcntl_int(fd: RawFd, command: c_int, value: usize) -> Result<usize, Errno> {
    // SAFETY: the commands used here take an integer; no memory is involved.
    unsafe { syscall6(libc::SYS_fcntl, [arg(fd), arg(command), value, 0, 0, 0]) }
}

/// close_range(2).
pub(crate) fn close_range(first: u32, last: u32, flags: c_int) -> Result<usize, Errno> {
    let args = [first as usize, last as usize, arg(flags), 0, 0, 0];
    // SAFETY: no memory is involved.
    unsafe { syscall6(libc::SYS_close_range, args) }
}

/// execveat(2).
///
/// # Safety
/// As the call's: strings that end in a null pointer.
pub(crate) unsafe fn execveat(
    directory: RawFd,
    path: *const c_char,
    words: Strings,
    environment: Strings,
    flags: c_int,
) -> Result<usize, Errno> {
    let strings = [path as usize, words as usize, environment as usize];
    let [path, words, environment] = strings;
    let args = [arg(directory), path, words, environment, arg(flags), 0];
    // SAFETY: passed on.
    unsafe { syscall6(libc::SYS_execveat, args) }
}

/// getpid(2), never from a cache.
pub(crate) fn getpid() -> i32 {
    // SAFETY: no memory is involved.
    let pid = unsafe { syscall6(libc::SYS_getpid, [0; 6]) };
    pid.ok().and_then(|p| i32::try_from(p).ok()).unwrap_or(-1)
}

/// Whether a time can be written there. If so the kernel has just written one.
///
/// # Safety
/// `at` is in memory that the kernel may write for the caller, if it can be written.
pub(crate) unsafe fn takes_time(at: usize) -> bool {
    let clock = arg(libc::CLOCK_MONOTONIC);
    // SAFETY: passed on; a place that cannot be written is EFAULT.
    unsafe { syscall6(libc::SYS_clock_gettime, [clock, at, 0, 0, 0, 0]) }.is_ok()
}

/// A call with the application's own arguments.
///
/// # Safety
/// The arguments are those of a libc call of the same meaning, so every pointer is as
/// good as the application made it.
pub(crate) unsafe fn forward(nr: c_long, args: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: passed on.
    unsafe { syscall6(nr, args) }
}

static RECVFROM: Optional = Optional::new(c"recvfrom");
static RECVMSG: Optional = Optional::new(c"recvmsg");

type Recvfrom = unsafe extern "C" fn(
    c_int,
    *mut libc::c_void,
    usize,
    c_int,
    *mut libc::sockaddr,
    *mut libc::socklen_t,
) -> libc::ssize_t;
type Recvmsg = unsafe extern "C" fn(c_int, *mut libc::msghdr, c_int) -> libc::ssize_t;

/// The result of a function of libc.
fn result(count: libc::ssize_t) -> Result<usize, Errno> {
    usize::try_from(count).map_err(|_| super::errno())
}

/// recvfrom(2); one that may wait is libc's, for that is a cancellation point.
///
/// # Safety
/// As [`forward`].
pub(crate) unsafe fn recvfrom(args: [usize; 6]) -> Result<usize, Errno> {
    let [fd, buffer, len, flags, name, name_len] = args;
    if flags as c_int & libc::MSG_DONTWAIT != 0 {
        // SAFETY: passed on.
        return unsafe { forward(libc::SYS_recvfrom, args) };
    }
    let original = RECVFROM.get();
    if original.is_null() {
        // SAFETY: passed on.
        return unsafe { forward(libc::SYS_recvfrom, args) };
    }
    // SAFETY: libc's function of this name has this type.
    let call = unsafe { std::mem::transmute::<*mut libc::c_void, Recvfrom>(original) };
    let buffer = ptr::with_exposed_provenance_mut(buffer);
    let name = ptr::with_exposed_provenance_mut(name);
    let name_len = ptr::with_exposed_provenance_mut(name_len);
    // SAFETY: passed on.
    result(unsafe { call(fd as c_int, buffer, len, flags as c_int, name, name_len) })
}

/// recvmsg(2), likewise.
///
/// # Safety
/// As [`forward`].
pub(crate) unsafe fn recvmsg(fd: RawFd, header: usize, flags: c_int) -> Result<usize, Errno> {
    let original = RECVMSG.get();
    if flags & libc::MSG_DONTWAIT != 0 || original.is_null() {
        let args = [arg(fd), header, arg(flags), 0, 0, 0];
        // SAFETY: passed on.
        return unsafe { forward(libc::SYS_recvmsg, args) };
    }
    // SAFETY: libc's function of this name has this type.
    let call = unsafe { std::mem::transmute::<*mut libc::c_void, Recvmsg>(original) };
    // SAFETY: passed on.
    result(unsafe { call(fd, ptr::with_exposed_provenance_mut(header), flags) })
}

/// Looks libc's functions up, so that no handler has to.
pub(crate) fn resolve() {
    let _ = (RECVFROM.get(), RECVMSG.get());
}

/// RLIMIT_NOFILE: poll refuses a larger set.
pub(crate) fn most_descriptors() -> usize {
    let mut limit = [0_u64; 2];
    let at = (&raw mut limit).expose_provenance();
    let args = [0, libc::RLIMIT_NOFILE as usize, 0, at, 0, 0];
    // SAFETY: the kernel writes two words into an array of two.
    let asked = unsafe { syscall6(libc::SYS_prlimit64, args) };
    asked.map_or(usize::MAX, |_| limit[0] as usize)
}

fn stat(fd: RawFd) -> Result<libc::stat, Errno> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let args = [arg(fd), stat.as_mut_ptr().expose_provenance(), 0, 0, 0, 0];
    // SAFETY: the kernel's struct stat of this architecture is libc's.
    unsafe { syscall6(libc::SYS_fstat, args) }?;
    // SAFETY: zeroed, then filled in; every pattern is valid.
    Ok(unsafe { stat.assume_init() })
}

/// Type of the file behind a descriptor (S_IFMT bits of fstat(2)).
pub(crate) fn file_type(fd: RawFd) -> Result<u32, Errno> {
    Ok(stat(fd)?.st_mode & libc::S_IFMT)
}

/// Device and inode of the file behind a descriptor.
pub(crate) fn identity(fd: RawFd) -> Option<(u64, u64)> {
    stat(fd).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

/// A copy with a number of at least `lowest`, close-on-exec.
pub(crate) fn duplicate_from(fd: RawFd, lowest: usize) -> Option<RawFd> {
    let made = fcntl_int(fd, libc::F_DUPFD_CLOEXEC, lowest).ok()?;
    RawFd::try_from(made).ok()
}

/// True if the process has one thread besides the engine's, by the links of its task directory
/// (proc(5): one for each, and two of the directory itself).
pub(crate) fn single_thread() -> bool {
    let path = c"/proc/self/task";
    let mut stat = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let address = stat.as_mut_ptr().expose_provenance();
    let path = path.as_ptr().expose_provenance();
    let args = [arg(libc::AT_FDCWD), path, address, 0, 0, 0];
    // SAFETY: a C string, and the kernel's struct stat of this architecture.
    if unsafe { syscall6(libc::SYS_newfstatat, args) }.is_err() {
        return false;
    }
    // SAFETY: zeroed, then filled in; every pattern is valid.
    let stat = unsafe { stat.assume_init() };
    stat.st_nlink <= 2 + 1 + u64::from(engine_threads())
}

/// write(2) for the program, signals and all.
pub(crate) fn write_signalling(fd: RawFd, data: &[u8]) -> Result<usize, Errno> {
    let at = data.as_ptr().expose_provenance();
    // SAFETY: the slice is readable for its length.
    unsafe { syscall6(libc::SYS_write, [arg(fd), at, data.len(), 0, 0, 0]) }
}

/// write(2) of a message of the library's own. Where nobody reads any more (SIGPIPE) or the
/// file may not grow (SIGXFSZ) the message is lost: the program did not write, so it must
/// not die of it. Both signals are the writing thread's.
pub(crate) fn write(fd: RawFd, text: &[u8]) -> Result<usize, Errno> {
    const OWN: u64 = 1 << (libc::SIGPIPE - 1) | 1 << (libc::SIGXFSZ - 1);
    let mut before = 0u64;
    let mut pending = 0u64;
    set_mask(libc::SIG_BLOCK, OWN, Some(&mut before))?;
    let args = [(&raw mut pending).expose_provenance(), 8, 0, 0, 0, 0];
    // SAFETY: the kernel writes 8 bytes into a variable of that size.
    let asked = unsafe { syscall6(libc::SYS_rt_sigpending, args) };
    let address = text.as_ptr().expose_provenance();
    let args = [arg(fd), address, text.len(), 0, 0, 0];
    // SAFETY: the slice is readable for its length.
    let written = unsafe { syscall6(libc::SYS_write, args) };
    let raised = OWN & !pending;
    if asked.is_ok() && matches!(written, Err(Errno(libc::EPIPE | libc::EFBIG))) && raised != 0 {
        let now = [0u64; 2];
        let set = (&raw const raised).expose_provenance();
        let args = [set, 0, now.as_ptr().expose_provenance(), 8, 0, 0];
        // SAFETY: a set of 8 bytes, no siginfo, and a timespec of two words.
        let _ = unsafe { syscall6(libc::SYS_rt_sigtimedwait, args) };
    }
    set_mask(libc::SIG_SETMASK, before, None)?;
    written
}

/// rt_sigprocmask(2) for the calling thread.
fn set_mask(how: c_int, set: u64, old: Option<&mut u64>) -> Result<usize, Errno> {
    let old = old.map_or(0, |old| ptr::from_mut(old).expose_provenance());
    let set = (&raw const set).expose_provenance();
    // SAFETY: sets of 8 bytes that live until the call returns; a null one is not written.
    unsafe { syscall6(libc::SYS_rt_sigprocmask, [arg(how), set, old, 8, 0, 0]) }
}

/// Opens a log file for appending, close-on-exec.
pub(crate) fn open_log(path: &std::ffi::CStr) -> Result<RawFd, Errno> {
    let flags = libc::O_WRONLY
        | libc::O_CREAT
        | libc::O_TRUNC
        | libc::O_APPEND
        | libc::O_CLOEXEC
        | libc::O_NOCTTY;
    let address = path.as_ptr().expose_provenance();
    let args = [arg(libc::AT_FDCWD), address, arg(flags), 0o644, 0, 0];
    // SAFETY: a C string, read only during the call.
    let fd = unsafe { syscall6(libc::SYS_openat, args) }?;
    RawFd::try_from(fd).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted() {
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| wait.lock().unwrap().recv());
            }
            assert!(!single_thread());
            drop(done);
        });
    }

    #[test]
    fn errors_come_back_and_errno_stays() {
        super::super::set_errno(Errno(libc::EXDEV));
        assert_eq!(close(-1), Err(Errno::BADF));
        assert_eq!(dup3(0, 0, 0), Err(Errno::INVAL));
        assert_eq!(fcntl_int(-1, libc::F_GETFD, 0), Err(Errno::BADF));
        assert_eq!(file_type(-1), Err(Errno::BADF));
        assert_eq!(getpid(), std::process::id() as i32);
        assert_eq!(
            std::io::Error::last_os_error().raw_os_error(),
            Some(libc::EXDEV)
        );
    }

    #[test]
    fn a_message_that_nobody_reads_kills_nobody() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        // The test harness ignores the signal; most programs do not.
        // SAFETY: the default action; nothing else in this process uses the signal.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        assert_eq!(
            write(std::os::fd::AsRawFd::as_raw_fd(&writer), b"x"),
            Err(Errno(libc::EPIPE))
        );
        assert_eq!(
            write(std::os::fd::AsRawFd::as_raw_fd(&writer), b"x"),
            Err(Errno(libc::EPIPE))
        );
    }
}
