//! Sleeping and waking: ppoll(2), eventfd(2), signal masks, membarrier(2).

use super::defer;
use super::handle::Handle;
use super::raw::syscall6;
use crate::error::Errno;
use std::mem::size_of;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// ppoll on a set, `timeout` in nanoseconds (None: for ever), `mask` in the kernel's
/// 64-bit form.
///
/// # Errors
/// EINTR, EINVAL, ENOMEM.
pub fn ppoll(
    fds: &mut [libc::pollfd],
    timeout: Option<u64>,
    mask: Option<u64>,
) -> Result<usize, Errno> {
    let ts = timeout.map(timespec);
    let ts_ptr = ts.as_ref().map_or(0, |t| std::ptr::from_ref(t) as usize);
    let mask_ptr = mask.as_ref().map_or(0, |m| std::ptr::from_ref(m) as usize);
    // SAFETY: all three live until the call returns; the lengths match.
    unsafe {
        syscall6(
            libc::SYS_ppoll,
            [
                fds.as_mut_ptr() as usize,
                fds.len(),
                ts_ptr,
                mask_ptr,
                size_of::<u64>(),
                0,
            ],
        )
    }
}

type Testcancel = unsafe extern "C" fn();
type LibcPpoll = unsafe extern "C" fn(
    *mut libc::pollfd,
    libc::nfds_t,
    *const libc::timespec,
    *const libc::sigset_t,
) -> libc::c_int;

static TESTCANCEL: AtomicUsize = AtomicUsize::new(0);
static LIBC_PPOLL: AtomicUsize = AtomicUsize::new(0);

/// Makes waiting calls cancellation points (pthreads(7)): the addresses of libc's own
/// `pthread_testcancel` and `ppoll`, past our hooks; 0: there is none. Once, before the
/// first wait.
pub fn set_cancellation(testcancel: usize, ppoll: usize) {
    TESTCANCEL.store(testcancel, Ordering::Release);
    LIBC_PPOLL.store(ppoll, Ordering::Release);
}

/// A cancellation point of a spinning call. No lock may be held: frames are unwound
/// without their destructors.
pub fn test_cancel() {
    let address = TESTCANCEL.load(Ordering::Acquire);
    if address != 0 {
        // SAFETY: the address is that of pthread_testcancel.
        let call: Testcancel = unsafe { std::mem::transmute(address) };
        // SAFETY: takes no arguments.
        unsafe { call() };
    }
}

/// [`ppoll`] as a cancellation point, for the sleep of a call of the program.
///
/// # Errors
/// EINTR, EINVAL, ENOMEM.
pub fn ppoll_cancellable(
    fds: &mut [libc::pollfd],
    timeout: Option<u64>,
    mask: u64,
) -> Result<usize, Errno> {
    let address = LIBC_PPOLL.load(Ordering::Acquire);
    if address == 0 {
        return ppoll(fds, timeout, Some(mask));
    }
    let ts = timeout.map(timespec);
    // SAFETY: all-zero is a valid, empty set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel's 64 bits are the first of glibc's and musl's larger set.
    unsafe { std::ptr::from_mut(&mut set).cast::<u64>().write(mask) };
    // SAFETY: the address is that of ppoll.
    let call: LibcPpoll = unsafe { std::mem::transmute(address) };
    let ts = ts.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: libc's own, valid for this thread.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    // SAFETY: all arguments live until the call returns; the length matches.
    let found = unsafe {
        call(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            ts,
            &raw const set,
        )
    };
    // SAFETY: as above.
    let after = unsafe { errno.read() };
    // A call that goes on after this, and succeeds, has not touched it.
    // SAFETY: as above.
    unsafe { errno.write(before) };
    usize::try_from(found).map_err(|_| Errno(after))
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

/// epoll_pwait2-like wait on a kernel epoll instance; `timeout` in nanoseconds.
///
/// # Errors
/// EINTR, EBADF, EINVAL, EFAULT.
pub fn epoll_wait(
    epfd: RawFd,
    out: &mut [libc::epoll_event],
    timeout: Option<u64>,
) -> Result<usize, Errno> {
    // Only ever polled with 0: the sleep is a ppoll that includes the epfd.
    let ms = timeout.map_or(-1isize, |ns| (ns / 1_000_000) as isize);
    // SAFETY: the kernel writes at most out.len() events.
    unsafe {
        syscall6(
            libc::SYS_epoll_pwait,
            [
                epfd as usize,
                out.as_mut_ptr() as usize,
                out.len(),
                ms as usize,
                0,
                8,
            ],
        )
    }
}

/// epoll_ctl(2); `event` is a caller's pointer or that of a live value here.
///
/// # Errors
/// The kernel's.
pub fn epoll_ctl(epfd: RawFd, op: i32, fd: RawFd, event: usize) -> Result<usize, Errno> {
    // SAFETY: the kernel checks the pointer; it only reads through it.
    unsafe {
        syscall6(
            libc::SYS_epoll_ctl,
            [epfd as usize, op as usize, fd as usize, event, 0, 0],
        )
    }
}

/// Copies an epoll_event that epoll_ctl has just read.
#[must_use]
pub fn user_event(event: usize) -> Option<libc::epoll_event> {
    if event == 0 {
        return None;
    }
    // SAFETY: the kernel has just read this structure; alignment is not assumed.
    Some(unsafe { (event as *const libc::epoll_event).read_unaligned() })
}

/// An eventfd for waking a sleeper.
#[derive(Debug)]
pub struct Event {
    fd: Handle,
}

impl Event {
    /// Opens it, non-blocking and close-on-exec.
    ///
    /// # Errors
    /// EMFILE, ENFILE.
    pub fn open() -> Result<Self, Errno> {
        let fd = Handle::new(Self::create()?)?;
        Ok(Self { fd })
    }

    /// As [`Event::open`], but forked children can signal it too.
    ///
    /// # Errors
    /// As above.
    pub fn open_for_kin() -> Result<Self, Errno> {
        let fd = Handle::inherited(Self::create()?)?;
        Ok(Self { fd })
    }

    fn create() -> Result<RawFd, Errno> {
        let flags = libc::EFD_NONBLOCK | libc::EFD_CLOEXEC;
        // SAFETY: eventfd2 takes integers only.
        let fd = unsafe { syscall6(libc::SYS_eventfd2, [0, flags as usize, 0, 0, 0, 0]) }?;
        Ok(fd as RawFd)
    }

    /// Wakes whoever polls it.
    pub fn signal(&self) {
        let one = 1u64;
        let at = std::ptr::from_ref(&one) as usize;
        // SAFETY: writes eight bytes from a live value.
        let _ = unsafe {
            syscall6(
                libc::SYS_write,
                [self.fd.as_raw_fd() as usize, at, 8, 0, 0, 0],
            )
        };
    }

    /// Takes all signals back.
    pub fn clear(&self) {
        let mut value = 0u64;
        let at = std::ptr::from_mut(&mut value) as usize;
        // SAFETY: reads eight bytes into a live value.
        let _ = unsafe {
            syscall6(
                libc::SYS_read,
                [self.fd.as_raw_fd() as usize, at, 8, 0, 0, 0],
            )
        };
    }

    /// For the poll set.
    #[must_use]
    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// What a [`KernelWatch`] has seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The number under which it was added.
    pub id: u64,
    /// There is an error.
    pub error: bool,
}

/// An epoll instance that tells of kernel sockets that have something, each arrival once
/// (edge).
#[derive(Debug)]
pub struct KernelWatch {
    fd: Handle,
}

impl KernelWatch {
    /// Opens it.
    ///
    /// # Errors
    /// EMFILE, ENFILE.
    pub fn open() -> Result<Self, Errno> {
        // SAFETY: epoll_create1 takes an integer.
        let fd = unsafe {
            syscall6(
                libc::SYS_epoll_create1,
                [libc::EPOLL_CLOEXEC as usize, 0, 0, 0, 0, 0],
            )
        }?;
        Ok(Self {
            fd: Handle::new(fd as RawFd)?,
        })
    }

    /// Watches a socket for errors and, if it `reads`, for datagrams; the kernel takes it out
    /// when it is closed. What it has already is told, too.
    ///
    /// # Errors
    /// ENOMEM, ENOSPC.
    pub fn add(&self, socket: RawFd, id: u64, reads: bool) -> Result<(), Errno> {
        let reads = if reads { libc::EPOLLIN } else { 0 };
        let wanted = libc::epoll_event {
            events: (reads | libc::EPOLLET) as u32,
            u64: id,
        };
        let at = std::ptr::from_ref(&wanted) as usize;
        epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, socket, at).map(drop)
    }

    /// Ends what [`Self::add`] began, under the same number.
    pub fn remove(&self, socket: RawFd) {
        let _ = epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_DEL, socket, 0);
    }

    /// Calls `visit` with every socket that has something new.
    pub fn each(&self, mut visit: impl FnMut(Seen)) {
        let mut out = [libc::epoll_event { events: 0, u64: 0 }; 16];
        while let Ok(n) = epoll_wait(self.fd.as_raw_fd(), &mut out, Some(0)) {
            for event in &out[..n] {
                visit(Seen {
                    id: event.u64,
                    error: event.events & libc::EPOLLERR as u32 != 0,
                });
            }
            if n < out.len() {
                return;
            }
        }
    }

    /// For the poll set.
    #[must_use]
    pub fn raw(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Signals that a fault in the program raises on the spot: never blocked.
const SYNCHRONOUS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

fn sigprocmask(how: i32, set: u64) -> u64 {
    let mut old = 0u64;
    let set_ptr = std::ptr::from_ref(&set) as usize;
    let old_ptr = std::ptr::from_mut(&mut old) as usize;
    // SAFETY: both are eight-byte values that outlive the call.
    let _ = unsafe {
        syscall6(
            libc::SYS_rt_sigprocmask,
            [how as usize, set_ptr, old_ptr, 8, 0, 0],
        )
    };
    old
}

/// Holds handlers back from a last look at what happened until the sleep that lets
/// them in again.
#[derive(Debug)]
pub struct SignalHold {
    old: u64,
}

impl SignalHold {
    /// Blocks every asynchronous signal.
    #[must_use]
    pub fn begin() -> Self {
        Self {
            old: sigprocmask(libc::SIG_BLOCK, !SYNCHRONOUS),
        }
    }

    /// The mask of the time before.
    #[must_use]
    pub fn original(&self) -> u64 {
        self.old
    }
}

impl Drop for SignalHold {
    fn drop(&mut self) {
        sigprocmask(libc::SIG_SETMASK, self.old);
    }
}

/// Another signal mask for a while, as ppoll and its kin have it.
#[derive(Debug)]
pub struct SignalMask(defer::Masked);

impl SignalMask {
    /// Sets it.
    #[must_use]
    pub fn set(mask: u64) -> Self {
        defer::breathe();
        // Held back, so that what is put off now is told from what the mask lets in.
        let before = sigprocmask(libc::SIG_BLOCK, !SYNCHRONOUS);
        let (masked, now) = defer::mask_begins(before, mask);
        sigprocmask(libc::SIG_SETMASK, now);
        Self(masked)
    }
}

impl Drop for SignalMask {
    fn drop(&mut self) {
        sigprocmask(libc::SIG_BLOCK, !SYNCHRONOUS);
        sigprocmask(libc::SIG_SETMASK, defer::mask_ends(&self.0));
    }
}

const MEMBARRIER_CMD_PRIVATE_EXPEDITED: usize = 8;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: usize = 16;

fn membarrier(command: usize) -> bool {
    // SAFETY: membarrier takes integers only.
    unsafe { syscall6(libc::SYS_membarrier, [command, 0, 0, 0, 0, 0]) }.is_ok()
}

/// Makes [`heavy_barrier`] possible for this process.
#[must_use]
pub fn register_heavy_barrier() -> bool {
    membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

/// A full memory barrier on every running thread of the process.
#[must_use]
pub fn heavy_barrier() -> bool {
    membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

/// sched_yield(2).
pub fn yield_now() {
    // SAFETY: no arguments.
    let _ = unsafe { syscall6(libc::SYS_sched_yield, [0; 6]) };
}

/// For a loop that waits for another thread, which may have no core for as long as this one
/// runs (a real-time priority): first yields, then naps. `turns` begins with 0.
pub fn give_way(turns: &mut u32) {
    *turns += 1;
    if *turns < 100 {
        yield_now();
    } else {
        let _ = ppoll(&mut [], Some(20_000), None);
    }
}

/// Thread id, as ps(1) shows it.
#[must_use]
pub fn thread_id() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .unsigned_abs()
}

/// The core that this thread runs on now.
#[must_use]
pub fn current_core() -> usize {
    rustix::thread::sched_getcpu()
}

/// The cores that this thread may run on.
#[must_use]
pub fn allowed_cores() -> Vec<usize> {
    let most = rustix::thread::CpuSet::MAX_CPU;
    let set = rustix::thread::sched_getaffinity(None);
    set.map_or_else(
        |_| Vec::new(),
        |set| (0..most).filter(|core| set.is_set(*core)).collect(),
    )
}

/// Makes this thread run on one core alone; false: the kernel refuses.
#[must_use]
pub fn pin_to_core(core: usize) -> bool {
    let mut set = rustix::thread::CpuSet::new();
    set.set(core);
    rustix::thread::sched_setaffinity(None, &set).is_ok()
}

/// getpid(2).
#[must_use]
pub fn process_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { syscall6(libc::SYS_getpid, [0; 6]) }.map_or(0, |pid| pid as u32)
}

/// A process of this number is there.
#[must_use]
pub fn is_alive(process: u64) -> bool {
    // SAFETY: integers only; signal 0 is none.
    let found = unsafe { syscall6(libc::SYS_kill, [process as usize, 0, 0, 0, 0, 0]) };
    found != Err(Errno(libc::ESRCH))
}

/// Ticks of a free-running counter, cheaper than the clock; only for "a while ago".
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: rdtsc exists on every x86-64.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        crate::clock::monotonic()
    }
}

/// Starts a thread of the engine with every signal blocked, so that the program's
/// handlers never run on it.
///
/// # Errors
/// EAGAIN when no thread can be had.
pub fn spawn_quiet<F: FnOnce() + Send + 'static>(name: &str, body: F) -> Result<(), Errno> {
    let hold = SignalHold::begin();
    let spawned = std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(256 * 1024)
        .spawn(body);
    drop(hold);
    spawned.map_err(|_| Errno::AGAIN)?;
    THREADS.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

static THREADS: AtomicU32 = AtomicU32::new(0);

/// Threads of the engine in this process; they live as long as it does.
#[must_use]
pub fn engine_threads() -> u32 {
    THREADS.load(Ordering::Relaxed)
}

/// In a forked child: it has none of them.
pub fn forget_threads() {
    THREADS.store(0, Ordering::Relaxed);
}

/// Waits until every frame that the kernel's receive path was at work on is through
/// (an RCU grace period: membarrier(2), MEMBARRIER_CMD_GLOBAL). Takes some milliseconds.
pub fn await_receive_path() {
    const GLOBAL: usize = 1;
    // SAFETY: takes no pointer.
    let waited = unsafe { syscall6(libc::SYS_membarrier, [GLOBAL, 0, 0, 0, 0, 0]) };
    if waited.is_err() {
        // A kernel with nohz_full cores has none: they are long through after this.
        let _ = ppoll(&mut [], Some(20_000_000), None);
    }
}
