//! What signals carry while they are put off ([`super::defer`]): in turn, and complete.
//!
//! A real-time signal that is queued again comes behind those of its number that wait already.
//! So what it carries stays here and only a token goes to the back; whichever comes first gets
//! what is kept longest, and leaves its own in exchange, until the token has come round. The
//! kernel may have no room for information (RLIMIT_SIGPENDING): a bare signal is token enough.

use super::defer::{change_mask, thread};
use super::raw::syscall6;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words of a siginfo_t.
const WORDS: usize = size_of::<libc::siginfo_t>() / 8;
/// How many one thread keeps. More than one of a number only where a handler with SA_NODEFER is
/// interrupted by itself.
const PLACES: usize = 4;
/// si_errno of a token; Linux leaves it 0.
const TOKEN: i32 = 0x7368_696d;
/// The kernel's first real-time signal; libc takes some for itself.
const REAL_TIME: i32 = 32;

/// One signal's information.
#[repr(C)]
pub(super) struct Place {
    /// Whose; 0: nobody's.
    signal: AtomicU64,
    /// Lower ones came earlier.
    number: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// What one thread keeps; only it and its handlers touch it.
#[repr(C)]
pub(super) struct Carried {
    /// The signals of which there is something, as a mask.
    signals: AtomicU64,
    next: AtomicU64,
    places: [Place; PLACES],
}

/// Bytes of a thread's [`Carried`].
pub(super) const SIZE: usize = 16 + PLACES * (16 + WORDS * 8);
const _: () = assert!(size_of::<Carried>() == SIZE);

impl Carried {
    fn has(&self, signal: i32) -> bool {
        self.signals.load(Ordering::Relaxed) & bit(signal) != 0
    }

    fn oldest(&self, signal: i32) -> Option<&Place> {
        let its = |p: &&Place| p.signal.load(Ordering::Relaxed) == signal as u64;
        let number = |p: &&Place| p.number.load(Ordering::Relaxed);
        self.places.iter().filter(its).min_by_key(number)
    }

    /// False: there is no place. Handlers of other signals may come between.
    fn keep(&self, signal: i32, info: &libc::siginfo_t) -> bool {
        let free = self.places.iter().find(|p| {
            let relaxed = Ordering::Relaxed;
            p.signal
                .compare_exchange(0, signal as u64, relaxed, relaxed)
                .is_ok()
        });
        let Some(place) = free else {
            return false;
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        place.number.store(number, Ordering::Relaxed);
        // SAFETY: a siginfo_t is of whole words, all written by the kernel.
        let words = unsafe { std::ptr::from_ref(info).cast::<[u64; WORDS]>().read() };
        for (word, value) in place.words.iter().zip(words) {
            word.store(value, Ordering::Relaxed);
        }
        self.signals.fetch_or(bit(signal), Ordering::Relaxed);
        true
    }

    fn drop_place(&self, signal: i32, place: &Place) {
        place.signal.store(0, Ordering::Relaxed);
        if self.oldest(signal).is_none() {
            self.signals.fetch_and(!bit(signal), Ordering::Relaxed);
        }
    }

    /// Gives the one that is kept longest to a handler's frame.
    fn give(&self, signal: i32, info: &mut libc::siginfo_t) {
        if let Some(place) = self.oldest(signal) {
            let words = place.words.each_ref();
            let words = words.map(|word| word.load(Ordering::Relaxed));
            // SAFETY: as large, and of whole words.
            unsafe { std::ptr::from_mut(info).cast::<[u64; WORDS]>().write(words) };
            self.drop_place(signal, place);
        }
    }

    /// Nothing of the signals in `set` is pending any more: a token that a sigwait(3) took, or
    /// that went when the signal was ignored, comes no more.
    pub(super) fn forget(&self, set: u64) {
        if self.signals.load(Ordering::Relaxed) & set == 0 {
            return;
        }
        for place in &self.places {
            let signal = place.signal.load(Ordering::Relaxed);
            if signal != 0 && set & 1 << (signal - 1) != 0 {
                place.signal.store(0, Ordering::Relaxed);
            }
        }
        self.signals.fetch_and(!set, Ordering::Relaxed);
    }
}

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// A signal that lost what it carried, or as kill(2) of a process of nowhere sends it.
fn is_bare(info: &libc::siginfo_t) -> bool {
    // SAFETY: a signal of kill(2) has a sender.
    info.si_code == libc::SI_USER && unsafe { info.si_pid() } == 0
}

fn is_token(info: &libc::siginfo_t) -> bool {
    info.si_errno == TOKEN || is_bare(info)
}

/// Queues a signal for this very thread.
fn send(signal: i32, info: &libc::siginfo_t) -> bool {
    // SAFETY: no argument is a pointer.
    let process = unsafe { syscall6(libc::SYS_getpid, [0; 6]) };
    // SAFETY: as above.
    let me = unsafe { syscall6(libc::SYS_gettid, [0; 6]) };
    let (process, me) = (process.unwrap_or(0), me.unwrap_or(0));
    let info = std::ptr::from_ref(info).expose_provenance();
    // SAFETY: a siginfo_t that outlives the call.
    unsafe {
        syscall6(
            libc::SYS_rt_tgsigqueueinfo,
            [process, me, signal as usize, info, 0, 0],
        )
    }
    .is_ok()
}

/// Where there is no room for more: the kernel takes one as kill(2) sends it even then.
#[cold]
fn send_bare(signal: i32) -> bool {
    // SAFETY: all-zero is one, of kill(2) by nobody.
    let mut bare: libc::siginfo_t = unsafe { std::mem::zeroed() };
    bare.si_signo = signal;
    send(signal, &bare)
}

/// Queues again what is put off, for this thread, which has blocked it; false: nobody would take
/// it. `info` is what the kernel gave to the handler.
pub(super) fn again(signal: i32, info: usize) -> bool {
    let info = std::ptr::with_exposed_provenance_mut::<libc::siginfo_t>(info);
    // SAFETY: the kernel's, for a handler of this thread that still runs.
    let info = unsafe { &mut *info };
    let carried = &thread().carried;
    if signal < REAL_TIME {
        // It is pending once; with its room gone it would come bare.
        if is_bare(info) && carried.has(signal) {
            carried.give(signal, info);
        }
        carried.forget(bit(signal));
        if info.si_code < 0 {
            carried.keep(signal, info);
        }
        return send(signal, info) || send_bare(signal);
    }
    if carried.has(signal) && is_token(info) {
        return send(signal, info) || send_bare(signal);
    }
    if carried.keep(signal, info) {
        info.si_errno = TOKEN;
    }
    send(signal, info) || send_bare(signal)
}

/// Before a handler runs: it gets what is its turn.
#[inline]
pub(super) fn recall(signal: i32, info: usize) {
    if thread().carried.has(signal) {
        recall_slowly(signal, info);
    }
}

#[cold]
#[inline(never)]
fn recall_slowly(signal: i32, info: usize) {
    let info = std::ptr::with_exposed_provenance_mut::<libc::siginfo_t>(info);
    // SAFETY: what the kernel has just written for a handler of this thread.
    let info = unsafe { &mut *info };
    let carried = &thread().carried;
    // With SA_NODEFER the next one would come into the middle of this.
    let before = change_mask(libc::SIG_BLOCK, bit(signal));
    if signal < REAL_TIME {
        if is_bare(info) {
            carried.give(signal, info);
        }
        carried.forget(bit(signal));
    } else if is_token(info) || carried.keep(signal, info) {
        carried.give(signal, info);
    }
    if before & bit(signal) == 0 {
        change_mask(libc::SIG_UNBLOCK, bit(signal));
    }
}
