//! The one frame that each end sends: built once, only the payload changes.
//!
//! Both kinds have the same length, so that they cost the same to copy.
//! Source: RFC 791 section 3.1, RFC 768 (a checksum of zero means none).

use std::net::Ipv4Addr;
use std::str::FromStr;

/// IEEE 802 local experimental ethertype 1: no protocol of the kernel takes it.
pub(crate) const ETHERTYPE_EXPERIMENTAL: u16 = 0x88b5;
const ETHERTYPE_IPV4: u16 = 0x0800;
/// Bytes of payload, as in the sockperf runs.
pub(crate) const PAYLOAD: usize = 64;
const HEADERS: usize = 14 + 20 + 8;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MacAddress(pub(crate) [u8; 6]);

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes: Result<Vec<u8>, _> = text
            .split(':')
            .map(|part| u8::from_str_radix(part, 16))
            .collect();
        bytes
            .ok()
            .and_then(|b| <[u8; 6]>::try_from(b).ok())
            .map(Self)
            .ok_or_else(|| "six bytes in hexadecimal, as aa:bb:cc:dd:ee:ff".into())
    }
}

/// Both ends use the same port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UdpPath {
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    pub(crate) port: u16,
}

/// What one end sends.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    bytes: [u8; HEADERS + PAYLOAD],
}

impl Frame {
    fn ethernet(source: MacAddress, destination: MacAddress, ethertype: u16) -> Self {
        let mut bytes = [0; HEADERS + PAYLOAD];
        bytes[0..6].copy_from_slice(&destination.0);
        bytes[6..12].copy_from_slice(&source.0);
        bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
        Self { bytes }
    }

    /// A frame that only a ring takes.
    pub(crate) fn bare(source: MacAddress, destination: MacAddress) -> Self {
        Self::ethernet(source, destination, ETHERTYPE_EXPERIMENTAL)
    }

    /// A UDP datagram.
    pub(crate) fn udp(source: MacAddress, destination: MacAddress, path: &UdpPath) -> Self {
        let mut frame = Self::ethernet(source, destination, ETHERTYPE_IPV4);
        let ip = &mut frame.bytes[14..34];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&((20 + 8 + PAYLOAD) as u16).to_be_bytes());
        ip[6] = 0x40; // don't fragment
        ip[8] = 64; // time to live
        ip[9] = 17; // UDP
        ip[12..16].copy_from_slice(&path.source.octets());
        ip[16..20].copy_from_slice(&path.destination.octets());
        let sum = header_checksum(ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let udp = &mut frame.bytes[34..42];
        udp[0..2].copy_from_slice(&path.port.to_be_bytes());
        udp[2..4].copy_from_slice(&path.port.to_be_bytes());
        udp[4..6].copy_from_slice(&((8 + PAYLOAD) as u16).to_be_bytes());
        frame
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[HEADERS..]
    }

    /// The payload of a received frame of the same kind.
    pub(crate) fn payload_of<'a>(&self, received: &'a [u8]) -> Option<&'a [u8; PAYLOAD]> {
        if received.get(12..14) != Some(&self.bytes[12..14]) {
            return None;
        }
        received.get(HEADERS..HEADERS + PAYLOAD)?.try_into().ok()
    }
}

/// One's complement sum of 16-bit words (RFC 1071); the checksum field counts as zero.
fn header_checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = header
        .chunks_exact(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const B: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);

    #[test]
    fn checksum_of_the_textbook_header() {
        let header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0x00,
            0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        assert_eq!(header_checksum(&header), 0xb861);
    }

    #[test]
    fn udp_frame_is_what_the_wire_wants() {
        let path = UdpPath {
            source: Ipv4Addr::new(10, 77, 1, 1),
            destination: Ipv4Addr::new(10, 77, 1, 2),
            port: 11_112,
        };
        let frame = Frame::udp(A, B, &path);
        let bytes = frame.bytes();
        assert_eq!(&bytes[..14], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        assert_eq!(
            header_checksum(&bytes[14..34]),
            0,
            "sums to zero with its checksum"
        );
        assert_eq!(u16::from_be_bytes([bytes[16], bytes[17]]), 92);
        assert_eq!(u16::from_be_bytes([bytes[38], bytes[39]]), 72);
        assert_eq!(bytes.len(), 106);
    }

    #[test]
    fn frames_of_another_kind_are_not_ours() {
        let mut bare = Frame::bare(A, B);
        bare.payload_mut()[0] = 7;
        assert_eq!(bare.payload_of(bare.bytes()).map(|p| p[0]), Some(7));
        let path = UdpPath {
            source: Ipv4Addr::LOCALHOST,
            destination: Ipv4Addr::LOCALHOST,
            port: 1,
        };
        assert!(bare.payload_of(Frame::udp(A, B, &path).bytes()).is_none());
        assert!(bare.payload_of(&bare.bytes()[..60]).is_none());
    }

    #[test]
    fn addresses() {
        assert_eq!("02:00:00:00:00:01".parse(), Ok(A));
        assert!("02:00:00:00:00".parse::<MacAddress>().is_err());
        assert!("02:00:00:00:00:0g".parse::<MacAddress>().is_err());
    }
}
