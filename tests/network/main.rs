//! What passes over the wire: groups, fragments, neighbours, routes, other
//! processes, and the field's own test programs.

mod delivery;
mod multicast;
mod programs;
mod rings;
mod vlan;
