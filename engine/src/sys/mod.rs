//! Every system call and every unsafe mapping of the engine.
//!
//! Calls are made by rustix or by [`raw`], never through libc's wrappers: those
//! names are our own hooks in a preloaded process, and they would touch `errno`.
#![allow(unsafe_code, reason = "the one module that talks to the kernel")]

pub mod bpf;
mod carried;
pub mod cell;
pub mod defer;
pub mod event;
pub mod fd;
pub mod file;
pub mod foreign;
pub mod handle;
pub mod heap;
pub mod icmp;
pub mod inject;
pub mod leave;
pub mod mutex;
pub mod netlink;
pub mod packet;
pub mod raw;
pub mod shm;
pub mod signal;
pub mod sock;
pub mod verbs;

use std::sync::atomic::{AtomicPtr, Ordering};

/// The value behind a pointer that was stored from `Box::leak`; None while null.
pub(crate) fn leaked<T>(pointer: &AtomicPtr<T>) -> Option<&'static T> {
    // SAFETY: only leaked boxes are stored in it, and nobody frees or mutates those.
    unsafe { pointer.load(Ordering::Acquire).as_ref() }
}
