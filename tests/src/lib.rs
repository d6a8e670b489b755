//! Harness for the system tests: the same program runs natively and under the
//! library between two hosts (network namespaces joined by a veth pair), and
//! Linux is the oracle.
//!
//! - [`require`]: what a test needs from the machine; a skip says why.
//! - [`netns`], [`topology`]: the two hosts.
//! - [`preload`]: starting a program natively or under the library, bounded.
//! - [`talk`]: a program that answers line by line.
//! - [`backend`]: on which device.
//! - [`victim`]: compiling the small C programs.
//! - [`peer`]: the far host's end, driven by the victim over a Unix socket.
//! - [`raw`]: crafted packets, and what a host really sends.
//! - [`stats`], [`sampler`]: the counters of a live process, of all processes of a run.
//! - [`mod@check`]: a case: transcript equality and proof of acceleration.
//!
//! It must never leave a namespace, a process or a file behind, also when a test
//! panics.
#![deny(unsafe_code)]

pub mod backend;
pub mod check;
pub mod netns;
pub mod peer;
pub mod preload;
pub mod raw;
pub mod require;
pub mod sampler;
pub mod stats;
pub mod talk;
pub mod topology;
pub mod victim;

/// Many small cases of one victim, a test for each combination of its arguments:
/// `name: arguments…;` under `victim, rx N tx N` (datagrams by the engine at the least), or
/// under `victim, kernel REASON`. See [`check::Case::brief`].
#[macro_export]
macro_rules! matrix {
    ($victim:literal, rx $rx:literal tx $tx:literal: $($name:ident: $($arg:literal)*;)+) => { $(
        #[test]
        fn $name() {
            tests::check::Case::new($victim).args(&[$($arg),*]).engine($rx, $tx).brief().run();
        }
    )+ };
    ($victim:literal, kernel $reason:ident: $($name:ident: $($arg:literal)*;)+) => { $(
        #[test]
        fn $name() {
            let reason = engine::error::Reason::$reason;
            tests::check::Case::new($victim).args(&[$($arg),*]).kernel(reason).brief().run();
        }
    )+ };
}
