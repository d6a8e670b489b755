//! Entries in the order in which they are looked at.

use super::key::{Key, Pattern};
use crate::wire::{Rule, RuleKind};

/// Places beyond every priority of `ibv_flow_attr`.
const LEVEL_MULTICAST: u32 = 0x3_0001;
const LEVEL_MULTICAST_DEFAULT: u32 = 0x3_0003;
const LEVEL_DEFAULT: u32 = 0x3_0005;

/// One rule with one destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub struct Entry {
    /// What it matches.
    pub pattern: Pattern,
    /// Its place: lower first; odd places end the matching.
    pub level: u32,
    /// Entries of one place and pattern share it.
    pub group: u32,
    /// Slot of the receiving queue.
    pub queue: u32,
    /// Reported with the frame.
    pub tag: u32,
    /// The queue's generation: a slot may have been given to another since.
    pub generation: u32,
    /// Unused.
    pub reserved: u32,
    /// Names the rule.
    pub id: u64,
}

const _: () = assert!(size_of::<Entry>() == 96);

impl Entry {
    /// Whether the matching ends here.
    #[must_use]
    #[inline]
    pub fn traps(&self) -> bool {
        self.level & 1 == 1
    }
}

/// The table holds as many rules as it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Whether the kernel gets the frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An ordinary rule took it.
    Taken,
    /// None did; queues with `DONT_TRAP` rules may have had their copies.
    Kernel,
}

/// Looks a frame up. `deliver` gets each copy and says false for a queue that is no more
/// (its entry then counts as absent).
#[inline]
pub fn walk(
    entries: impl IntoIterator<Item = Entry>,
    key: &Key,
    mut deliver: impl FnMut(&Entry) -> bool,
) -> Verdict {
    // Place, group and queue of the last delivery.
    let mut last: Option<(u32, u32, u32)> = None;
    for entry in entries {
        if let Some((level, group, queue)) = last {
            if entry.level == level {
                // This place has applied: only its further destinations count.
                if entry.group != group || entry.queue == queue {
                    continue;
                }
            } else if level & 1 == 1 {
                return Verdict::Taken;
            }
        }
        if entry.pattern.matches(key) && deliver(&entry) {
            last = Some((entry.level, entry.group, entry.queue));
        }
    }
    match last {
        Some((level, ..)) if level & 1 == 1 => Verdict::Taken,
        _ => Verdict::Kernel,
    }
}

fn level_of(rule: &Rule) -> u32 {
    match rule.kind {
        RuleKind::Sniffer => 0,
        RuleKind::AllDefault => LEVEL_DEFAULT,
        RuleKind::MulticastDefault => LEVEL_MULTICAST_DEFAULT,
        RuleKind::Normal if rule.dont_trap => 2 + u32::from(rule.priority) * 2,
        RuleKind::Normal if is_multicast(rule) => LEVEL_MULTICAST,
        RuleKind::Normal => 3 + u32::from(rule.priority) * 2,
    }
}

/// What the driver goes by: the first specification alone, value and mask both multicast.
fn is_multicast(rule: &Rule) -> bool {
    if let Some(ethernet) = &rule.ethernet {
        return ethernet.destination.value[0] & ethernet.destination.mask[0] & 1 == 1;
    }
    rule.ipv4
        .is_some_and(|ipv4| ipv4.destination.value >> 28 == 0xe)
}

/// The rules of one port, all processes together.
#[derive(Clone, Debug, Default)]
pub struct Table {
    entries: Vec<Entry>,
    limit: usize,
}

impl Table {
    /// An empty one that holds at most `limit` rules.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self::from_entries(Vec::new(), limit)
    }

    /// One that was stored: `entries` as [`Table::entries`] gave them.
    #[must_use]
    pub fn from_entries(entries: Vec<Entry>, limit: usize) -> Self {
        Self { entries, limit }
    }

    /// In the order in which they are looked at.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds a rule for a queue. `id` is unique and grows.
    ///
    /// # Errors
    /// No room.
    pub fn insert(
        &mut self,
        id: u64,
        queue: u32,
        generation: u32,
        rule: &Rule,
    ) -> Result<(), Full> {
        if self.entries.len() >= self.limit {
            return Err(Full);
        }
        let level = level_of(rule);
        let pattern = Pattern::of_rule(rule);
        let same = |e: &Entry| e.level == level && e.pattern == pattern;
        let (group, at) = match self.entries.iter().position(same) {
            // Within its group by queue, so that those of one queue are neighbours.
            Some(first) => {
                let group = self.entries[first].group;
                let members = self.entries[first..]
                    .iter()
                    .take_while(|e| e.group == group && e.level == level && e.queue <= queue)
                    .count();
                (group, first + members)
            }
            None => {
                let group = self.entries.iter().map(|e| e.group).max().unwrap_or(0) + 1;
                (group, self.entries.partition_point(|e| e.level <= level))
            }
        };
        self.entries.insert(
            at,
            Entry {
                pattern,
                level,
                group,
                queue,
                tag: rule.tag,
                generation,
                reserved: 0,
                id,
            },
        );
        Ok(())
    }

    /// Removes a rule; false when there is none of that name.
    pub fn remove(&mut self, id: u64) -> bool {
        let before = self.entries.len();
        self.entries.retain(|e| e.id != id);
        self.entries.len() != before
    }

    /// Keeps the rules for which `alive` holds.
    pub fn retain(&mut self, alive: impl FnMut(&Entry) -> bool) {
        self.entries.retain(alive);
    }
}

#[cfg(test)]
mod tests;
