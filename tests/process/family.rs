//! fork, vfork, exec, daemon, descriptors passed on, and signals that kill.

use rustix::process::Signal;
use std::time::{Duration, Instant};
use tests::check::{Case, DEFAULTS, SLEEP, SPIN};
use tests::preload::{Mode, Program};
use tests::topology::Lab;
use tests::victim::{self, Variant};

#[test]
fn fork_exit() {
    Case::new("fork_exit").engine(140, 0).run();
}

#[test]
fn fork_read() {
    Case::new("fork_read").engine(1, 0).run();
}

#[test]
fn fork_left() {
    Case::new("fork_left").engine(1, 0).run();
}

#[test]
fn fork_use() {
    Case::new("fork_use").engine(1, 0).run();
}

#[test]
fn fork_threads() {
    Case::new("fork_threads")
        .unobserved("its sockets are the kernel's after the first child")
        .run();
}

/// Who forks, and how often, while other threads are inside every kind of call.
fn fork_storm(who: &'static str, times: &'static str) {
    Case::new("fork_storm")
        .args(&[who, times])
        .limit(Duration::from_secs(110))
        .unobserved("its sockets are the kernel's after the first child")
        .run();
}

#[test]
fn fork_storm_of_the_main_thread() {
    fork_storm("main", "200");
}

#[test]
fn fork_storm_of_many_threads() {
    fork_storm("threads", "100");
}

#[test]
fn fork_storm_of_handlers() {
    fork_storm("handler", "60");
}

#[test]
fn fork_own() {
    Case::new("fork_own").engine(1, 1).run();
}

#[test]
fn daemon() {
    Case::new("daemon")
        .unobserved("the process that could be asked is not the one that holds the socket")
        .run();
}

#[test]
fn vfork_close() {
    Case::new("vfork_close").engine(40, 1).run();
}

#[test]
fn exec_inherit() {
    Case::new("exec_inherit").engine(1, 0).run();
}

#[test]
fn exec_inherit_without_the_library() {
    Case::new("exec_inherit").args(&["bare"]).engine(1, 0).run();
}

#[test]
fn exec_failed() {
    Case::new("exec_failed").engine(1, 0).run();
}

#[test]
fn pass_fd() {
    Case::new("pass_fd").engine(1, 0).run();
}

/// A program that waits dies at once of what kills it by default, with the status
/// Linux gives, and the next one starts on the same port.
#[test]
fn killing_signals() {
    let Some(lab) = Lab::open() else { return };
    for mode in [Mode::Native, DEFAULTS, SLEEP, SPIN] {
        for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
            let mut running = Program::new(victim::compile("subscriber", Variant::Plain), &[])
                .on(&lab.near)
                .mode(mode)
                .spawn();
            running.wait_for("ready");
            std::thread::sleep(Duration::from_millis(30));
            running.signal(signal);
            let sent = Instant::now();
            let code = running.wait().code();
            assert_eq!(code, -signal.as_raw(), "{mode:?}");
            assert!(
                sent.elapsed() < Duration::from_millis(500),
                "{mode:?} {signal:?}"
            );
        }
    }
}
