//! Wall-clock time of time stamp counter readings, without a system call.
//!
//! The counter is taken for constant and the same on all cores, as every processor of the last
//! fifteen years has it.

use rustix::time::{ClockId, clock_gettime};
use std::arch::x86_64::_rdtsc;
use std::time::Duration;

/// How long the first measurement takes.
const FIRST: u64 = 2_000_000;
/// Counter ticks after which the clock is looked at again: it may be slewed or set.
const REFRESH: u64 = 1 << 24;

/// A running conversion.
#[derive(Debug)]
pub(super) struct Clock {
    /// Readings of both taken together at the start, and lately.
    first: (u64, u64),
    last: (u64, u64),
    ns_per_tick: f64,
}

fn both() -> (u64, u64) {
    let t = clock_gettime(ClockId::Realtime);
    // SAFETY: reads a counter.
    let ticks = unsafe { _rdtsc() };
    (ticks, t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

impl Clock {
    /// Measures for two milliseconds.
    pub(super) fn start() -> Self {
        let first = both();
        std::thread::sleep(Duration::from_nanos(FIRST));
        let mut clock = Self {
            first,
            last: first,
            ns_per_tick: 0.0,
        };
        clock.refresh();
        clock
    }

    fn refresh(&mut self) {
        let now = both();
        let ratio = (now.1.wrapping_sub(self.first.1)) as f64 / (now.0 - self.first.0) as f64;
        // A clock that was set since says nothing of the counter's rate: start over from here.
        let expected = self.ns_per_tick;
        if expected != 0.0 && (ratio / expected - 1.0).abs() > 0.001 {
            self.first = now;
        } else {
            self.ns_per_tick = ratio;
        }
        self.last = now;
    }

    /// Nanoseconds of `CLOCK_REALTIME` at a reading of the counter.
    #[inline]
    pub(super) fn realtime(&mut self, ticks: u64) -> u64 {
        if ticks.wrapping_sub(self.last.0) > REFRESH && ticks > self.last.0 {
            self.refresh();
        }
        let since = ticks.wrapping_sub(self.last.0) as i64;
        self.last
            .1
            .wrapping_add_signed((since as f64 * self.ns_per_tick) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_wall_clock() {
        let mut clock = Clock::start();
        for _ in 0..20 {
            let (ticks, ns) = both();
            let off = clock.realtime(ticks).abs_diff(ns);
            assert!(off < 100_000, "{off} ns off");
            std::thread::sleep(Duration::from_millis(3));
        }
    }
}
