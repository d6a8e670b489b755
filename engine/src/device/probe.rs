//! The backend for a configuration. Pure.

use super::{Backend, Memory, Packet};
use crate::config::BackendChoice;
use crate::error::Reason;

/// The backend for SHIM_BACKEND, with the words that explain the choice.
///
/// # Errors
/// A backend that this build does not have, or `off`.
pub fn choose(choice: BackendChoice) -> Result<(&'static dyn Backend, &'static str), Reason> {
    match choice {
        BackendChoice::Off => Err(Reason::SwitchedOff),
        BackendChoice::Packet => Ok((&Packet, "SHIM_BACKEND=packet")),
        BackendChoice::Memory => Ok((&Memory, "SHIM_BACKEND=memory")),
        BackendChoice::Auto => Ok((
            &Packet,
            "SHIM_BACKEND=auto; verbs and xdp are not part of this build, packet works on any interface",
        )),
        BackendChoice::Verbs | BackendChoice::Xdp => Err(Reason::NoBackend),
    }
}
