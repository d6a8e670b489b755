//! Locks and queues.
