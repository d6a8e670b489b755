//! What a single socket does: each victim natively and under the library.

mod blocking;
mod calls;
mod errors;
mod loopback;
mod options;
mod readiness;
mod receive;
mod sending;
mod sets;
mod vectors;
