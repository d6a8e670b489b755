//! The software verbs library as a C program sees it: compiled against the real headers, linked
//! with the real library, run with this one.

mod build;
mod capabilities;
mod faults;
mod hosts;
mod layout;
mod rules;
#[path = "../support/mod.rs"]
mod support;
