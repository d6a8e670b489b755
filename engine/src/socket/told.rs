//! How a spinning call hears of its kernel socket without asking it: the control thread
//! watches the kernel sockets of the engine's sockets and tells them.
//!
//! Whoever looks at a kernel socket takes the word back first ([`UdpSocket::begin_look`]), so that
//! what comes after the look is told anew; who finds something leaves word for the next.

use super::core::Core;
use super::udp::UdpSocket;
use crate::sys::event::{self, KernelWatch};
use crate::sys::mutex::Mutex;
use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

/// A call that comes so long after the one before looks itself: whoever sent a datagram may
/// have told the program by another way meanwhile. In ticks of the time stamp
/// counter: some microseconds on any machine of today.
const LOOK_TICKS: u64 = 40_000;
/// So long nobody relies on being told: some tenths of a second.
const TRUST_TICKS: u64 = 500_000_000;
/// Where nobody tells, a spinning call looks this seldom at the least, turns.
const UNTOLD: u32 = 100;

/// The process's kernel sockets that are watched.
#[derive(Debug)]
pub(super) struct Told {
    watch: Option<KernelWatch>,
    sockets: Mutex<HashMap<u64, Weak<UdpSocket>>>,
    /// Rises whenever anybody is told something.
    epoch: AtomicU64,
}

impl Told {
    /// `room`: a descriptor may be taken.
    pub(super) fn open(room: bool) -> Self {
        Self {
            watch: room.then(|| KernelWatch::open().ok()).flatten(),
            sockets: Mutex::default(),
            epoch: AtomicU64::new(0),
        }
    }
}

/// When a program last made a call of a kind that does not wait.
#[derive(Debug, Default)]
pub struct Calls(AtomicU64);

impl Calls {
    /// The call comes, at these ticks, after a pause.
    #[inline]
    pub fn paused(&self, now: u64) -> bool {
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(now, Ordering::Relaxed);
        now.wrapping_sub(before) > LOOK_TICKS
    }

    /// Our own look has taken its time, which is no pause of the program's.
    pub fn went_on(&self) {
        self.0.store(event::ticks(), Ordering::Relaxed);
    }
}

/// What a socket knows of its kernel side.
#[derive(Debug)]
pub(super) struct KernelLook {
    /// The kernel socket has something, or may have.
    told: AtomicBool,
    /// Number under which it is watched; -1: it is not.
    watched: AtomicI32,
    /// Not for its errors alone.
    reads: AtomicBool,
    /// Its errors reach its next call.
    errors: AtomicBool,
    /// Last look of a non-blocking call.
    ticks: AtomicU64,
    /// Last non-blocking call that found nothing.
    calls: Calls,
    epoch: AtomicU64,
    misses: AtomicU32,
}

impl Default for KernelLook {
    fn default() -> Self {
        Self {
            told: AtomicBool::new(false),
            watched: AtomicI32::new(-1),
            reads: AtomicBool::new(false),
            errors: AtomicBool::new(false),
            ticks: AtomicU64::new(0),
            calls: Calls::default(),
            epoch: AtomicU64::new(0),
            misses: AtomicU32::new(0),
        }
    }
}

impl UdpSocket {
    /// The kernel side has something: the next call looks there.
    pub fn hint_kernel(&self) {
        self.kernel_look.told.store(true, Ordering::SeqCst);
    }

    /// See [`Self::hint_kernel`].
    #[inline(always)]
    #[must_use]
    pub fn kernel_told(&self) -> bool {
        self.kernel_look.told.load(Ordering::Relaxed)
    }

    /// Before a look at the kernel socket.
    pub fn begin_look(&self) {
        if self.kernel_told() {
            self.kernel_look.told.swap(false, Ordering::SeqCst);
        }
    }

    /// Nobody would tell what its kernel socket gets.
    #[inline]
    #[must_use]
    pub fn untold(&self) -> bool {
        let look = &self.kernel_look;
        self.ring_mask() == 0
            || look.watched.load(Ordering::Relaxed) < 0
            || !look.reads.load(Ordering::Relaxed)
    }

    /// Turns of a spinning call between two looks at the kernel socket; 0: it is told.
    pub(super) fn kernel_every(&self) -> u32 {
        match self.core.tuning.rx_kernel_every {
            0 if self.untold() => UNTOLD,
            every => every,
        }
    }

    /// A call that does not wait found nothing in the engine: is it to look at the kernel?
    #[inline]
    pub fn look_due(&self) -> bool {
        let look = &self.kernel_look;
        let misses = look.misses.load(Ordering::Relaxed) + 1;
        let ratio = self.core.tuning.rx_kernel_every;
        let epoch = self.core.kernel_epoch();
        let now = event::ticks();
        let due = look.calls.paused(now)
            || self.kernel_told()
            || ratio != 0 && misses >= ratio
            || look.epoch.load(Ordering::Relaxed) != epoch
            || now.wrapping_sub(look.ticks.load(Ordering::Relaxed)) > TRUST_TICKS
            || self.untold();
        if due {
            look.misses.store(0, Ordering::Relaxed);
            look.epoch.store(epoch, Ordering::Relaxed);
            look.ticks.store(now, Ordering::Relaxed);
        } else {
            look.misses.store(misses, Ordering::Relaxed);
        }
        due
    }

    /// Ends a look of such a call.
    pub fn looked(&self) {
        self.kernel_look.calls.went_on();
    }

    /// From now on it is told what its kernel socket gets; `errors` too.
    pub(super) fn watch_kernel(&self, errors: bool) {
        self.watch(errors, true);
    }

    /// The kernel receives for it: its errors are of interest to sends alone.
    pub(super) fn watch_errors(&self) {
        self.watch(true, false);
    }

    fn watch(&self, errors: bool, reads: bool) {
        let look = &self.kernel_look;
        look.errors.store(errors, Ordering::Relaxed);
        let told = &self.core.told;
        let (Some(watch), fd) = (&told.watch, self.fd()) else {
            return;
        };
        if look.watched.load(Ordering::Relaxed) >= 0 {
            if look.reads.load(Ordering::Relaxed) == reads {
                return;
            }
            self.unwatch_kernel();
        }
        look.reads.store(reads, Ordering::Relaxed);
        let id = std::ptr::from_ref(self) as u64;
        told.sockets.lock().insert(id, self.me.clone());
        if watch.add(fd, id, reads).is_ok() {
            look.watched.store(fd, Ordering::Relaxed);
        } else {
            told.sockets.lock().remove(&id);
        }
    }

    /// Its calls are the kernel's.
    pub(super) fn unwatch_kernel(&self) {
        let fd = self.kernel_look.watched.swap(-1, Ordering::Relaxed);
        let told = &self.core.told;
        if let Some(watch) = told.watch.as_ref().filter(|_| fd >= 0) {
            // A number that was closed may be another socket's, which is watched as well.
            if self.fds.lock().contains(&fd) || self.fd() == fd {
                watch.remove(fd);
            }
            let id = std::ptr::from_ref(self) as u64;
            told.sockets.lock().remove(&id);
        }
        if fd >= 0 {
            self.hint_kernel(); // for calls that spin
            told.epoch.fetch_add(1, Ordering::Release);
        }
    }
}

impl Core {
    /// The control thread sleeps on it; None when no descriptor could be had.
    #[must_use]
    pub fn told_fd(&self) -> Option<RawFd> {
        self.told.watch.as_ref().map(KernelWatch::raw)
    }

    /// Changes whenever a kernel socket may have got something.
    #[inline]
    #[must_use]
    pub fn kernel_news(&self) -> u64 {
        let told = self.told.epoch.load(Ordering::Acquire);
        told.wrapping_add(self.kernel_epoch())
    }

    /// Kernel sockets have something: tells their shadows; the control thread's.
    pub fn tell(&self) {
        let Some(watch) = &self.told.watch else {
            return;
        };
        watch.each(|seen| {
            let socket = self
                .told
                .sockets
                .lock()
                .get(&seen.id)
                .and_then(Weak::upgrade);
            let Some(socket) = socket else { return };
            if seen.error && socket.kernel_look.errors.load(Ordering::Relaxed) {
                socket.kernel_error();
            }
            socket.hint_kernel();
            self.told.epoch.fetch_add(1, Ordering::Release);
        });
    }
}
