//! What passes over the wire: groups, fragments, neighbours, routes, other
//! processes, and the field's own test programs.

mod complaints;
mod deliver;
mod delivery;
mod frames;
mod groups;
mod life;
mod multicast;
mod pieces;
mod programs;
mod rings;
mod sent;
mod siblings;
mod vlan;
