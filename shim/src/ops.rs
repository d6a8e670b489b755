//! Typed logic of the intercepted calls; same file names as in [`crate::hooks`].
//!
//! An operation answers with a [`crate::verdict::Verdict`]. It never reads the
//! application's memory (that is [`crate::abi`]) and never sets `errno`.

pub(crate) mod fd;
pub(crate) mod ready;
pub(crate) mod socket;
pub(crate) mod transfer;
