//! The card's clock. It counts at a ConnectX card's usual rate, so that whoever reads it as
//! nanoseconds is found out.

/// `hca_core_clock`.
pub(crate) const KILOHERTZ: u64 = 156_250;

/// Ticks at a time of `CLOCK_REALTIME`: 156.25 MHz is 5 ticks in 32 nanoseconds.
pub(crate) fn ticks(nanoseconds: u64) -> u64 {
    (u128::from(nanoseconds) * 5 / 32) as u64
}

/// Nanoseconds of `CLOCK_REALTIME`, without a system call where the kernel allows it.
pub(crate) fn realtime() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
