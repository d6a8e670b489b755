//! Fragments back into datagrams (RFC 791 3.2).
//!
//! Owns the pieces of UDP datagrams that are not whole yet, within a bound of bytes and
//! datagrams. Never reads a clock: time is an argument. Verdicts are those of Linux
//! (`ip_frag_queue`, `inet_frag_queue_insert`): a piece that lies within what has
//! arrived in order is a duplicate and ignored; any other overlap ends the whole
//! datagram (RFC 5722 4, applied to IPv4 since Linux 4.20); a new datagram is refused
//! when the bound is reached; what a datagram has is given up when too many fragments of
//! its sender came in between (`ip_frag_too_far`).

use super::parse::{Checksum, Fragment, Parsed, parse_udp};
use crate::clock::Nanos;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// How long the pieces of a datagram are kept after the first one came: the default of
/// `net.ipv4.ipfrag_time`.
pub const TIMEOUT: Nanos = 30_000_000_000;

/// So many fragments of a sender may come between two of one datagram: the default of
/// `net.ipv4.ipfrag_max_dist`.
const MAX_DISTANCE: u32 = 64;

/// The largest IP payload: total length is 16 bits, and the header takes 20 of it.
const MAX_IP_PAYLOAD: usize = u16::MAX as usize - super::IPV4_LEN;

/// What each entry costs beside its data, roughly.
const OVERHEAD: usize = 256;

type Key = (Ipv4Addr, Ipv4Addr, u16);

/// A datagram whose pieces are all there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reassembled {
    /// Sender.
    pub src: Ipv4Addr,
    /// Destination.
    pub dst: Ipv4Addr,
    /// Type of service of the first fragment; congestion experienced if any piece said so
    /// (RFC 3168 5.3).
    pub tos: u8,
    /// Time to live of the first fragment.
    pub ttl: u8,
    /// IP payload: UDP header and data.
    pub payload: Vec<u8>,
    /// When the first piece came.
    pub since: Nanos,
}

impl Reassembled {
    /// Its UDP header and data.
    #[must_use]
    pub fn parse(&self, checksum: Checksum) -> Parsed<'_> {
        parse_udp(
            (self.src, self.dst),
            self.tos,
            self.ttl,
            &self.payload,
            checksum,
        )
    }
}

/// Collects fragments.
#[derive(Debug)]
pub struct Reassembler {
    max_bytes: usize,
    max_datagrams: usize,
    bytes: usize,
    pending: BTreeMap<Key, Pending>,
    /// Of senders with unfinished datagrams: how many of these, and fragments so far.
    senders: BTreeMap<Ipv4Addr, (usize, u32)>,
}

#[derive(Debug)]
struct Pending {
    since: Nanos,
    data: Vec<u8>,
    /// What has arrived, as Linux keeps it: stretches of fragments that came in order,
    /// sorted, disjoint; two may touch.
    runs: Vec<(usize, usize)>,
    /// Bytes that have arrived.
    arrived: usize,
    /// End of the furthest piece.
    end: usize,
    has_last: bool,
    /// Type of service and time to live of the piece at offset 0.
    first: Option<(u8, u8)>,
    /// One bit for each ECN codepoint seen.
    ecn: u8,
    /// The sender's count at the last fragment.
    count: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Insert {
    Added,
    Duplicate,
    /// The datagram is given up.
    Discard,
}

impl Reassembler {
    /// One that keeps at most `max_bytes` of `max_datagrams` unfinished datagrams.
    #[must_use]
    pub fn new(max_bytes: usize, max_datagrams: usize) -> Self {
        Self {
            max_bytes,
            max_datagrams,
            bytes: 0,
            pending: BTreeMap::new(),
            senders: BTreeMap::new(),
        }
    }

    /// Takes a fragment, and gives the datagram if it was the last piece missing.
    #[must_use]
    pub fn push(&mut self, fragment: &Fragment<'_>, now: Nanos) -> Option<Reassembled> {
        let key = (fragment.src, fragment.dst, fragment.id);
        if self.pending.get(&key).is_some_and(|p| p.is_expired(now)) {
            self.remove(key);
        }
        if !self.pending.contains_key(&key) {
            if self.is_full() {
                self.expire(now);
            }
            if self.is_full() {
                return None;
            }
            self.pending.insert(key, Pending::new(now));
            self.senders.entry(key.0).or_default().0 += 1;
            self.bytes += OVERHEAD;
        }
        let sender = self.senders.get_mut(&key.0)?;
        sender.1 = sender.1.wrapping_add(1);
        let pending = self.pending.get_mut(&key)?;
        let before = pending.data.capacity();
        pending.seen_at(sender.1, now);
        let verdict = pending.insert(fragment);
        let whole = pending.is_whole();
        self.bytes = self.bytes + pending.data.capacity() - before;
        match verdict {
            Insert::Duplicate => None,
            Insert::Added if whole => {
                let pending = self.remove(key)?;
                pending.finish(key)
            }
            Insert::Added if self.bytes <= self.max_bytes => None,
            Insert::Added | Insert::Discard => {
                self.remove(key);
                None
            }
        }
    }

    /// Forgets what is older than [`TIMEOUT`]; answers how many datagrams were lost by it.
    pub fn expire(&mut self, now: Nanos) -> usize {
        let before = self.pending.len();
        let mut freed = 0;
        let senders = &mut self.senders;
        self.pending.retain(|key, pending| {
            let keep = !pending.is_expired(now);
            if !keep {
                freed += pending.data.capacity() + OVERHEAD;
                one_less(senders, key.0);
            }
            keep
        });
        self.bytes -= freed;
        before - self.pending.len()
    }

    /// Unfinished datagrams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether nothing is unfinished.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Bytes held.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_full(&self) -> bool {
        self.pending.len() >= self.max_datagrams || self.bytes + OVERHEAD > self.max_bytes
    }

    fn remove(&mut self, key: Key) -> Option<Pending> {
        let pending = self.pending.remove(&key)?;
        self.bytes -= pending.data.capacity() + OVERHEAD;
        one_less(&mut self.senders, key.0);
        Some(pending)
    }
}

/// A sender's datagram is finished or given up.
fn one_less(senders: &mut BTreeMap<Ipv4Addr, (usize, u32)>, sender: Ipv4Addr) {
    if let Some((unfinished, _)) = senders.get_mut(&sender) {
        *unfinished -= 1;
        if *unfinished == 0 {
            senders.remove(&sender);
        }
    }
}

impl Pending {
    fn new(since: Nanos) -> Self {
        Self {
            since,
            data: Vec::new(),
            runs: Vec::new(),
            arrived: 0,
            end: 0,
            has_last: false,
            first: None,
            ecn: 0,
            count: 0,
        }
    }

    /// One more fragment, the sender's `count`th: too long after the one before, the
    /// datagram begins anew.
    fn seen_at(&mut self, count: u32, now: Nanos) {
        if !self.runs.is_empty() && count.wrapping_sub(self.count) > MAX_DISTANCE {
            let mut data = std::mem::take(&mut self.data);
            data.clear();
            *self = Self {
                data,
                ..Self::new(now)
            };
        }
        self.count = count;
    }

    fn is_expired(&self, now: Nanos) -> bool {
        now.saturating_sub(self.since) >= TIMEOUT
    }

    fn is_whole(&self) -> bool {
        self.has_last && self.first.is_some() && self.arrived == self.end
    }

    fn insert(&mut self, fragment: &Fragment<'_>) -> Insert {
        let offset = usize::from(fragment.offset);
        let mut length = fragment.payload.len();
        if fragment.more {
            // Offsets count in eights, so an odd end cannot be continued.
            length &= !7;
        }
        let end = offset + length;
        if end > MAX_IP_PAYLOAD || length == 0 {
            return Insert::Discard;
        }
        if fragment.more {
            if self.has_last && end > self.end {
                return Insert::Discard;
            }
        } else if end < self.end || (self.has_last && end != self.end) {
            return Insert::Discard;
        }
        self.has_last |= !fragment.more;
        self.end = self.end.max(end);
        match self.insert_run(offset, end) {
            Insert::Added => {}
            verdict => return verdict,
        }
        self.arrived += length;
        self.ecn |= 1 << (fragment.tos & 3);
        if offset == 0 {
            self.first = Some((fragment.tos, fragment.ttl));
        }
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[offset..end].copy_from_slice(&fragment.payload[..length]);
        Insert::Added
    }

    fn insert_run(&mut self, offset: usize, end: usize) -> Insert {
        let Some(last) = self.runs.last_mut() else {
            self.runs.push((offset, end));
            return Insert::Added;
        };
        if end > last.1 {
            if offset < last.1 {
                return Insert::Discard;
            }
            if offset == last.1 {
                last.1 = end;
            } else {
                self.runs.push((offset, end));
            }
            return Insert::Added;
        }
        // The first run that does not lie wholly in front of the piece.
        let at = self.runs.partition_point(|run| run.1 <= offset);
        let (start, stop) = self.runs[at];
        if end <= start {
            self.runs.insert(at, (offset, end));
            Insert::Added
        } else if offset >= start && end <= stop {
            Insert::Duplicate
        } else {
            Insert::Discard
        }
    }

    /// The datagram, unless its pieces disagree on ECN (RFC 3168 5.3).
    fn finish(self, (src, dst, _): Key) -> Option<Reassembled> {
        const NOT_ECT: u8 = 1;
        const CONGESTION: u8 = 1 << 3;
        let (mut tos, ttl) = self.first?;
        if self.ecn & NOT_ECT != 0 && self.ecn != NOT_ECT {
            return None;
        }
        if self.ecn & CONGESTION != 0 {
            tos |= 3;
        }
        Some(Reassembled {
            src,
            dst,
            tos,
            ttl,
            payload: self.data,
            since: self.since,
        })
    }
}

#[cfg(test)]
mod tests;
