//! The part that poll, select and epoll_wait have in common: how to wait.

use crate::error::Errno;
use crate::ring::{Limit, Spin, Turn};
use crate::socket::Core;
use crate::socket::UdpSocket;
use crate::sys::defer;
use crate::sys::event::{self, Event, SignalHold, SignalMask};
use crate::sys::leave::Kept;
use smallvec::SmallVec;
use std::sync::Arc;

/// Sleep of a call that cannot be woken by every source.
const BLIND_NAP: u64 = 1_000_000;

/// What a call sleeps on.
pub(super) type SleepSet = SmallVec<[libc::pollfd; 8]>;

/// What a kind of set can do for [`wait`].
pub(super) trait Set {
    /// Bits of the rings to poll.
    fn ring_mask(&self) -> u64;
    /// Collects what the engine has; the number of entries to report so far.
    fn engine_ready(&mut self) -> usize;
    /// Asks the kernel without waiting and merges; the number of entries to report.
    ///
    /// # Errors
    /// The kernel's.
    fn kernel_ready(&mut self) -> Result<usize, Errno>;
    /// Descriptors of the program to sleep on.
    fn sleep_on(&mut self, set: &mut SleepSet);
    /// Its engine sockets.
    fn each_socket(&mut self, visit: &mut dyn FnMut(&Arc<UdpSocket>));
    /// A change of the set from another thread has to wake the sleeper.
    fn watch(&mut self, event: &Arc<Event>, on: bool);
    /// Holds descriptors of which nobody tells what the kernel has.
    fn has_foreign(&self) -> bool;
    /// Without a time to wait, and with nothing to report, it fails for a signal that the caller's
    /// mask lets in. epoll does not look then (`ep_poll`).
    const SEES_SIGNALS: bool;
    /// This call is one of those that look at the kernel before the engine
    /// (VMA_SELECT_SKIP_OS).
    fn kernel_first(&mut self) -> bool;
    /// A call that found nothing in the engine is to look at the kernel at once. `waits`:
    /// it will go on, and be told.
    fn kernel_due(&mut self, waits: bool) -> bool;
    /// The kernel had nothing, as of this [`Core::kernel_news`].
    fn was_quiet(&mut self, news: u64);
}

/// How a wait is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) timeout: Option<u64>,
    /// The caller's signal mask for the time of the call.
    pub(super) mask: Option<u64>,
}

/// Waits until the set has something to report, the time-out passes (0) or a signal comes.
#[inline]
pub(super) fn wait<S: Set>(core: &Core, set: &mut S, how: How) -> Result<usize, Errno> {
    let mut ready = 0;
    let mask = set.ring_mask();
    if how.timeout == Some(0) {
        core.poll_mask_whole(mask, || {
            ready = set.engine_ready();
            ready > 0
        });
    } else {
        core.poll_mask(mask);
        ready = set.engine_ready();
    }
    // A signal that only the caller's mask lets in has to be seen: the kernel looks.
    let first = how.mask.is_some() || ready > 0 && set.kernel_first();
    if ready > 0 && !first {
        return Ok(ready);
    }
    wait_longer(core, set, how, first)
}

/// Looks at the kernel; the number of entries to report, and what [`Core::kernel_news`] to wait for.
fn look<S: Set>(core: &Core, set: &mut S) -> Result<(usize, u64), Errno> {
    let news = core.kernel_news();
    let ready = set.kernel_ready()?;
    if ready == 0 {
        set.was_quiet(news);
    }
    Ok((ready, news))
}

/// The engine had nothing at once, or the kernel is to be asked anyway.
#[inline(never)]
fn wait_longer<S: Set>(core: &Core, set: &mut S, how: How, first: bool) -> Result<usize, Errno> {
    let mut quiet = core.kernel_news();
    if first || set.kernel_due(how.timeout != Some(0)) {
        let ready;
        (ready, quiet) = look(core, set)?;
        if ready > 0 {
            return Ok(ready);
        }
    }
    if how.timeout == Some(0) {
        return match how.mask {
            Some(_) if S::SEES_SIGNALS => {
                let _open = defer::open();
                event::ppoll(&mut [], Some(0), how.mask).map(|_| 0)
            }
            _ => Ok(0),
        };
    }
    let tuning = &core.tuning;
    // With nothing of the program's own in the set its sockets are told, as in a plain receive.
    let every = if set.has_foreign() {
        tuning.select_kernel_every
    } else {
        tuning.rx_kernel_every
    };
    let mask = how.mask.map(SignalMask::set);
    let result = wait_spinning(core, set, how, every, quiet);
    if mask.is_some() && result.is_err() {
        // What it failed for runs by this mask.
        defer::breathe();
    }
    result
}

fn wait_spinning<S: Set>(
    core: &Core,
    set: &mut S,
    how: How,
    every: u32,
    mut quiet: u64,
) -> Result<usize, Errno> {
    let tuning = &core.tuning;
    let limit = match tuning.select_poll {
        -1 => Limit::Never,
        us => Limit::Time(us.max(0) as u64 * 1000),
    };
    let mut spin = Kept::new(Spin::new(limit, every, how.timeout, false, tuning.cores));
    let mut spin = spin.arm();
    let mut sleeping = limit == Limit::Time(0) || set.ring_mask() == 0;
    loop {
        if sleeping {
            sleep(core, set, &mut spin, how)?;
        }
        core.poll_mask(set.ring_mask());
        let ready = set.engine_ready();
        if ready > 0 {
            return Ok(ready);
        }
        match if sleeping { Turn::Kernel } else { spin.turn() } {
            Turn::Again if core.kernel_news() == quiet => {}
            Turn::Again | Turn::Kernel => {
                let ready;
                (ready, quiet) = look(core, set)?;
                if ready > 0 {
                    return Ok(ready);
                }
                if sleeping && spin.remaining() == Some(0) {
                    return Ok(0);
                }
            }
            Turn::Expired => {
                return set.kernel_ready();
            }
            Turn::Interrupted => return Err(Errno::INTR),
            Turn::Sleep => sleeping = true,
        }
    }
}

/// What a sleeper holds.
struct Sleeper<'a, S: Set> {
    core: &'a Core,
    set: &'a mut S,
    waker: Option<Arc<Event>>,
    sockets: SmallVec<[Arc<UdpSocket>; 8]>,
    fds: SleepSet,
}

impl<S: Set> Drop for Sleeper<'_, S> {
    fn drop(&mut self) {
        if let Some(event) = self.waker.take() {
            self.set.watch(&event, false);
            for socket in &self.sockets {
                socket.remove_waiter(&event);
            }
            self.core.return_waker(event);
        }
    }
}

/// Sleeps until any source may have something.
#[cold]
fn sleep<S: Set>(core: &Core, set: &mut S, spin: &mut Spin, how: How) -> Result<(), Errno> {
    let mut sleeper = Kept::new(Sleeper {
        core,
        set,
        waker: core.waker(),
        sockets: SmallVec::new(),
        fds: SleepSet::new(),
    });
    let mut sleeper = sleeper.arm();
    let Sleeper {
        set,
        waker,
        sockets,
        fds,
        ..
    } = &mut *sleeper;
    if let Some(event) = waker {
        set.each_socket(&mut |socket| {
            socket.add_waiter(event);
            sockets.push(Arc::clone(socket));
        });
        set.watch(event, true);
    }
    // Those that were put off run here.
    let _ = spin.interrupted();
    let open = defer::open();
    let hold = SignalHold::begin();
    let mask = set.ring_mask();
    let result = if spin.interrupted() {
        Err(Errno::INTR)
    } else if sockets.iter().any(|s| s.readable()) || !core.arm(mask) {
        Ok(())
    } else {
        core.sleep_set(mask, waker.as_deref(), |fd| fds.push(fd));
        set.sleep_on(fds);
        let blind = waker.is_none() || !core.can_sleep(mask);
        let nap = blind.then_some(BLIND_NAP);
        let timeout = match (spin.remaining(), nap) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let mask = how.mask.unwrap_or(hold.original());
        event::ppoll_cancellable(fds, timeout, mask).map(drop)
    };
    drop(hold);
    drop(open);
    result
}
