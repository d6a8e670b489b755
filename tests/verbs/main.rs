//! What is the verbs device's alone, on the software verbs library: mixed hosts, faults, its
//! two wires, what the doctor says of it, and the real libibverbs on a machine without a card.
//!
//! That everything else behaves on it as on `packet` is the matter of the other suites, run
//! with `SHIM_TEST_BACKEND=verbs`.

mod doctor;
mod faults;
mod mixed;
mod mtu;
mod options;
mod real;
mod rig;
mod stamps;
mod steady;
mod wires;
