//! UDP sockets: state, options, receive queue, who gets a datagram.

mod beaten;
mod change;
mod company;
mod control;
mod core;
mod demux;
mod directory;
mod fault;
mod fork;
mod groups;
mod handover;
pub mod io;
mod migrate;
mod moving;
mod path;
mod recv;
mod replan;
mod rings;
mod route;
mod rules;
mod send;
mod share;
mod steer;
mod told;
mod udp;
mod unwanted;

pub use core::{Announce, Core, Follower, Tuning};
pub(crate) use fork::ForkState;
pub use fork::{held_elsewhere, in_forked_child};
pub use path::Ring;
pub(crate) use share::LOOK_EVERY;
pub use told::Calls;
pub use udp::{Family, Mode, SockAddrArg, UdpSocket};
