//! A received frame, from its Ethernet header on.
//!
//! Decides what Linux decides before a socket is looked up, and with the same
//! verdicts: `ip_rcv_core` and `__udp4_lib_rcv` for lengths and checksums (RFC 791 3.1,
//! RFC 768), `ip_route_input_slow` for sources that cannot be (RFC 1122 3.2.1.3).
//! Never looks at a table: whether the destination is ours is the caller's question,
//! and so is a loopback source on an interface that is not loopback.

use super::checksum::Sum;
use super::{ETHERNET_LEN, ETHERTYPE_IPV4, HEADERS_LEN, IPV4_LEN, PROTOCOL_UDP, UDP_LEN};
use std::net::{Ipv4Addr, SocketAddrV4};

const ETHERTYPE_VLAN: u16 = 0x8100;
const VLAN_ID: u16 = 0x0fff;
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

/// Whether the UDP checksum is to be verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// Nobody has looked at it.
    Verify,
    /// The device has found it good, or it was never computed because the frame did
    /// not leave this host (TP_STATUS_CSUMNOTREADY).
    Trusted,
}

/// A whole datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFrame<'a> {
    /// Sender.
    pub src: SocketAddrV4,
    /// Destination as the sender wrote it.
    pub dst: SocketAddrV4,
    /// Type of service, all eight bits.
    pub tos: u8,
    /// Time to live as it arrived.
    pub ttl: u8,
    /// Data, without padding.
    pub payload: &'a [u8],
}

/// A piece of a datagram (RFC 791 3.2). Its UDP header, if it has one, is not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Sender.
    pub src: Ipv4Addr,
    /// Destination.
    pub dst: Ipv4Addr,
    /// Identification.
    pub id: u16,
    /// Where it belongs in the IP payload, in bytes.
    pub offset: u16,
    /// Whether it is not the last one.
    pub more: bool,
    /// Type of service.
    pub tos: u8,
    /// Time to live.
    pub ttl: u8,
    /// This piece of the IP payload.
    pub payload: &'a [u8],
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A datagram for whoever is bound there.
    Udp(UdpFrame<'a>),
    /// A fragment of a UDP datagram.
    Fragment(Fragment<'a>),
    /// Not IPv4, not UDP, in a VLAN, or from a source that Linux takes from nobody.
    NotOurs,
    /// Lengths or options that contradict each other.
    Malformed,
    /// A checksum of IPv4 or UDP is wrong.
    BadChecksum,
}

/// The ordinary datagram, still in its frame: untagged Ethernet, IPv4 without options, in
/// one piece, UDP; header checksum and lengths are right. Nothing else is known of it yet.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a> {
    header: &'a [u8; HEADERS_LEN],
    payload: &'a [u8],
}

/// Both addresses and both ports as they lie in the headers, for comparing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    addresses: u64,
    ports: u32,
}

impl<'a> Plain<'a> {
    /// None: anything else, or something is wrong; [`parse()`] tells.
    #[inline(always)]
    #[must_use]
    pub fn new(frame: &'a [u8]) -> Option<Self> {
        let h = frame.first_chunk::<HEADERS_LEN>()?;
        let is = |at, (mask, value): Masked| u32::from_ne_bytes(field(h, at)) & mask == value;
        if !is(12, PLAIN) || !is(20, WHOLE_UDP) {
            return None;
        }
        let total = usize::from(u16::from_be_bytes(field(h, 16)));
        let udp_len = usize::from(u16::from_be_bytes(field(h, 38)));
        if ETHERNET_LEN + total > frame.len() || IPV4_LEN + udp_len > total {
            return None;
        }
        let payload = frame.get(HEADERS_LEN..ETHERNET_LEN + IPV4_LEN + udp_len)?;
        header_holds(h).then_some(Self { header: h, payload })
    }

    /// Data, without padding.
    #[inline(always)]
    #[must_use]
    pub const fn payload(&self) -> &'a [u8] {
        self.payload
    }

    /// Who to whom.
    #[inline(always)]
    #[must_use]
    pub fn ends(&self) -> Ends {
        Ends {
            addresses: u64::from_ne_bytes(field(self.header, 26)),
            ports: u32::from_ne_bytes(field(self.header, 34)),
        }
    }

    /// Whether the UDP checksum is right, or the sender left it out.
    #[inline(always)]
    #[must_use]
    pub fn checksum_holds(&self) -> bool {
        checksum_holds(self.header, self.payload)
    }

    /// What [`parse()`] says of its frame.
    #[inline]
    #[must_use]
    pub fn judge(&self, checksum: Checksum) -> Parsed<'a> {
        let udp = self.datagram();
        if is_impossible_source(*udp.src.ip(), *udp.dst.ip()) {
            return Parsed::NotOurs;
        }
        if checksum == Checksum::Verify && !self.checksum_holds() {
            return Parsed::BadChecksum;
        }
        Parsed::Udp(udp)
    }

    /// The datagram; its checksum and its source are the caller's to judge.
    #[inline(always)]
    #[must_use]
    pub fn datagram(&self) -> UdpFrame<'a> {
        let h = self.header;
        let address = |at| Ipv4Addr::from(field::<4>(h, at));
        let port = |at| u16::from_be_bytes(field(h, at));
        UdpFrame {
            src: SocketAddrV4::new(address(26), port(34)),
            dst: SocketAddrV4::new(address(30), port(36)),
            tos: h[15],
            ttl: h[22],
            payload: self.payload,
        }
    }
}

/// The checksum of the IPv4 header is right.
#[inline(always)]
fn header_holds(h: &[u8; HEADERS_LEN]) -> bool {
    Sum::ZERO
        .add_bytes8(field(h, 14))
        .add_bytes8(field(h, 22))
        .add_bytes4(field(h, 30))
        .is_valid()
}

/// See [`Plain::checksum_holds`]. A function of its own: it gets by with the registers that
/// its callers do not keep, and where a device vouches nobody calls it.
#[inline(never)]
fn checksum_holds(h: &[u8; HEADERS_LEN], payload: &[u8]) -> bool {
    if field(h, 40) == [0, 0] {
        return true;
    }
    let length = u16::from_ne_bytes(field(h, 38));
    Sum::of_words([length, u16::from(PROTOCOL_UDP).to_be()])
        .add_bytes8(field(h, 26))
        .add_bytes8(field(h, 34))
        .add_slice(payload)
        .is_valid()
}

impl Ends {
    /// Nobody to nobody.
    pub const NONE: Self = Self {
        addresses: 0,
        ports: 0,
    };

    /// The payload of a frame that is [`Plain`], between these ends, fills its IP packet and
    /// has a checksum that holds, where nobody has vouched for it. None: it takes a closer look.
    #[inline(always)]
    #[must_use]
    pub fn payload<'a>(&self, frame: &'a [u8], trusted: bool) -> Option<&'a [u8]> {
        let h = frame.first_chunk::<HEADERS_LEN>()?;
        // One comparison for all.
        let differs = u64::from_ne_bytes(field(h, 26)) ^ self.addresses
            | u64::from(u32::from_ne_bytes(field(h, 34)) ^ self.ports)
            | u64::from(u32::from_ne_bytes(field(h, 12)) & PLAIN.0 ^ PLAIN.1)
            | u64::from(u32::from_ne_bytes(field(h, 20)) & WHOLE_UDP.0 ^ WHOLE_UDP.1);
        if differs != 0 {
            return None;
        }
        let udp_len = usize::from(u16::from_be_bytes(field(h, 38)));
        let total = usize::from(u16::from_be_bytes(field(h, 16)));
        if udp_len + IPV4_LEN != total {
            return None;
        }
        let payload = frame.get(HEADERS_LEN..ETHERNET_LEN + IPV4_LEN + udp_len)?;
        (header_holds(h) && (trusted || checksum_holds(h, payload))).then_some(payload)
    }
}

/// Of a word of the headers: which bits, and what they are, in an ordinary datagram.
type Masked = (u32, u32);

/// From 12: ethertype IPv4, version 4, 20 bytes of header.
const PLAIN: Masked = (0xffff_ff00_u32.to_be(), 0x0800_4500_u32.to_be());

/// From 20: not a fragment, whatever its TTL, and UDP.
const WHOLE_UDP: Masked = (
    (((MORE_FRAGMENTS | FRAGMENT_OFFSET) as u32) << 16 | 0xff).to_be(),
    (PROTOCOL_UDP as u32).to_be(),
);

/// Takes a frame apart.
///
/// Untagged or priority-tagged (802.1Q with VLAN id 0) Ethernet, IPv4 with or without
/// options, UDP. Bytes behind the IP total length are padding; bytes of the IP payload
/// behind the UDP length are ignored, as Linux does.
#[inline]
#[must_use]
pub fn parse(frame: &[u8], checksum: Checksum) -> Parsed<'_> {
    match Plain::new(frame) {
        Some(plain) => plain.judge(checksum),
        None => parse_general(frame, checksum),
    }
}

/// The bytes of a header field, in one load.
#[inline(always)]
fn field<const N: usize>(header: &[u8; HEADERS_LEN], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&header[at..at + N]);
    bytes
}

/// Takes a UDP header and its data apart (RFC 768), for a datagram that came in pieces.
/// `ip_payload` is everything behind the IP header.
#[must_use]
pub fn parse_udp(
    (src, dst): (Ipv4Addr, Ipv4Addr),
    tos: u8,
    ttl: u8,
    ip_payload: &[u8],
    checksum: Checksum,
) -> Parsed<'_> {
    let Some(h) = ip_payload.first_chunk::<UDP_LEN>() else {
        return Parsed::Malformed;
    };
    let length = u16::from_be_bytes([h[4], h[5]]);
    let Some(payload) = ip_payload.get(UDP_LEN..usize::from(length)) else {
        return Parsed::Malformed;
    };
    if checksum == Checksum::Verify && [h[6], h[7]] != [0, 0] {
        let sum = pseudo_header(src, dst, length)
            .add_bytes8(*h)
            .add_slice(payload);
        if !sum.is_valid() {
            return Parsed::BadChecksum;
        }
    }
    Parsed::Udp(UdpFrame {
        src: SocketAddrV4::new(src, u16::from_be_bytes([h[0], h[1]])),
        dst: SocketAddrV4::new(dst, u16::from_be_bytes([h[2], h[3]])),
        tos,
        ttl,
        payload,
    })
}

/// The pseudo header of RFC 768.
pub(super) fn pseudo_header(src: Ipv4Addr, dst: Ipv4Addr, udp_len: u16) -> Sum {
    Sum::ZERO
        .add_bytes4(src.octets())
        .add_bytes4(dst.octets())
        .add_field(u16::from(PROTOCOL_UDP))
        .add_field(udp_len)
}

/// Everything that the fast path leaves: tags, options, fragments, short frames.
#[cold]
#[inline(never)]
fn parse_general(frame: &[u8], checksum: Checksum) -> Parsed<'_> {
    let Some((ethernet, mut rest)) = frame.split_first_chunk::<ETHERNET_LEN>() else {
        return Parsed::Malformed;
    };
    let mut ethertype = u16::from_be_bytes([ethernet[12], ethernet[13]]);
    if ethertype == ETHERTYPE_VLAN {
        let Some((tag, inner)) = rest.split_first_chunk::<4>() else {
            return Parsed::Malformed;
        };
        if u16::from_be_bytes([tag[0], tag[1]]) & VLAN_ID != 0 {
            return Parsed::NotOurs;
        }
        ethertype = u16::from_be_bytes([tag[2], tag[3]]);
        rest = inner;
    }
    if ethertype != ETHERTYPE_IPV4 {
        return Parsed::NotOurs;
    }
    parse_ipv4(rest, checksum)
}

fn parse_ipv4(packet: &[u8], checksum: Checksum) -> Parsed<'_> {
    let Some(h) = packet.first_chunk::<IPV4_LEN>() else {
        return Parsed::Malformed;
    };
    let header_len = usize::from(h[0] & 0x0f) * 4;
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    if h[0] >> 4 != 4 || header_len < IPV4_LEN {
        return Parsed::Malformed;
    }
    let Some(header) = packet.get(..header_len) else {
        return Parsed::Malformed;
    };
    if !Sum::ZERO.add_slice(header).is_valid() {
        return Parsed::BadChecksum;
    }
    // Also malformed where the total length is below the header's or beyond the frame.
    let Some(payload) = packet.get(header_len..total) else {
        return Parsed::Malformed;
    };
    if h[9] != PROTOCOL_UDP {
        return Parsed::NotOurs;
    }
    let src = Ipv4Addr::new(h[12], h[13], h[14], h[15]);
    let dst = Ipv4Addr::new(h[16], h[17], h[18], h[19]);
    if is_impossible_source(src, dst) {
        return Parsed::NotOurs;
    }
    match check_options(&header[IPV4_LEN..]) {
        Options::Fine => {}
        Options::SourceRoute => return Parsed::NotOurs,
        Options::Malformed => return Parsed::Malformed,
    }
    let fragment = u16::from_be_bytes([h[6], h[7]]);
    if fragment & (MORE_FRAGMENTS | FRAGMENT_OFFSET) == 0 {
        return parse_udp((src, dst), h[1], h[8], payload, checksum);
    }
    Parsed::Fragment(Fragment {
        src,
        dst,
        id: u16::from_be_bytes([h[4], h[5]]),
        offset: (fragment & FRAGMENT_OFFSET) * 8,
        more: fragment & MORE_FRAGMENTS != 0,
        tos: h[1],
        ttl: h[8],
        payload,
    })
}

enum Options {
    Fine,
    SourceRoute,
    Malformed,
}

/// Walks the options (RFC 791 3.1). Source-routed datagrams are dropped by Linux unless
/// `accept_source_route` is set for all interfaces and the receiving one.
fn check_options(mut options: &[u8]) -> Options {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    while let [kind, rest @ ..] = options {
        options = match *kind {
            END => return Options::Fine,
            NO_OPERATION => rest,
            LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => return Options::SourceRoute,
            _ => match rest.first().map(|len| usize::from(*len)) {
                Some(len) if len >= 2 && len <= options.len() => &options[len..],
                _ => return Options::Malformed,
            },
        };
    }
    Options::Fine
}

/// Sources from which Linux takes nothing, whatever its routes: multicast, the limited
/// broadcast, and 0.0.0.0 except where a host without an address may speak (to the limited
/// broadcast, to 0.0.0.0, and to 224.0.0.0/24). The rest of 0.0.0.0/8 is as good as any
/// other (`ipv4_is_zeronet` since Linux 5.3).
#[inline]
fn is_impossible_source(src: Ipv4Addr, dst: Ipv4Addr) -> bool {
    if src.is_multicast() || src.is_broadcast() {
        return true;
    }
    if !src.is_unspecified() || dst.is_broadcast() {
        return false;
    }
    let link_local_group = dst.octets()[..3] == [224, 0, 0];
    !(link_local_group || dst.is_unspecified())
}

#[cfg(test)]
mod tests;
