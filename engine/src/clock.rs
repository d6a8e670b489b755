//! The only place that reads time. Everything below `stack` gets it as an argument.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of a clock.
pub type Nanos = u64;

fn read(clock: ClockId) -> Nanos {
    let t = clock_gettime(clock);
    (t.tv_sec as u64) * 1_000_000_000 + t.tv_nsec as u64
}

/// CLOCK_MONOTONIC, for time-outs.
#[must_use]
pub fn monotonic() -> Nanos {
    read(ClockId::Monotonic)
}

/// CLOCK_REALTIME, the clock of packet time stamps.
#[must_use]
pub fn realtime() -> Nanos {
    read(ClockId::Realtime)
}

/// CLOCK_REALTIME from the processor's time stamp counter: an addition where a reading of
/// the clock would be most of the work. The clock itself is read at least every
/// millisecond of use, so that the error stays far below a microsecond and a clock that is
/// set is followed. The ticks are an argument (see [`crate::sys::event::ticks`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct TickClock {
    ticks: u64,
    time: Nanos,
    /// Nanoseconds of 2^32 ticks; 0: not known.
    rate: u64,
    /// Ticks after the last reading for which the rate is used.
    span: u64,
}

/// How long a reading is good for.
const SPAN: Nanos = 1_000_000;
/// Counters of 16 GHz to 1 MHz.
const RATES: std::ops::RangeInclusive<u64> = (1 << 28)..=(1000 << 32);
/// Two readings closer than this say little of the rate, further apart much may have
/// happened between them.
const RATED: std::ops::RangeInclusive<Nanos> = 100_000..=10_000_000_000;

impl TickClock {
    /// The time; `read` reads the clock.
    #[inline]
    pub fn now(&mut self, ticks: u64, read: impl FnOnce() -> Nanos) -> Nanos {
        let passed = ticks.wrapping_sub(self.ticks);
        if passed < self.span {
            return self.time + ((u128::from(passed) * u128::from(self.rate)) >> 32) as u64;
        }
        self.reread(ticks, read())
    }

    #[cold]
    fn reread(&mut self, ticks: u64, time: Nanos) -> Nanos {
        let passed = ticks.wrapping_sub(self.ticks);
        let elapsed = time.wrapping_sub(self.time);
        if self.time == 0 || elapsed > *RATED.end() {
            // The first reading, or the first after a long while: nothing to compare with.
            self.span = 0;
        } else if elapsed >= *RATED.start() {
            let rate = (u128::from(elapsed) << 32) / u128::from(passed.max(1));
            let rate = u64::try_from(rate).unwrap_or(u64::MAX);
            // A clock that was set, or a counter of another processor: once more.
            let alike = RATES.contains(&rate) && self.rate.abs_diff(rate) <= self.rate / 1000;
            let span = (u128::from(SPAN) << 32) / u128::from(rate.max(1));
            self.span = if alike {
                u64::try_from(span).unwrap_or(0)
            } else {
                0
            };
            self.rate = rate;
        } else if self.span == 0 {
            return time; // keep the older reading to measure from
        }
        (self.ticks, self.time) = (ticks, time);
        time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Nanos = 1_700_000_000_000_000_000;

    /// A processor with 2.5 ticks a nanosecond.
    fn ticks(time: Nanos) -> u64 {
        77 + (time - START) * 5 / 2
    }

    #[test]
    fn the_clock_is_read_once_a_millisecond_and_never_far_off() {
        let mut clock = TickClock::default();
        let mut reads = 0;
        for step in 0..100_000u64 {
            let time = START + step * 1000;
            let now = clock.now(ticks(time), || {
                reads += 1;
                time
            });
            assert!(now.abs_diff(time) < 100, "{step}: {now} {time}");
        }
        assert!((100..=350).contains(&reads), "{reads} readings in 100 ms");
    }

    #[test]
    fn a_clock_that_is_set_is_followed() {
        let mut clock = TickClock::default();
        for step in 0..20_000u64 {
            let shift = if step < 10_000 { 0 } else { 3_600_000_000_000 };
            let time = START + step * 1000;
            let now = clock.now(ticks(time), || time + shift);
            let settling = (10_000..=11_100).contains(&step);
            assert!(settling || now.abs_diff(time + shift) < 100, "{step}");
        }
    }

    #[test]
    fn a_counter_that_jumps_is_not_believed() {
        let mut clock = TickClock::default();
        for step in 0..50_000u64 {
            let time = START + step * 1000;
            // Two processors whose counters differ by far.
            let jump = if step % 7 == 0 { 1 << 40 } else { 0 };
            let now = clock.now(ticks(time) + jump, || time);
            assert!(now.abs_diff(time) < 2 * SPAN, "{step}: {now} {time}");
        }
    }

    #[test]
    fn seldom_used_it_is_the_clock_itself() {
        let mut clock = TickClock::default();
        for step in 0..20u64 {
            let time = START + step * 30_000_000_000;
            assert_eq!(clock.now(ticks(time), || time), time);
        }
    }
}
