//! UDP sockets: state, options, receive queue, who gets a datagram.

pub mod io;
mod udp;

pub use udp::{Family, SockAddrArg, UdpSocket};
