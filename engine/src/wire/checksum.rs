//! The Internet checksum: the 16-bit one's complement sum of RFC 1071, as IPv4
//! (RFC 791 3.1) and UDP (RFC 768) use it.
//!
//! Sums are kept in the machine's own byte order: the sum is indifferent to it
//! (RFC 1071 2 (B)), so nothing is swapped but the final word, and that by storing
//! it as it is. Eight bytes go into each addition (2 (C), "parallel summation").

/// A sum that is not folded yet, in native byte order. Addition is commutative, so
/// parts can be summed ahead of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// Adds eight bytes as they lie in memory.
    #[inline(always)]
    #[must_use]
    pub fn add_bytes8(self, bytes: [u8; 8]) -> Self {
        self.add_word(u64::from_ne_bytes(bytes))
    }

    /// Adds four bytes as they lie in memory.
    #[inline(always)]
    #[must_use]
    pub fn add_bytes4(self, bytes: [u8; 4]) -> Self {
        self.add_word(u64::from(u32::from_ne_bytes(bytes)))
    }

    /// Adds a 16-bit header field given as a number.
    #[inline(always)]
    #[must_use]
    pub fn add_field(self, value: u16) -> Self {
        self.add_word(u64::from(value.to_be()))
    }

    /// Adds a buffer that begins at an even offset of what is summed.
    #[inline]
    #[must_use]
    pub fn add_slice(self, bytes: &[u8]) -> Self {
        let (blocks, tail) = bytes.as_chunks::<32>();
        let mut sum = self.0;
        for block in blocks {
            sum = add_block(sum, block);
        }
        Self(sum).add_tail(tail)
    }

    /// Copies a buffer and adds it in the same pass. The lengths must be equal: the
    /// shorter one counts.
    #[inline]
    #[must_use]
    pub fn copy_slice(self, to: &mut [u8], from: &[u8]) -> Self {
        let (blocks, tail) = from.as_chunks::<32>();
        let (to_blocks, to_tail) = to.as_chunks_mut::<32>();
        let mut sum = self.0;
        for (to, block) in to_blocks.iter_mut().zip(blocks) {
            sum = add_block(sum, block);
            *to = *block;
        }
        // A loop of eights keeps the tail free of a call into memcpy.
        let (words, tail) = tail.as_chunks::<8>();
        let (to_words, to_tail) = to_tail.as_chunks_mut::<8>();
        let mut sum = Self(sum);
        for (to, word) in to_words.iter_mut().zip(words) {
            sum = sum.add_bytes8(*word);
            *to = *word;
        }
        for (to, byte) in to_tail.iter_mut().zip(tail) {
            *to = *byte;
        }
        sum.add_word(last_word(tail))
    }

    /// Adds another sum.
    #[inline(always)]
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.add_word(other.0)
    }

    /// The same sum for bytes that begin at an odd offset (RFC 1071 2 (B)).
    #[inline]
    #[must_use]
    pub fn swapped(self) -> Self {
        Self(u64::from(self.fold().swap_bytes()))
    }

    /// The 16-bit one's complement sum, in native byte order. Zero only if every byte
    /// was zero.
    #[inline(always)]
    #[must_use]
    pub fn fold(self) -> u16 {
        let half = (self.0.wrapping_add(self.0.rotate_left(32)) >> 32) as u32;
        (half.wrapping_add(half.rotate_left(16)) >> 16) as u16
    }

    /// Whether the sum over data that includes its checksum comes out right.
    #[inline(always)]
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.fold() == 0xffff
    }

    /// The checksum field, as it goes into the header.
    #[inline(always)]
    #[must_use]
    pub fn finish(self) -> [u8; 2] {
        (!self.fold()).to_ne_bytes()
    }

    /// The checksum field of UDP, where zero means "none" and the other zero of one's
    /// complement is sent in its place (RFC 768).
    #[inline(always)]
    #[must_use]
    pub fn finish_udp(self) -> [u8; 2] {
        match self.finish() {
            [0, 0] => [0xff, 0xff],
            field => field,
        }
    }

    #[inline(always)]
    fn add_word(self, word: u64) -> Self {
        let (sum, carry) = self.0.overflowing_add(word);
        Self(sum + u64::from(carry))
    }

    #[inline(always)]
    fn add_tail(self, tail: &[u8]) -> Self {
        let (words, tail) = tail.as_chunks::<8>();
        let mut sum = self;
        for word in words {
            sum = sum.add_bytes8(*word);
        }
        sum.add_word(last_word(tail))
    }
}

/// Four words in one chain of carries.
#[inline(always)]
fn add_block(sum: u64, block: &[u8; 32]) -> u64 {
    let (words, _) = block.as_chunks::<8>();
    let word = |i: usize| u64::from_ne_bytes(words[i]);
    let (sum, carry) = sum.carrying_add(word(0), false);
    let (sum, carry) = sum.carrying_add(word(1), carry);
    let (sum, carry) = sum.carrying_add(word(2), carry);
    let (sum, carry) = sum.carrying_add(word(3), carry);
    // An end-around carry cannot carry again: the sum that made it is below all ones.
    sum + u64::from(carry)
}

/// Up to seven bytes, padded with zeros behind (RFC 1071 1).
#[inline(always)]
fn last_word(tail: &[u8]) -> u64 {
    let (fours, tail) = tail.as_chunks::<4>();
    let (twos, tail) = tail.as_chunks::<2>();
    let mut sum = fours
        .first()
        .map_or(0, |b| u64::from(u32::from_ne_bytes(*b)));
    sum += twos
        .first()
        .map_or(0, |b| u64::from(u16::from_ne_bytes(*b)));
    sum + tail
        .first()
        .map_or(0, |b| u64::from(u16::from_ne_bytes([*b, 0])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 4.1, in 16-bit words.
    fn slow(bytes: &[u8]) -> u16 {
        let mut sum: u64 = 0;
        for pair in bytes.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        }
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn rfc_1071_example() {
        let sum = Sum::ZERO.add_slice(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.fold(), 0xddf2_u16.to_be());
        assert_eq!(sum.finish(), [0x22, 0x0d]);
    }

    #[test]
    fn all_ones_and_zero() {
        assert_eq!(
            Sum::ZERO.add_slice(&[0xff; 33]).fold().to_be(),
            slow(&[0xff; 33])
        );
        assert_eq!(Sum::ZERO.add_slice(&[0; 65]).fold(), 0);
        assert_eq!(Sum::ZERO.add_slice(&[0xff; 2]).finish_udp(), [0xff, 0xff]);
        assert_eq!(Sum::ZERO.finish_udp(), [0xff, 0xff]);
    }

    proptest! {
        #[test]
        fn agrees_with_words(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(Sum::ZERO.add_slice(&bytes).fold(), slow(&bytes).to_be());
            let mut copy = vec![0; bytes.len()];
            let sum = Sum::ZERO.copy_slice(&mut copy, &bytes);
            prop_assert_eq!(sum.fold(), slow(&bytes).to_be());
            prop_assert_eq!(copy, bytes);
        }

        #[test]
        fn parts_add_up(bytes in proptest::collection::vec(any::<u8>(), 0..100), at in 0usize..100) {
            let (a, b) = bytes.split_at(at.min(bytes.len()));
            let (first, mut second) = (Sum::ZERO.add_slice(a), Sum::ZERO.add_slice(b));
            if a.len() % 2 == 1 {
                second = second.swapped();
            }
            prop_assert_eq!(first.plus(second).fold(), slow(&bytes).to_be());
        }
    }
}
