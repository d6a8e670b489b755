//! Headers for one destination, finished but for what differs from datagram to datagram.
//!
//! Owns the layout of a frame that is sent: Ethernet II, IPv4 without options (RFC 791
//! 3.1), UDP (RFC 768). Never decides a route, an MTU or an identification.
//!
//! The identification is the caller's. Observed on Linux 6.18 (and `ip_select_ident`):
//! a connected socket counts up from a random start, whatever IP_MTU_DISCOVER says; an
//! unconnected one sends 0 where DF is set by IP_PMTUDISC_DO or _PROBE, and otherwise
//! (the default, _WANT, which sets DF too) a count per source, destination and protocol.

use super::checksum::Sum;
use super::fragment::Fragments;
use super::parse::pseudo_header;
use super::{ETHERNET_LEN, HEADERS_LEN, IPV4_LEN, MAX_PAYLOAD, PROTOCOL_UDP, UDP_LEN};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::Deref;

/// What the headers of a destination say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemplateSpec {
    /// The interface's own address.
    pub src_mac: [u8; 6],
    /// Next hop, or [`multicast_mac`].
    pub dst_mac: [u8; 6],
    /// Source address and port.
    pub src: SocketAddrV4,
    /// Destination address and port.
    pub dst: SocketAddrV4,
    /// Time to live.
    pub ttl: u8,
    /// Type of service, all eight bits.
    pub tos: u8,
    /// The DF flag of datagrams that fit the MTU.
    pub dont_fragment: bool,
    /// Whether to compute the UDP checksum (SO_NO_CHECK is its opposite).
    pub udp_checksum: bool,
}

/// Finished headers and the partial sums that go with them. Lengths, identification and
/// checksums are zero in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderTemplate {
    header: [u8; HEADERS_LEN],
    udp_checksum: bool,
    /// IPv4 header without lengths, identification, checksum; folded.
    ip_sum: u16,
    /// Pseudo header and UDP header without lengths and checksum; folded.
    udp_sum: u16,
}

impl HeaderTemplate {
    /// Writes the headers.
    #[must_use]
    pub fn new(spec: &TemplateSpec) -> Self {
        let mut header = [0; HEADERS_LEN];
        header[0..6].copy_from_slice(&spec.dst_mac);
        header[6..12].copy_from_slice(&spec.src_mac);
        header[12..14].copy_from_slice(&super::ETHERTYPE_IPV4.to_be_bytes());
        header[14] = 0x45;
        header[15] = spec.tos;
        header[20] = if spec.dont_fragment { DONT_FRAGMENT } else { 0 };
        header[22] = spec.ttl;
        header[23] = PROTOCOL_UDP;
        header[26..30].copy_from_slice(&spec.src.ip().octets());
        header[30..34].copy_from_slice(&spec.dst.ip().octets());
        header[34..36].copy_from_slice(&spec.src.port().to_be_bytes());
        header[36..38].copy_from_slice(&spec.dst.port().to_be_bytes());
        let ip_sum = Sum::ZERO
            .add_slice(&header[ETHERNET_LEN..ETHERNET_LEN + IPV4_LEN])
            .fold();
        let udp_sum = pseudo_header(*spec.src.ip(), *spec.dst.ip(), 0)
            .add_field(spec.src.port())
            .add_field(spec.dst.port())
            .fold();
        Self {
            header,
            udp_checksum: spec.udp_checksum,
            ip_sum,
            udp_sum,
        }
    }

    /// Writes one whole frame into `out`, the parts of `payload` one after the other, and
    /// answers its length in bytes, without frame check sequence and without padding to
    /// the Ethernet minimum (the driver's).
    ///
    /// `None` if `out` is too short or the payload above [`MAX_PAYLOAD`]. Whether it fits
    /// the MTU is the caller's to know: see [`HeaderTemplate::fragments`].
    #[inline(always)]
    #[must_use]
    pub fn build<S: Deref<Target = [u8]>>(
        &self,
        out: &mut [u8],
        payload: &[S],
        ip_id: u16,
    ) -> Option<usize> {
        let [single] = payload else {
            return self.build_gathered(out, payload, ip_id);
        };
        let frame_len = HEADERS_LEN + single.len();
        let out = out.get_mut(..frame_len)?;
        let (header, data) = out.split_first_chunk_mut::<HEADERS_LEN>()?;
        let udp_len = udp_length(single.len())?;
        // Also where no checksum is asked for: it is copied, and that is seldom.
        let sum = Sum::ZERO.add_copied(data, single);
        self.write_header(header, udp_len, ip_id, sum);
        Some(frame_len)
    }

    /// The same datagram as the frames that an IP MTU of `mtu` bytes allows, one for each
    /// call of [`Fragments::write_next`] (RFC 791 3.2). DF is off in them, as Linux sends
    /// them; a socket that forbids fragmentation must not come here.
    ///
    /// `None` if the payload is above [`MAX_PAYLOAD`] or the MTU below 28, which leaves no
    /// room for eight bytes of data.
    #[must_use]
    pub fn fragments<'a, S: Deref<Target = [u8]>>(
        &self,
        payload: &'a [S],
        mtu: usize,
        ip_id: u16,
    ) -> Option<Fragments<'a, S>> {
        let length = gathered_len(payload)?;
        let udp_len = udp_length(length)?;
        let mut header = [0; HEADERS_LEN];
        let sum = if self.udp_checksum {
            gathered_sum(payload)
        } else {
            Sum::ZERO
        };
        self.write_header(&mut header, udp_len, ip_id, sum);
        header[20] = 0;
        Fragments::new(header, payload, length, mtu)
    }

    #[cold]
    fn build_gathered<S: Deref<Target = [u8]>>(
        &self,
        out: &mut [u8],
        payload: &[S],
        ip_id: u16,
    ) -> Option<usize> {
        let length = gathered_len(payload)?;
        let udp_len = udp_length(length)?;
        let out = out.get_mut(..HEADERS_LEN + length)?;
        let (header, mut data) = out.split_first_chunk_mut::<HEADERS_LEN>()?;
        for part in payload {
            let (to, rest) = data.split_at_mut(part.len());
            to.copy_from_slice(part);
            data = rest;
        }
        let sum = if self.udp_checksum {
            gathered_sum(payload)
        } else {
            Sum::ZERO
        };
        self.write_header(header, udp_len, ip_id, sum);
        Some(HEADERS_LEN + length)
    }

    /// Fills in what differs from datagram to datagram. `data` is the payload's sum.
    #[inline(always)]
    fn write_header(&self, out: &mut [u8; HEADERS_LEN], udp_len: u16, ip_id: u16, data: Sum) {
        let (total, udp_len) = ((udp_len + IPV4_LEN as u16).to_be(), udp_len.to_be());
        let ip_id = ip_id.to_be();
        let ip_check = Sum::finish_words([self.ip_sum, total, ip_id]);
        *out = self.header;
        out[16..18].copy_from_slice(&total.to_ne_bytes());
        out[18..20].copy_from_slice(&ip_id.to_ne_bytes());
        out[24..26].copy_from_slice(&ip_check);
        out[38..40].copy_from_slice(&udp_len.to_ne_bytes());
        if self.udp_checksum {
            // The length counts twice: in the header and in the pseudo header.
            let sum = Sum::of_words([self.udp_sum, udp_len, udp_len]).plus(data);
            out[40..42].copy_from_slice(&sum.finish_udp());
        }
    }
}

const DONT_FRAGMENT: u8 = 0x40;

/// The Ethernet address of an IPv4 group: 01-00-5E and its low 23 bits (RFC 1112 6.4).
#[must_use]
pub fn multicast_mac(group: Ipv4Addr) -> [u8; 6] {
    let [_, b, c, d] = group.octets();
    [0x01, 0x00, 0x5e, b & 0x7f, c, d]
}

#[inline(always)]
fn udp_length(payload: usize) -> Option<u16> {
    // Below the limit the sum fits sixteen bits.
    (payload <= MAX_PAYLOAD).then_some((payload + UDP_LEN) as u16)
}

fn gathered_len<S: Deref<Target = [u8]>>(payload: &[S]) -> Option<usize> {
    payload
        .iter()
        .try_fold(0_usize, |sum, part| sum.checked_add(part.len()))
}

fn gathered_sum<S: Deref<Target = [u8]>>(payload: &[S]) -> Sum {
    let mut odd = false;
    let mut sum = Sum::ZERO;
    for part in payload {
        let part_sum = Sum::ZERO.add_slice(part);
        sum = sum.plus(if odd { part_sum.swapped() } else { part_sum });
        odd ^= part.len() % 2 == 1;
    }
    sum
}

#[cfg(test)]
mod tests;
