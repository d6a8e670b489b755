//! What a card's receive path undoes: the sender's kernel leaves checksums and segmentation to
//! its card, and a virtual link carries such frames as they are.
//!
//! Source: RFC 768, RFC 791, RFC 1071; Documentation/networking/segmentation-offloads.rst (UDP).

use std::ops::Range;

const ETHERNET: usize = 14;
const UDP_HEADER: usize = 8;
const PROTOCOL_UDP: u8 = 17;

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Ones' complement sum, not folded.
fn sum(bytes: &[u8]) -> u64 {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let whole: u64 = pairs
        .iter()
        .map(|&p| u64::from(u16::from_be_bytes(p)))
        .sum();
    whole + rest.first().map_or(0, |&b| u64::from(b) << 8)
}

fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Where the headers of an untagged, unfragmented IPv4 UDP frame are.
struct Udp {
    ip: Range<usize>,
    udp: usize,
    /// End of the datagram, before padding.
    end: usize,
}

impl Udp {
    fn of(frame: &[u8]) -> Option<Self> {
        if frame.len() < ETHERNET + 20 || be16(frame, 12) != 0x0800 {
            return None;
        }
        let udp = ETHERNET + usize::from(frame[ETHERNET] & 0x0f) * 4;
        let end = ETHERNET + usize::from(be16(frame, ETHERNET + 2));
        let fragment = be16(frame, ETHERNET + 6) & 0x3fff != 0;
        if frame[ETHERNET + 9] != PROTOCOL_UDP
            || fragment
            || udp < ETHERNET + 20
            || udp + UDP_HEADER > end
            || end > frame.len()
        {
            return None;
        }
        Some(Self {
            ip: ETHERNET..udp,
            udp,
            end,
        })
    }

    fn pseudo(&self, frame: &[u8], length: usize) -> u64 {
        sum(&frame[ETHERNET + 12..ETHERNET + 20]) + u64::from(PROTOCOL_UDP) + length as u64
    }
}

/// Whether the UDP checksum is one that the sender's card was to finish: the field holds the sum
/// of the pseudo header alone.
pub(super) fn is_unfinished(frame: &[u8]) -> bool {
    Udp::of(frame).is_some_and(|at| {
        be16(frame, at.udp + 6) == fold(at.pseudo(frame, usize::from(be16(frame, at.udp + 4))))
    })
}

/// Writes the `index`-th datagram of a UDP super-frame with `segment` bytes of payload each;
/// its length, and whether it is the last. `None`: no such frame.
pub(super) fn segment(
    frame: &[u8],
    segment: usize,
    index: usize,
    into: &mut [u8],
) -> Option<(usize, bool)> {
    let at = Udp::of(frame)?;
    let payload = at.udp + UDP_HEADER;
    let start = payload + segment * index;
    if segment == 0 || (start >= at.end && index > 0) {
        return None;
    }
    let end = (start + segment).min(at.end);
    let len = payload + end - start;
    let out = into.get_mut(..len)?;
    out[..payload].copy_from_slice(&frame[..payload]);
    out[payload..].copy_from_slice(&frame[start..end]);

    let ip = at.ip.start;
    out[ip + 2..ip + 4].copy_from_slice(&((len - ip) as u16).to_be_bytes());
    let id = be16(frame, ip + 4).wrapping_add(index as u16);
    out[ip + 4..ip + 6].copy_from_slice(&id.to_be_bytes());
    out[ip + 10..ip + 12].fill(0);
    let check = !fold(sum(&out[at.ip.clone()]));
    out[ip + 10..ip + 12].copy_from_slice(&check.to_be_bytes());

    let datagram = len - at.udp;
    out[at.udp + 4..at.udp + 6].copy_from_slice(&(datagram as u16).to_be_bytes());
    out[at.udp + 6..at.udp + 8].fill(0);
    let check = match !fold(at.pseudo(out, datagram) + sum(&out[at.udp..])) {
        0 => 0xffff,
        other => other,
    };
    out[at.udp + 6..at.udp + 8].copy_from_slice(&check.to_be_bytes());
    Some((len, end == at.end))
}

/// Writes the frame with its 802.1Q tag in line.
pub(super) fn tagged(frame: &[u8], tag: u16, into: &mut [u8]) -> Option<usize> {
    let out = into.get_mut(..frame.len() + 4)?;
    out[..12].copy_from_slice(frame.get(..12)?);
    out[12..14].copy_from_slice(&0x8100u16.to_be_bytes());
    out[14..16].copy_from_slice(&tag.to_be_bytes());
    out[16..].copy_from_slice(&frame[12..]);
    Some(out.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        let total = (28 + payload.len()) as u16;
        frame.extend([0x45, 0]);
        frame.extend(total.to_be_bytes());
        frame.extend([0xff, 0xfe, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0x12, 0x34, 0x56, 0x78]);
        frame.extend((total - 20).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        frame
    }

    fn checks(frame: &[u8]) -> (u16, u16) {
        let at = Udp::of(frame).expect("a UDP frame");
        let ip = fold(sum(&frame[at.ip.clone()]));
        let udp = fold(at.pseudo(frame, at.end - at.udp) + sum(&frame[at.udp..at.end]));
        (ip, udp)
    }

    #[test]
    fn a_super_frame_becomes_whole_datagrams_that_check() {
        let payload: Vec<u8> = (0..2500u32).map(|i| i as u8).collect();
        let frame = datagram(&payload);
        let mut out = vec![0; 2048];
        let mut got = Vec::new();
        let mut ids = Vec::new();
        for index in 0.. {
            let (len, last) = segment(&frame, 1000, index, &mut out).expect("a segment");
            assert_eq!(checks(&out[..len]), (0xffff, 0xffff));
            ids.push(be16(&out, 18));
            got.extend_from_slice(&out[42..len]);
            if last {
                break;
            }
        }
        assert_eq!(got, payload);
        assert_eq!(ids, [0xfffe, 0xffff, 0]);
        assert_eq!(segment(&frame, 1000, 3, &mut out), None);
    }

    #[test]
    fn a_pseudo_header_sum_is_an_unfinished_checksum() {
        let mut frame = datagram(b"hello");
        assert!(!is_unfinished(&frame));
        let at = Udp::of(&frame).expect("a UDP frame");
        let partial = fold(at.pseudo(&frame, 13));
        frame[40..42].copy_from_slice(&partial.to_be_bytes());
        assert!(is_unfinished(&frame));
        // One bit more, and it is a wrong checksum.
        frame[41] ^= 1;
        assert!(!is_unfinished(&frame));
    }

    #[test]
    fn a_tag_goes_behind_the_addresses() {
        let frame = datagram(b"x");
        let mut out = vec![0; 128];
        let len = tagged(&frame, 0x6005, &mut out).expect("room");
        assert_eq!(len, frame.len() + 4);
        assert_eq!(out[12..18], [0x81, 0, 0x60, 5, 8, 0]);
        assert_eq!(out[18..len], frame[14..]);
    }
}
