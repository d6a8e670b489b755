//! A frame reduced to what rules can look at, and a rule as value and mask over the same bytes.
//!
//! | bytes | what (network order) |
//! |---|---|
//! | 0..6, 6..12 | destination and source address |
//! | 12..14 | EtherType, behind the tag if there is one |
//! | 14..16 | tag control information, zero when untagged |
//! | 16..20, 20..24 | IPv4 source and destination |
//! | 24..26, 26..28 | source and destination port |
//! | 28 | which of these were there: [`IPV4`], [`UDP`], [`TCP`], [`TAGGED`] |

use crate::wire::{Rule, RuleKind, Transport};

/// The frame is IPv4.
pub(super) const IPV4: u8 = 1;
/// An unfragmented UDP datagram.
pub(super) const UDP: u8 = 2;
/// An unfragmented TCP segment.
pub(super) const TCP: u8 = 4;
/// The frame carries an 802.1Q tag.
pub(super) const TAGGED: u8 = 8;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_VLAN: u16 = 0x8100;
/// More-fragments flag and fragment offset.
const FRAGMENT: u16 = 0x3fff;

/// What rules see of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Key(pub [u64; 4]);

/// A specification as value and mask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(C, align(8))]
pub struct Pattern {
    /// Wanted bits; those outside the mask are zero.
    pub value: [u64; 4],
    /// Bits that count.
    pub mask: [u64; 4],
}

fn words(bytes: &[u8; 32]) -> [u64; 4] {
    let mut words = [0; 4];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut eight = [0; 8];
        eight.copy_from_slice(chunk);
        *word = u64::from_ne_bytes(eight);
    }
    words
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

impl Key {
    /// Of a whole frame whose tag, if any, is in line.
    #[must_use]
    #[inline]
    pub fn of_frame(frame: &[u8]) -> Option<Self> {
        let mut key = [0u8; 32];
        key[..14].copy_from_slice(frame.get(..14)?);
        let mut network = 14;
        if be16(frame, 12) == Some(ETHERTYPE_VLAN) {
            key[14..16].copy_from_slice(frame.get(14..16)?);
            key[12..14].copy_from_slice(frame.get(16..18)?);
            key[28] |= TAGGED;
            network = 18;
        }
        if u16::from_be_bytes([key[12], key[13]]) == ETHERTYPE_IPV4 {
            Self::network(&mut key, &frame[network..]);
        }
        Some(Self(words(&key)))
    }

    #[inline]
    fn network(key: &mut [u8; 32], packet: &[u8]) {
        let Some(header) = packet.get(..20) else {
            return;
        };
        let length = usize::from(header[0] & 0x0f) * 4;
        if header[0] >> 4 != 4 || length < 20 {
            return;
        }
        key[16..24].copy_from_slice(&header[12..20]);
        key[28] |= IPV4;
        let class = match header[9] {
            17 => UDP,
            6 => TCP,
            _ => return,
        };
        if be16(header, 6).is_none_or(|field| field & FRAGMENT != 0) {
            return;
        }
        if let Some(ports) = packet.get(length..length + 4) {
            key[24..28].copy_from_slice(ports);
            key[28] |= class;
        }
    }
}

impl Pattern {
    /// Of a rule's specifications.
    #[must_use]
    pub fn of_rule(rule: &Rule) -> Self {
        let mut value = [0u8; 32];
        let mut mask = [0u8; 32];
        let mut put = |at: usize, wanted: &[u8], bits: &[u8]| {
            for (i, (&w, &b)) in wanted.iter().zip(bits).enumerate() {
                value[at + i] |= w & b;
                mask[at + i] |= b;
            }
        };
        if let Some(ethernet) = &rule.ethernet {
            put(0, &ethernet.destination.value, &ethernet.destination.mask);
            put(6, &ethernet.source.value, &ethernet.source.mask);
            put(
                12,
                &ethernet.ether_type.value.to_be_bytes(),
                &ethernet.ether_type.mask.to_be_bytes(),
            );
            put(
                14,
                &ethernet.vlan.value.to_be_bytes(),
                &ethernet.vlan.mask.to_be_bytes(),
            );
            if ethernet.vlan.mask != 0 {
                put(28, &[TAGGED], &[TAGGED]);
            }
        }
        if let Some(ipv4) = &rule.ipv4 {
            put(
                16,
                &ipv4.source.value.to_be_bytes(),
                &ipv4.source.mask.to_be_bytes(),
            );
            put(
                20,
                &ipv4.destination.value.to_be_bytes(),
                &ipv4.destination.mask.to_be_bytes(),
            );
            put(28, &[IPV4], &[IPV4]);
        }
        if let Some(ports) = &rule.ports {
            put(
                24,
                &ports.source.value.to_be_bytes(),
                &ports.source.mask.to_be_bytes(),
            );
            put(
                26,
                &ports.destination.value.to_be_bytes(),
                &ports.destination.mask.to_be_bytes(),
            );
            let class = match ports.transport {
                Transport::Udp => UDP,
                Transport::Tcp => TCP,
            };
            put(28, &[class], &[class]);
        }
        if rule.kind == RuleKind::MulticastDefault {
            put(0, &[1], &[1]);
        }
        Self {
            value: words(&value),
            mask: words(&mask),
        }
    }

    /// Whether a frame is meant.
    #[must_use]
    #[inline]
    pub fn matches(&self, key: &Key) -> bool {
        let mut differs = 0;
        for i in 0..4 {
            differs |= (key.0[i] & self.mask[i]) ^ self.value[i];
        }
        differs == 0
    }
}
