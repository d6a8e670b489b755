//! Processes: descriptors, fork, exec, signals; programs that are none of the
//! library's business; and what is missing on the machine.

mod descriptors;
mod family;
mod foreign;
mod hardship;
mod kin;
mod memcheck;
mod soak;
