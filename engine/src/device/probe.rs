//! Which interfaces can be accelerated, and by which backend. Pure but for opening.

use super::{Backend, Memory, Packet};
use crate::config::{BackendChoice, Config};
use crate::error::Reason;
use crate::net::{Interface, LinkKind};

/// Whether configuration and the interface's own state allow acceleration.
///
/// # Errors
/// The reason why not.
pub fn usable(config: &Config, interface: &Interface) -> Result<(), Reason> {
    let named = config.interfaces();
    let is_named = named.contains(&interface.name);
    if !named.is_empty() && !is_named {
        return Err(Reason::NotNamed);
    }
    match interface.kind {
        LinkKind::Ethernet => {}
        // Loopback frames carry an Ethernet header too.
        LinkKind::Loopback if is_named => {}
        LinkKind::Loopback => return Err(Reason::Loopback),
        LinkKind::Other => return Err(Reason::NotEthernet),
    }
    if interface.master.is_some() {
        return Err(Reason::Enslaved);
    }
    if !interface.up {
        return Err(Reason::InterfaceDown);
    }
    if interface.addresses.is_empty() {
        return Err(Reason::NoAddress);
    }
    Ok(())
}

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
