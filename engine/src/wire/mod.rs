//! Frames and headers.
