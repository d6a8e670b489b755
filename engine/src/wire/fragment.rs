//! A datagram larger than the MTU, frame by frame (RFC 791 3.2).
//!
//! Owns the cutting. Never allocates: the caller lends a buffer, a transmit slot for
//! instance, for each frame.

use super::checksum::Sum;
use super::{ETHERNET_LEN, HEADERS_LEN, IPV4_LEN, UDP_LEN};
use std::ops::Deref;

const MORE_FRAGMENTS: u16 = 0x2000;
const LINK_AND_IP: usize = ETHERNET_LEN + IPV4_LEN;

/// The frames of one datagram, made by [`super::HeaderTemplate::fragments`].
#[derive(Debug)]
pub struct Fragments<'a, S> {
    /// Ethernet, IPv4 and the finished UDP header of the whole datagram.
    header: [u8; HEADERS_LEN],
    payload: &'a [S],
    /// Where the next byte is: part, and offset in it.
    cursor: (usize, usize),
    /// IP payload of the datagram, UDP header included.
    total: usize,
    /// IP payload already written.
    done: usize,
    /// IP payload of every fragment but the last: a multiple of eight.
    step: usize,
}

impl<'a, S: Deref<Target = [u8]>> Fragments<'a, S> {
    pub(super) fn new(
        header: [u8; HEADERS_LEN],
        payload: &'a [S],
        length: usize,
        mtu: usize,
    ) -> Option<Self> {
        let room = mtu.checked_sub(IPV4_LEN)?;
        let total = length + UDP_LEN;
        let step = if total <= room { total } else { room & !7 };
        (step > 0).then_some(Self {
            header,
            payload,
            cursor: (0, 0),
            total,
            done: 0,
            step,
        })
    }

    /// How many frames are still to come.
    #[must_use]
    pub fn remaining(&self) -> usize {
        (self.total - self.done).div_ceil(self.step)
    }

    /// Length of the longest frame: a buffer of that length takes any of them.
    #[must_use]
    pub fn max_frame_len(&self) -> usize {
        LINK_AND_IP + self.step
    }

    /// Writes the next frame and answers its length; `None` after the last one, and if
    /// `out` is too short, in which case nothing is consumed.
    #[must_use]
    pub fn write_next(&mut self, out: &mut [u8]) -> Option<usize> {
        let length = (self.total - self.done).min(self.step);
        if length == 0 {
            return None;
        }
        let out = out.get_mut(..LINK_AND_IP + length)?;
        let (headers, mut data) = out.split_at_mut(LINK_AND_IP);
        headers.copy_from_slice(&self.header[..LINK_AND_IP]);
        let more = if self.done + length < self.total {
            MORE_FRAGMENTS
        } else {
            0
        };
        let fragment = more | (self.done / 8) as u16;
        headers[16..18].copy_from_slice(&((IPV4_LEN + length) as u16).to_be_bytes());
        headers[20..22].copy_from_slice(&fragment.to_be_bytes());
        headers[24..26].fill(0);
        let check = Sum::ZERO.add_slice(&headers[ETHERNET_LEN..]).finish();
        headers[24..26].copy_from_slice(&check);
        if self.done == 0 {
            // A fragment carries eight bytes at least, so the UDP header is never cut.
            let (udp, rest) = data.split_at_mut(UDP_LEN);
            udp.copy_from_slice(&self.header[LINK_AND_IP..]);
            data = rest;
        }
        self.copy_payload(data);
        self.done += length;
        Some(LINK_AND_IP + length)
    }

    fn copy_payload(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            let (part, offset) = self.cursor;
            let Some(source) = self.payload.get(part) else {
                return;
            };
            let source = &source[offset..];
            let length = source.len().min(out.len());
            let (to, rest) = out.split_at_mut(length);
            to.copy_from_slice(&source[..length]);
            out = rest;
            let part_ends = length == source.len();
            self.cursor = if part_ends {
                (part + 1, 0)
            } else {
                (part, offset + length)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{
        Checksum, HeaderTemplate, MAX_PAYLOAD, Parsed, Reassembler, TemplateSpec, parse,
    };
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, SocketAddrV4};

    fn template() -> HeaderTemplate {
        HeaderTemplate::new(&TemplateSpec {
            src_mac: [2, 0, 0, 0, 0, 1],
            dst_mac: [2, 0, 0, 0, 0, 2],
            src: SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 1), 1000),
            dst: SocketAddrV4::new(Ipv4Addr::new(10, 9, 0, 2), 9),
            ttl: 64,
            tos: 0,
            dont_fragment: true,
            udp_checksum: true,
        })
    }

    #[test]
    fn cut_as_linux_cuts() {
        // 3000 bytes over an MTU of 1500, as seen from a socket of Linux 6.18.
        let data = [&[b'x'; 3000][..]];
        let mut fragments = template().fragments(&data, 1500, 0xabcd).unwrap();
        assert_eq!(fragments.remaining(), 3);
        assert_eq!(fragments.max_frame_len(), 1514);
        let mut buffer = [0; 2000];
        assert_eq!(fragments.write_next(&mut buffer[..100]), None);
        let mut seen = Vec::new();
        while let Some(length) = fragments.write_next(&mut buffer) {
            seen.push((length, [buffer[20], buffer[21]], [buffer[18], buffer[19]]));
        }
        let id = [0xab, 0xcd];
        assert_eq!(
            seen,
            [
                (1514, [0x20, 0x00], id),
                (1514, [0x20, 0xb9], id),
                (82, [0x01, 0x72], id)
            ]
        );
        assert_eq!(fragments.remaining(), 0);
    }

    #[test]
    fn limits() {
        let big = vec![0; MAX_PAYLOAD + 1];
        assert!(template().fragments(&[&big[..]], 1500, 1).is_none());
        assert!(template().fragments(&[&big[..100]], 27, 1).is_none());
        assert!(template().fragments(&[&big[..100]], 28, 1).is_some());
        // Fits: one frame, which is no fragment.
        let data = [&big[..100]];
        let mut whole = template().fragments(&data, 128, 1).unwrap();
        let mut buffer = [0; 200];
        assert_eq!(whole.write_next(&mut buffer), Some(142));
        assert!(matches!(
            parse(&buffer[..142], Checksum::Verify),
            Parsed::Udp(_)
        ));
        assert_eq!(whole.write_next(&mut buffer), None);
    }

    proptest! {
        #[test]
        fn comes_back_whole(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..900), 0..4),
            mtu in 28usize..1600,
            reverse in any::<bool>(),
        ) {
            let mut fragments = template().fragments(&parts, mtu, 7).unwrap();
            let mut frames = Vec::new();
            let mut buffer = [0; 3000];
            while let Some(length) = fragments.write_next(&mut buffer) {
                prop_assert!(length <= mtu + 14);
                frames.push(buffer[..length].to_vec());
            }
            if reverse {
                frames.reverse();
            }
            let whole = parts.concat();
            let mut reassembler = Reassembler::new(1 << 20, 8);
            let mut out = None;
            for frame in &frames {
                match parse(frame, Checksum::Verify) {
                    Parsed::Udp(udp) => {
                        prop_assert_eq!(udp.payload, &whole[..]);
                        prop_assert_eq!(frames.len(), 1);
                        return Ok(());
                    }
                    Parsed::Fragment(fragment) => out = reassembler.push(&fragment, 0),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            let out = out.expect("the last fragment completes it");
            match out.parse(Checksum::Verify) {
                Parsed::Udp(udp) => prop_assert_eq!(udp.payload, &whole[..]),
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}
