//! Every call of the control plane goes through here: a fault that a test asked for, the work,
//! and the line in the trace.

use crate::{fault, trace};
use core::ffi::c_int;
use rustix::io::Errno;
use std::fmt::{Arguments, Write};

/// What a call's line says beside its name and its outcome.
pub(crate) struct Line(Option<String>);

impl Line {
    /// Appends `text`, if lines are written at all.
    pub(crate) fn add(&mut self, text: Arguments) {
        if let Some(line) = &mut self.0 {
            let _ = write!(line, " {text}");
        }
    }
}

/// Runs one call of the control plane.
pub(crate) fn control<T>(
    name: &'static str,
    body: impl FnOnce(&mut Line) -> Result<T, Errno>,
) -> Result<T, Errno> {
    let mut line = Line(trace::on().then(|| name.to_owned()));
    let result = match fault::call(name) {
        Some(errno) => Err(errno),
        None => body(&mut line),
    };
    if let Some(text) = line.0 {
        match &result {
            Ok(_) => trace::line(format_args!("{text} = ok")),
            Err(errno) => trace::line(format_args!("{text} = {}", trace::errno_name(*errno))),
        }
    }
    result
}

/// The result of a call that returns an error number, 0 for success.
pub(crate) fn number(result: Result<(), Errno>) -> c_int {
    result.map_or_else(Errno::raw_os_error, |()| 0)
}

/// The result of a call that returns a pointer, or null with errno set.
pub(crate) fn pointer<T>(result: Result<*mut T, Errno>) -> *mut T {
    result.unwrap_or_else(|errno| {
        set_errno(errno);
        core::ptr::null_mut()
    })
}

/// The result of a call that returns -1 with errno set.
pub(crate) fn minus_one(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

fn set_errno(errno: Errno) {
    // SAFETY: no precondition; the C library returns this thread's own errno.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: the pointer is valid for this thread's life.
    unsafe { *place = errno.raw_os_error() };
}
