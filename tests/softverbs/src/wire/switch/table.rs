//! Flow tables in shared memory: read by every sender without a lock.
//!
//! A change is written to the next bank, then the version is raised. A reader that finds the
//! version advanced by so much that its bank may have been written meanwhile starts again.
//!
//! Rules for one destination address and port, nearly all of them, hang in chains by a hash of
//! the two; the rest in one chain. Both are in the table's order and are merged while walking.

use super::layout::{BANKS, BUCKETS, Bank, ENTRY_WORDS, NONE, PortTable, RULES};
use crate::flow::{Entry, Key, Pattern, Table, Verdict, walk};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU16, Ordering};

/// Queues that one frame can go to.
pub(super) const COPIES: usize = 64;

/// Destination address and port within a key: bytes 20 to 24 and 26 to 28.
const ADDRESS: u64 = 0xffff_ffff_0000_0000;
const PORT: u64 = 0xffff_0000;

/// Chain of a destination address (a key's third word) and port (its fourth).
#[inline]
fn bucket(third: u64, fourth: u64) -> usize {
    let both = (third & ADDRESS) | (fourth & PORT);
    (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % BUCKETS
}

fn is_exact(pattern: &Pattern) -> bool {
    pattern.mask[2] & ADDRESS == ADDRESS && pattern.mask[3] & PORT == PORT
}

fn words(entry: &Entry) -> [u64; ENTRY_WORDS] {
    let mut words = [0; ENTRY_WORDS];
    words[..4].copy_from_slice(&entry.pattern.value);
    words[4..8].copy_from_slice(&entry.pattern.mask);
    words[8] = u64::from(entry.level) | u64::from(entry.group) << 32;
    words[9] = u64::from(entry.queue) | u64::from(entry.tag) << 32;
    words[10] = u64::from(entry.generation);
    words[11] = entry.id;
    words
}

#[inline]
fn read(bank: &Bank, index: u16) -> Entry {
    let w = bank.entries[usize::from(index) % RULES]
        .each_ref()
        .map(|word| word.load(Ordering::Relaxed));
    Entry {
        pattern: Pattern {
            value: [w[0], w[1], w[2], w[3]],
            mask: [w[4], w[5], w[6], w[7]],
        },
        level: w[8] as u32,
        group: (w[8] >> 32) as u32,
        queue: w[9] as u32,
        tag: (w[9] >> 32) as u32,
        generation: w[10] as u32,
        reserved: 0,
        id: w[11],
    }
}

/// Where a copy goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    /// Queue number.
    pub(super) queue: u32,
    /// The owner the rule was made for.
    pub(super) generation: u32,
    /// Tag of the rule.
    pub(super) tag: u32,
}

/// The copies of one frame. Not cleared when made: it is made for every frame.
pub(super) struct Copies {
    count: usize,
    places: [MaybeUninit<Copy>; COPIES],
}

impl Default for Copies {
    #[inline]
    fn default() -> Self {
        Self {
            count: 0,
            places: [const { MaybeUninit::uninit() }; COPIES],
        }
    }
}

impl Copies {
    /// Adds one; there is no room for more than a card has, which is lost.
    #[inline]
    fn push(&mut self, copy: Copy) {
        if let Some(place) = self.places.get_mut(self.count) {
            place.write(copy);
            self.count += 1;
        }
    }

    /// What was added.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = Copy> + '_ {
        self.places[..self.count].iter().map(|place| {
            // SAFETY: places before `count` have been written.
            unsafe { place.assume_init() }
        })
    }
}

impl PortTable {
    fn bank(&self, version: u64) -> &Bank {
        &self.banks[version as usize % BANKS]
    }

    /// The table in force. Under the lock.
    pub(super) fn get(&self) -> Table {
        let bank = self.bank(self.version.load(Ordering::Acquire));
        let count = (bank.count.load(Ordering::Relaxed) as usize).min(RULES);
        Table::from_entries((0..count).map(|i| read(bank, i as u16)).collect(), RULES)
    }

    /// Puts a table in force. Under the lock.
    pub(super) fn put(&self, table: &Table) {
        let version = self.version.load(Ordering::Relaxed) + 1;
        let bank = self.bank(version);
        let entries = table.entries();
        for bucket in &bank.buckets {
            bucket.store(NONE, Ordering::Relaxed);
        }
        bank.wild.store(NONE, Ordering::Relaxed);
        // From the last to the first, each goes in front of its chain.
        for (index, entry) in entries.iter().enumerate().rev() {
            for (word, value) in bank.entries[index].iter().zip(words(entry)) {
                word.store(value, Ordering::Relaxed);
            }
            let head = if is_exact(&entry.pattern) {
                let [.., third, fourth] = entry.pattern.value;
                &bank.buckets[bucket(third, fourth)]
            } else {
                &bank.wild
            };
            let first = head.load(Ordering::Relaxed);
            bank.next[index].store(first, Ordering::Relaxed);
            head.store(index as u16, Ordering::Relaxed);
        }
        bank.count.store(entries.len() as u32, Ordering::Relaxed);
        self.version.store(version, Ordering::Release);
    }

    /// Looks a frame up: where its copies go, and whether the kernel gets it.
    #[inline]
    pub(super) fn look_up(&self, key: &Key, copies: &mut Copies) -> Verdict {
        loop {
            // Pairs with `put`.
            let version = self.version.load(Ordering::Acquire);
            copies.count = 0;
            if version == 0 {
                // Never had a rule.
                return Verdict::Kernel;
            }
            let bank = self.bank(version);
            let chains = Chains {
                bank,
                exact: bank.buckets[bucket(key.0[2], key.0[3])].load(Ordering::Relaxed),
                wild: bank.wild.load(Ordering::Relaxed),
                left: RULES,
            };
            let verdict = walk(chains, key, |entry| {
                copies.push(Copy {
                    queue: entry.queue,
                    generation: entry.generation,
                    tag: entry.tag,
                });
                true
            });
            std::sync::atomic::fence(Ordering::Acquire);
            // The bank is the next to be written when the version is BANKS - 1 further.
            let passed = self.version.load(Ordering::Relaxed).wrapping_sub(version);
            if passed < BANKS as u64 - 1 {
                return verdict;
            }
        }
    }
}

/// Entries of two chains in the table's order.
struct Chains<'a> {
    bank: &'a Bank,
    exact: u16,
    wild: u16,
    /// Bounds the walk when a bank is written meanwhile.
    left: usize,
}

impl Iterator for Chains<'_> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        let follow = |at: u16, next: &[AtomicU16; RULES]| {
            next[usize::from(at) % RULES].load(Ordering::Relaxed)
        };
        let index = self.exact.min(self.wild);
        if index == NONE || self.left == 0 {
            return None;
        }
        self.left -= 1;
        if index == self.exact {
            self.exact = follow(index, &self.bank.next);
        } else {
            self.wild = follow(index, &self.bank.next);
        }
        Some(read(self.bank, index))
    }
}
