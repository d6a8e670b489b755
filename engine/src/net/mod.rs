//! Network tables.
