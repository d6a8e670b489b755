//! Descriptor numbers, and closing in bulk.

use tests::check::Case;

#[test]
fn fd_numbers() {
    Case::new("fd_numbers").engine(1, 0).run();
}

#[test]
fn close_range() {
    Case::new("close_range").engine(1, 1).run();
}
