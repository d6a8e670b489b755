//! Options.

/// VMA_THREAD_MODE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadMode {
    /// 0
    Single,
    /// 1
    Spin,
    /// 2
    Mutex,
    /// 3
    Yield,
}
