//! How a call waits in user space before it sleeps: how often the kernel is looked at,
//! when to give the core away, when to stop.

use crate::clock::{self, Nanos};
use crate::sys::{defer, event, signal};
use std::sync::atomic::{AtomicU32, Ordering};

/// Calls that spin now, in this process.
static SPINNERS: AtomicU32 = AtomicU32::new(0);
/// Turns between two looks at the clock; a turn is some tens of nanoseconds.
const CLOCK_TURNS: u32 = 64;
/// However seldom the kernel is looked at by turns: at the latest after this, ns.
const LOOK_EVERY: Nanos = 200_000_000;

/// VMA_RX_POLL_YIELD; 0: none.
static YIELD_EVERY: AtomicU32 = AtomicU32::new(0);

/// Empty turns between two yields of the core, counted in steps of [`CLOCK_TURNS`]; 0: only
/// where there is no core to spare.
pub fn set_yield(every: u32) {
    YIELD_EVERY.store(every, Ordering::Relaxed);
}

/// In a forked child: they spin in the parent.
pub fn forget_spinners() {
    SPINNERS.store(0, Ordering::Relaxed);
}

/// Whether one of the last [`CLOCK_TURNS`] turns was one to yield after.
fn yield_due(turns: u64, every: u32) -> bool {
    every != 0 && turns % u64::from(every) < u64::from(CLOCK_TURNS)
}

/// When spinning ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// After so many turns (VMA_RX_POLL).
    Turns(u64),
    /// After so long (VMA_SELECT_POLL).
    Time(Nanos),
    /// Never (-1).
    Never,
}

/// What the caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Look at the rings again.
    Again,
    /// Look at the kernel, too.
    Kernel,
    /// Spinning is over: sleep.
    Sleep,
    /// The caller's time-out has passed.
    Expired,
    /// A signal handler ran that ends the call.
    Interrupted,
}

/// How long a call has waited and for what: it goes along when the call goes on to wait elsewhere, for its socket has moved.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    started: Option<Nanos>,
    /// Absolute, CLOCK_MONOTONIC.
    deadline: Option<Nanos>,
    /// Handlers that had run at the first look, some microseconds into the call: one that
    /// ran before that might as well have run before the call.
    signals: Option<signal::Counts>,
}

/// One waiting call.
#[derive(Debug)]
pub struct Spin {
    turns: u64,
    limit: Limit,
    kernel_every: u32,
    next_kernel: u32,
    next_clock: u32,
    looked: Nanos,
    patience: Patience,
    /// EINTR even after handlers with SA_RESTART.
    restarts: bool,
    counted: bool,
    crowded: bool,
    cores: u32,
}

impl Spin {
    /// `kernel_every`: turns between looks at the kernel, 0: hardly ever. `timeout`: the
    /// caller's, None: none. `restarts`: SA_RESTART handlers do not end this call.
    #[must_use]
    pub fn new(
        limit: Limit,
        kernel_every: u32,
        timeout: Option<Nanos>,
        restarts: bool,
        cores: u32,
    ) -> Self {
        let started = timeout.map(|_| clock::monotonic());
        Self {
            turns: 0,
            limit,
            kernel_every,
            next_kernel: kernel_every,
            next_clock: CLOCK_TURNS,
            looked: 0,
            patience: Patience {
                started,
                deadline: timeout.and_then(|t| started.map(|s| s.saturating_add(t))),
                signals: None,
            },
            restarts,
            counted: false,
            crowded: false,
            cores,
        }
    }

    /// The same call goes on to wait.
    #[must_use]
    pub fn after(mut self, before: Option<&Patience>) -> Self {
        if let Some(before) = before {
            self.patience = *before;
        }
        self
    }

    /// For [`Self::after`].
    #[must_use]
    pub fn patience(&mut self) -> Patience {
        let _ = self.interrupted();
        self.patience
    }

    /// After a turn that found nothing.
    #[inline]
    pub fn turn(&mut self) -> Turn {
        self.turns += 1;
        self.next_clock -= 1;
        if self.next_clock == 0 {
            self.next_clock = CLOCK_TURNS;
            let slow = self.slow();
            if slow != Turn::Again {
                return slow;
            }
        }
        if let Limit::Turns(most) = self.limit
            && self.turns >= most
        {
            // The first look, for what has been put off since the call began.
            let _ = self.interrupted();
            defer::breathe();
            return if self.interrupted() {
                Turn::Interrupted
            } else {
                Turn::Sleep
            };
        }
        if self.kernel_every != 0 {
            self.next_kernel -= 1;
            if self.next_kernel == 0 {
                self.next_kernel = self.kernel_every;
                return Turn::Kernel;
            }
        }
        Turn::Again
    }

    #[cold]
    fn slow(&mut self) -> Turn {
        if self.interrupted() {
            return Turn::Interrupted;
        }
        {
            let _open = defer::open();
            event::test_cancel();
        }
        if self.interrupted() {
            return Turn::Interrupted;
        }
        let now = clock::monotonic();
        let started = *self.patience.started.get_or_insert(now);
        if self.patience.deadline.is_some_and(|d| now >= d) {
            return Turn::Expired;
        }
        if let Limit::Time(most) = self.limit
            && now - started >= most
        {
            return Turn::Sleep;
        }
        if !self.counted {
            self.counted = true;
            SPINNERS.fetch_add(1, Ordering::Relaxed);
        }
        // Without a core to spare, whoever would wake us may wait for this very one.
        let spinners = SPINNERS.load(Ordering::Relaxed);
        // One core and a second thread: it may be the one that has to run.
        let pinned = self.cores == 1 && !super::is_single();
        self.crowded = spinners > self.cores || pinned;
        if self.crowded || yield_due(self.turns, YIELD_EVERY.load(Ordering::Relaxed)) {
            event::yield_now();
        }
        if now.saturating_sub(self.looked.max(started)) >= LOOK_EVERY {
            self.looked = now;
            return Turn::Kernel;
        }
        Turn::Again
    }

    /// Whether a handler has run since the first look that ends the call.
    #[must_use]
    pub fn interrupted(&mut self) -> bool {
        let now = signal::counts();
        let first = *self.patience.signals.get_or_insert(now);
        now.interrupting != first.interrupting
            || !self.restarts && now.restarting != first.restarting
    }

    /// The call has waited for more than some turns.
    #[inline]
    #[must_use]
    pub fn is_long(&self) -> bool {
        self.counted
    }

    /// More calls spin than there are cores.
    #[inline]
    #[must_use]
    pub fn crowded(&self) -> bool {
        self.crowded
    }

    /// Nanoseconds until the caller's time-out, None: no time-out.
    #[must_use]
    pub fn remaining(&self) -> Option<Nanos> {
        self.patience
            .deadline
            .map(|d| d.saturating_sub(clock::monotonic()))
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        if self.counted {
            SPINNERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yields_come_as_often_as_asked() {
        let yields = |every| {
            let looks = (0..64_000).step_by(CLOCK_TURNS as usize);
            looks.filter(|turns| yield_due(*turns, every)).count()
        };
        assert_eq!(yields(0), 0);
        assert_eq!(yields(1), 1000, "no more often than the clock is looked at");
        assert_eq!(yields(1000), 64);
        assert_eq!(yields(64_000), 1);
    }
}
