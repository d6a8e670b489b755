//! UDP sockets: state, options, receive queue, who gets a datagram.

mod control;
mod core;
mod demux;
mod groups;
mod handover;
pub mod io;
mod path;
mod recv;
mod route;
mod send;
mod udp;

pub(crate) use core::ForkState;
pub use core::{Announce, Core, Tuning, in_forked_child};
pub use path::Ring;
pub use udp::{Family, Mode, SockAddrArg, UdpSocket};
