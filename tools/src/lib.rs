//! What the command-line tools share.
#![forbid(unsafe_code)]

pub mod stats_find;
pub mod stats_json;
pub mod stats_view;
