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

    /// The sum of a few 16-bit values that are in network order already.
    #[inline(always)]
    #[must_use]
    pub fn of_words<const N: usize>(words: [u16; N]) -> Self {
        Self(words.into_iter().map(u64::from).sum())
    }

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
    #[inline(always)]
    #[must_use]
    pub fn add_slice(self, bytes: &[u8]) -> Self {
        let (blocks, tail) = bytes.as_chunks::<32>();
        let mut sum = self;
        for block in blocks {
            sum = Self(add_block(sum.0, block));
        }
        if tail.is_empty() {
            sum
        } else {
            sum.add_tail(bytes, tail.len())
        }
    }

    /// Copies `from` to `to`, which is as long, and adds it on the way: once through the bytes.
    #[inline(always)]
    #[must_use]
    pub fn add_copied(self, to: &mut [u8], from: &[u8]) -> Self {
        let mut sum = self;
        let (blocks, tail) = from.as_chunks::<32>();
        let (copies, rest) = to.as_chunks_mut::<32>();
        for (copy, block) in copies.iter_mut().zip(blocks) {
            sum = Self(add_block(sum.0, block));
            *copy = *block;
        }
        if tail.is_empty() {
            sum
        } else {
            sum.add_copied_tail(rest, from, tail.len())
        }
    }

    /// As [`Self::add_tail`], and copies them.
    #[inline(never)]
    fn add_copied_tail(self, to: &mut [u8], from: &[u8], count: usize) -> Self {
        to.copy_from_slice(&from[from.len() - count..]);
        self.add_tail(from, count)
    }

    /// The last `count` bytes, fewer than 32. Aside, so that the loop above stays small where
    /// it is inlined.
    #[inline(never)]
    fn add_tail(self, bytes: &[u8], count: usize) -> Self {
        let tail = &bytes[bytes.len() - count..];
        let mut sum = self.add_word(last_word(bytes));
        let (words, _) = tail.as_chunks::<8>();
        for word in words {
            sum = sum.add_bytes8(*word);
        }
        sum
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

    /// Whether the sum over data that includes its checksum comes out right: all ones once it
    /// is folded, which is a multiple of all ones, and not 0, before.
    #[inline(always)]
    #[must_use]
    pub fn is_valid(self) -> bool {
        // 0xffff times this is 2^64 - 1, and 0xffff times its negative so 1: to multiply by that
        // divides multiples, and takes everything else above their quotients. `!x` is `-x - 1`.
        const QUOTIENTS: u64 = u64::MAX / 0xffff;
        !self.0.wrapping_mul(QUOTIENTS) < QUOTIENTS
    }

    /// The checksum field, as it goes into the header.
    #[inline(always)]
    #[must_use]
    pub fn finish(self) -> [u8; 2] {
        (!self.fold()).to_ne_bytes()
    }

    /// The same over a few 16-bit values that are in network order already.
    #[inline(always)]
    #[must_use]
    pub fn finish_words<const N: usize>(words: [u16; N]) -> [u8; 2] {
        let sum: u32 = words.into_iter().map(u32::from).sum();
        let folded = (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16;
        (!folded).to_ne_bytes()
    }

    /// The checksum field of UDP, where zero means "none" and the other zero of one's
    /// complement is sent in its place (RFC 768).
    #[inline(always)]
    #[must_use]
    pub fn finish_udp(self) -> [u8; 2] {
        let sum = self.fold();
        let field = if sum == 0xffff { sum } else { !sum };
        field.to_ne_bytes()
    }

    #[inline(always)]
    fn add_word(self, word: u64) -> Self {
        let (sum, carry) = self.0.overflowing_add(word);
        Self(sum + u64::from(carry))
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

/// The bytes behind the last multiple of eight, padded with zeros behind (RFC 1071 1).
#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    let count = bytes.len() % 8;
    if count == 0 {
        return 0;
    }
    if let Some(last) = bytes.last_chunk::<8>() {
        // The bytes in front of them, already summed, are shifted out.
        return (u64::from_le_bytes(*last) >> (64 - 8 * count)).to_le();
    }
    let mut word = [0; 8];
    for (to, byte) in word.iter_mut().zip(bytes) {
        *to = *byte;
    }
    u64::from_ne_bytes(word)
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
        let words = [0x0001, 0xf203, 0xf4f5, 0xf6f7_u16].map(u16::to_be);
        assert_eq!(Sum::finish_words(words), [0x22, 0x0d]);
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
            for start in 0..bytes.len().min(9) {
                let part = &bytes[start..];
                prop_assert_eq!(Sum::ZERO.add_slice(part).fold(), slow(part).to_be());
            }
        }

        #[test]
        fn valid_is_what_folds_to_all_ones(any: u64, near in 0u64..9, quotient in 0..=u64::MAX / 0xffff) {
            let multiple = quotient * 0xffff;
            for sum in [any, multiple, multiple.wrapping_add(near), multiple.wrapping_sub(near), near, !near] {
                prop_assert_eq!(Sum(sum).is_valid(), Sum(sum).fold() == 0xffff, "{}", sum);
            }
        }

        #[test]
        fn words_fold_as_a_sum_does(words: [u16; 5]) {
            let sum = Sum::of_words(words);
            prop_assert_eq!(Sum::finish_words(words), (!sum.fold()).to_ne_bytes());
        }

        #[test]
        fn what_is_summed_on_the_way_is_copied(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut copy = vec![0; bytes.len()];
            let sum = Sum::ZERO.add_copied(&mut copy, &bytes);
            prop_assert_eq!(sum.fold(), Sum::ZERO.add_slice(&bytes).fold());
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
