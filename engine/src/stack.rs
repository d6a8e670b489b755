//! Wires the layers together.
