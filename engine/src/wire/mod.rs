//! Frames and headers: Ethernet, IPv4 and UDP, both ways.
//!
//! Owns the bytes of a frame and nothing else: no state of a socket, no table, no
//! clock, no system call. What a frame says is decided here; who wants it is not.
//!
//! - [`checksum`]: the Internet checksum (RFC 1071).
//! - [`mod@parse`]: a received frame as a datagram, a fragment, or none of our business.
//! - [`template`]: finished headers for one destination, and frames built from them.
//! - [`fragment`]: a datagram larger than the MTU as several frames (RFC 791 3.2).
//! - [`reassembly`]: fragments back into a datagram.

pub mod checksum;
pub mod fragment;
pub mod parse;
pub mod reassembly;
pub mod template;

pub use fragment::Fragments;
pub use parse::{Checksum, Ends, Fragment, Parsed, Plain, UdpFrame, parse, parse_udp};
pub use reassembly::{Reassembled, Reassembler};
pub use template::{HeaderTemplate, TemplateSpec, multicast_mac};

/// Length of an Ethernet header, without a tag or the frame check sequence.
pub const ETHERNET_LEN: usize = 14;
/// Length of an IPv4 header without options (RFC 791 3.1).
pub const IPV4_LEN: usize = 20;
/// Length of a UDP header (RFC 768).
pub const UDP_LEN: usize = 8;
/// Length of everything in front of the payload of an ordinary datagram.
pub const HEADERS_LEN: usize = ETHERNET_LEN + IPV4_LEN + UDP_LEN;
/// The most that one UDP datagram can carry: the IPv4 total length is 16 bits.
pub const MAX_PAYLOAD: usize = u16::MAX as usize - IPV4_LEN - UDP_LEN;

pub(crate) const PROTOCOL_UDP: u8 = 17;
pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
