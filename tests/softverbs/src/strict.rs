//! What happens to a violated precondition: the error that a card or the real library gives, or,
//! with `SOFTVERBS_STRICT=abort`, one message and the end of the process.

use crate::settings;
use rustix::io::Errno;
use std::fmt::Arguments;
use std::os::fd::BorrowedFd;

/// One line on standard error, by a direct system call.
pub(crate) fn say(text: Arguments) {
    let line = format!("softverbs: {text}\n");
    // SAFETY: descriptor 2 is only borrowed for the call; if it is closed the call says EBADF.
    let stderr = unsafe { BorrowedFd::borrow_raw(2) };
    let mut rest = line.as_bytes();
    while let Ok(written) = rustix::io::write(stderr, rest) {
        rest = &rest[written..];
        if rest.is_empty() || written == 0 {
            break;
        }
    }
}

/// Ends the process with a message.
pub(crate) fn give_up(text: Arguments) -> ! {
    say(text);
    std::process::abort()
}

/// A rule of the interface was broken: `rule` names it, `errno` is what a card would answer.
#[cold]
pub(crate) fn violated(errno: Errno, rule: Arguments) -> Errno {
    if settings::get().abort {
        give_up(format_args!("violated: {rule}"));
    }
    crate::trace::line(format_args!("violated: {rule}"));
    errno
}

/// Whether a broken rule ends the process; then some are looked for earlier than a card could.
pub(crate) fn aborts() -> bool {
    settings::get().abort
}
