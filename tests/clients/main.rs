//! Programs that nobody here wrote, unmodified, as Debian has them: natively and under the
//! library, what they say compared, and the engine's counters beside it.

mod datagrams;
mod libuv;
mod names;
mod python;
mod rig;
mod streams;
mod time;
