//! Descriptor numbers, and closing in bulk.

use std::time::Duration;
use tests::backend::Backend;
use tests::check::{Case, DEFAULTS};

#[test]
fn fd_numbers() {
    Case::new("fd_numbers").engine(1, 0).run();
}

#[test]
fn close_range() {
    if Backend::current() == Backend::Verbs {
        // A card's library has three descriptors, which the engine keeps from the program;
        // the software library has more, of which nobody knows.
        eprintln!("skipped: the software card does not outlive its own descriptors");
        return;
    }
    Case::new("close_range").engine(1, 1).run();
}

/// What a socket costs does not grow with their number.
#[test]
fn many_sockets() {
    Case::new("many_sockets")
        .modes(&[DEFAULTS])
        .engine(1, 0)
        .limit(Duration::from_secs(60))
        .run();
}
