//! What a single socket does: each victim natively and under the library.

mod calls;
mod loopback;
mod readiness;
