//! Which interfaces can be accelerated at all, whatever the backend. Pure.

use super::{Interface, LinkKind};
use crate::config::Config;
use crate::error::Reason;

/// Whether configuration and the interface's own state allow acceleration.
///
/// # Errors
/// The reason why not.
pub fn usable(config: &Config, interface: &Interface) -> Result<(), Reason> {
    let named = config.interfaces();
    let is_named = named.contains(&interface.name);
    if interface.kind == LinkKind::Loopback && !is_named {
        return Err(Reason::Loopback);
    }
    if !named.is_empty() && !is_named {
        return Err(Reason::NotNamed);
    }
    match interface.kind {
        // Loopback frames carry an Ethernet header too.
        LinkKind::Ethernet | LinkKind::Loopback => {}
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
