//! What an operation says about an intercepted call, and the only path to `errno`.
//!
//! A call that succeeds leaves `errno` alone, as libc does. Source: errno(3).

use crate::abi::{self, KeptErrno};
use engine::error::Errno;

/// Answer of the typed operations in [`crate::ops`] to a hook.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict<T = usize> {
    /// The call is done; this is its result.
    Handled(T),
    /// The call is libc's, with the arguments as they came.
    PassThrough,
    /// The call fails with this error number.
    Failed(Errno),
}

/// C result types: how a count looks and how failure looks.
pub(crate) trait CResult {
    /// A count or descriptor as the C function returns it.
    fn from_count(count: usize) -> Self;
    /// The value that tells the caller to look at `errno`.
    const FAILURE: Self;
}

impl CResult for libc::c_int {
    fn from_count(count: usize) -> Self {
        i32::try_from(count).unwrap_or(i32::MAX)
    }
    const FAILURE: Self = -1;
}

impl CResult for libc::ssize_t {
    fn from_count(count: usize) -> Self {
        // What was moved was in memory, where nothing is larger than isize::MAX.
        count.cast_signed()
    }
    const FAILURE: Self = -1;
}

impl Verdict {
    /// As [`Self::or_else`], with `errno` as it was kept unless the call fails.
    #[inline(always)]
    pub(crate) fn finish<R: CResult>(
        self,
        kept: Option<KeptErrno>,
        original: impl FnOnce() -> R,
    ) -> R {
        if let (Self::Handled(_), Some(errno)) = (&self, kept) {
            errno.restore();
        }
        self.or_else(original)
    }

    /// Turns the answer into the C result; `original` makes libc's call.
    #[inline(always)]
    pub(crate) fn or_else<R: CResult>(self, original: impl FnOnce() -> R) -> R {
        match self {
            Self::Handled(count) => R::from_count(count),
            Self::PassThrough => original(),
            Self::Failed(errno) => {
                abi::set_errno(errno);
                R::FAILURE
            }
        }
    }
}

impl From<Result<usize, Errno>> for Verdict {
    fn from(result: Result<usize, Errno>) -> Self {
        match result {
            Ok(count) => Self::Handled(count),
            Err(errno) => Self::Failed(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errno() -> i32 {
        std::io::Error::last_os_error().raw_os_error().unwrap()
    }

    #[test]
    fn only_failure_touches_errno() {
        abi::set_errno(Errno(libc::EXDEV));
        let handled: i32 = Verdict::Handled(7).or_else(|| unreachable!());
        assert_eq!((handled, errno()), (7, libc::EXDEV));
        let passed: isize = Verdict::PassThrough.or_else(|| 9);
        assert_eq!((passed, errno()), (9, libc::EXDEV));
        let failed: isize = Verdict::Failed(Errno::AGAIN).or_else(|| unreachable!());
        assert_eq!((failed, errno()), (-1, libc::EAGAIN));
    }
}
