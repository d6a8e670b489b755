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
