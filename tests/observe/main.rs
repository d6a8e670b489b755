//! What a person can see, and what the tree must look like.

mod banner;
mod library;
mod statistics;
mod structure;
