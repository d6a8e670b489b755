//! The receive queue of a socket: datagrams with their addresses, in one ring of bytes.
//!
//! Grows by doubling to the socket's limit and never allocates after that. A record
//! is never split over the end; a marker skips the rest.

use std::net::{Ipv4Addr, SocketAddrV4};

/// What is kept of a datagram besides its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Sender.
    pub source: SocketAddrV4,
    /// Destination address and port of the headers.
    pub destination: SocketAddrV4,
    /// Interface index.
    pub ifindex: u32,
    /// Time to live.
    pub ttl: u8,
    /// Type of service.
    pub tos: u8,
    /// CLOCK_REALTIME nanoseconds.
    pub timestamp: u64,
    /// Datagrams that the socket had dropped before it.
    pub drops: u32,
    /// What the socket had asked for when it came: [`Self::PKTINFO`], [`Self::STAMP`].
    pub asked: u8,
}

impl Record {
    /// Interface and local address.
    pub const PKTINFO: u8 = 1;
    /// The time stamp.
    pub const STAMP: u8 = 2;
}

const HEADER: usize = 40;
/// Length word of a marker: the rest up to the end is unused.
const SKIP: u32 = u32::MAX;
const SMALLEST: usize = 16 * 1024;

/// A bounded first-in first-out queue of datagrams.
#[derive(Debug)]
pub struct Queue {
    /// Empty at first, then a power of two long.
    bytes: Vec<u8>,
    /// Monotonic positions; the index is the remainder by the capacity.
    head: usize,
    tail: usize,
    count: usize,
    payload: usize,
    /// What Linux would count for what is queued (sk_rmem_alloc), and its limit.
    charged: usize,
    limit: usize,
    /// How many of the oldest the reader has taken over, and what of those that it has read is
    /// still counted: Linux gives that back in portions.
    taken_over: usize,
    unreturned: usize,
    /// Datagrams ever dropped from the front: the number of the one that is there now.
    popped: u64,
}

/// What a queue counts, apart from its contents.
struct Account {
    charged: usize,
    limit: usize,
    taken_over: usize,
    unreturned: usize,
    popped: u64,
}

impl Queue {
    /// An empty queue that will hold up to `limit` bytes of records.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            head: 0,
            tail: 0,
            count: 0,
            payload: 0,
            charged: 0,
            limit,
            taken_over: 0,
            unreturned: 0,
            popped: 0,
        }
    }

    /// Changes the limit; what is queued stays.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Datagrams queued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// True when nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Payload bytes queued.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.payload
    }

    fn size_of(payload: usize) -> usize {
        HEADER + payload.next_multiple_of(8)
    }

    /// Index of a position; there is capacity.
    #[inline(always)]
    fn index(&self, position: usize) -> usize {
        position & (self.bytes.len().wrapping_sub(1))
    }

    /// Appends a datagram; false when it would exceed the limit. As in Linux, the first one
    /// is always taken (`__udp_enqueue_schedule_skb`).
    #[inline]
    pub fn push(&mut self, record: &Record, payload: &[u8]) -> bool {
        let need = Self::size_of(payload.len());
        let used = self.tail - self.head;
        let charge = true_size(payload.len());
        if self.charged != 0 && self.charged + charge > self.limit {
            return false;
        }
        let mut at = self.index(self.tail);
        // Mostly there is room up to the end as well as up to the head.
        if self.bytes.len() - at < need || self.bytes.len() - used < need {
            match self.make_room(need) {
                Some(place) => at = place,
                None => return false,
            }
        }
        let Some(room) = self.bytes.get_mut(at..at + need) else {
            return false;
        };
        let Some((header, rest)) = room.split_first_chunk_mut::<HEADER>() else {
            return false;
        };
        encode(header, record, payload.len() as u32);
        rest[..payload.len()].copy_from_slice(payload);
        self.tail += need;
        self.count += 1;
        self.charged += charge;
        self.payload += payload.len();
        true
    }

    /// Where `need` contiguous bytes are free, growing if that is allowed.
    #[inline(never)]
    fn make_room(&mut self, need: usize) -> Option<usize> {
        loop {
            let capacity = self.bytes.len();
            if capacity > 0 {
                let at = self.index(self.tail);
                let gap = if capacity - at < need {
                    capacity - at
                } else {
                    0
                };
                if self.tail - self.head + gap + need <= capacity {
                    if gap == 0 {
                        return Some(at);
                    }
                    self.bytes[at..at + 4].copy_from_slice(&SKIP.to_ne_bytes());
                    self.tail += gap;
                    return Some(0);
                }
            }
            // Twice the limit leaves room for the last datagram and the gap at the end.
            let most = (self.limit * 2 + need * 2).next_power_of_two();
            if capacity >= most {
                return None;
            }
            let wanted = (capacity * 2)
                .max(SMALLEST)
                .max((need * 2).next_power_of_two());
            self.grow(wanted);
        }
    }

    /// An empty one that takes anything.
    #[must_use]
    pub fn unlimited() -> Self {
        Self::new(usize::MAX / 16)
    }

    #[cold]
    fn grow(&mut self, capacity: usize) {
        let mut bigger = Self::unlimited();
        bigger.bytes = vec![0; capacity];
        let before = self.account();
        bigger.append(self, u64::MAX);
        bigger.set_account(before);
        *self = bigger;
    }

    /// Takes over what another one has below this number.
    fn append(&mut self, other: &mut Self, number: u64) {
        while other.popped < number
            && let Some((record, payload)) = other.front()
        {
            self.push(&record, payload);
            other.pop();
        }
    }

    /// Puts datagrams before the one with this number, whatever the limit.
    #[cold]
    pub fn insert(&mut self, number: u64, mut others: Self) {
        let mut account = self.account();
        account.charged += others.charged;
        let mut all = Self::unlimited();
        all.append(self, number);
        all.append(&mut others, u64::MAX);
        all.append(self, u64::MAX);
        all.set_account(account);
        *self = all;
    }

    /// Puts datagrams in by their times, whatever the limit; each side is in order.
    #[cold]
    pub fn merge(&mut self, mut others: Self) {
        let mut account = self.account();
        account.charged += others.charged;
        let mut all = Self::unlimited();
        let time = |queue: &Self| queue.front().map(|(record, _)| record.timestamp);
        while let (Some(here), Some(there)) = (time(self), time(&others)) {
            let older = if there < here {
                &mut others
            } else {
                &mut *self
            };
            all.append(older, older.popped + 1);
        }
        all.append(self, u64::MAX);
        all.append(&mut others, u64::MAX);
        all.set_account(account);
        *self = all;
    }

    fn account(&self) -> Account {
        Account {
            charged: self.charged,
            limit: self.limit,
            taken_over: self.taken_over,
            unreturned: self.unreturned,
            popped: self.popped,
        }
    }

    fn set_account(&mut self, account: Account) {
        self.charged = account.charged;
        self.limit = account.limit;
        self.taken_over = account.taken_over;
        self.unreturned = account.unreturned;
        self.popped = account.popped;
    }

    /// Position of the first record, past a marker.
    fn front_at(&self) -> Option<usize> {
        if self.count == 0 {
            return None;
        }
        let at = self.index(self.head);
        let length = u32::from_ne_bytes(self.bytes[at..at + 4].try_into().ok()?);
        Some(if length == SKIP { 0 } else { at })
    }

    /// The oldest datagram.
    #[must_use]
    pub fn front(&self) -> Option<(Record, &[u8])> {
        let at = self.front_at()?;
        let header: &[u8; HEADER] = self.bytes[at..at + HEADER].try_into().ok()?;
        let (record, length) = decode(header);
        Some((
            record,
            &self.bytes[at + HEADER..at + HEADER + length as usize],
        ))
    }

    /// Drops the oldest datagram.
    pub fn pop(&mut self) {
        let Some(at) = self.front_at() else { return };
        let capacity = self.bytes.len();
        let index = self.index(self.head);
        if index != at {
            self.head += capacity - index;
        }
        let length = u32::from_ne_bytes([
            self.bytes[at],
            self.bytes[at + 1],
            self.bytes[at + 2],
            self.bytes[at + 3],
        ]) as usize;
        self.head += Self::size_of(length);
        self.count -= 1;
        self.payload -= length;
        self.popped += 1;
        if self.taken_over == 0 {
            self.taken_over = self.count + 1;
        }
        self.taken_over -= 1;
        self.unreturned += true_size(length);
        // udp_rmem_release
        if self.unreturned >= self.limit / 4 || self.taken_over == 0 {
            self.charged -= self.unreturned;
            self.unreturned = 0;
        }
    }

    /// A reader has looked at the oldest: it takes over what is there.
    pub fn look(&mut self) {
        if self.taken_over == 0 {
            self.taken_over = self.count;
        }
    }

    /// The number of the datagram at the front, counted from the first ever.
    #[must_use]
    pub fn front_number(&self) -> u64 {
        self.popped
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.head = 0;
        self.tail = 0;
        self.count = 0;
        self.payload = 0;
        self.charged = 0;
        self.taken_over = 0;
        self.unreturned = 0;
    }
}

/// What Linux counts for a datagram (`skb->truesize`): of the size in which a local sender
/// allocates it (`__ip_append_data`, `kmalloc_reserve`). Drivers' own buffers are near that.
fn true_size(payload: usize) -> usize {
    const SK_BUFF: usize = 256;
    const SHARED_INFO: usize = 320;
    const SMALL_HEAD: usize = 576;
    let headers = 59;
    let head = (payload + headers).next_multiple_of(64) + SHARED_INFO;
    let head = if head <= SMALL_HEAD {
        SMALL_HEAD
    } else {
        head.next_power_of_two()
    };
    SK_BUFF + head
}

fn encode(out: &mut [u8; HEADER], record: &Record, length: u32) {
    out[0..4].copy_from_slice(&length.to_ne_bytes());
    out[4..8].copy_from_slice(&record.source.ip().octets());
    out[8..12].copy_from_slice(&record.destination.ip().octets());
    out[12..14].copy_from_slice(&record.source.port().to_ne_bytes());
    out[14..16].copy_from_slice(&record.destination.port().to_ne_bytes());
    out[16..20].copy_from_slice(&record.ifindex.to_ne_bytes());
    out[20] = record.ttl;
    out[21] = record.tos;
    out[22] = record.asked;
    out[32..36].copy_from_slice(&record.drops.to_ne_bytes());
    out[24..32].copy_from_slice(&record.timestamp.to_ne_bytes());
}

fn decode(header: &[u8; HEADER]) -> (Record, u32) {
    let word = |at: usize| {
        u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let half = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let ip = |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let record = Record {
        source: SocketAddrV4::new(ip(4), half(12)),
        destination: SocketAddrV4::new(ip(8), half(14)),
        ifindex: word(16),
        ttl: header[20],
        tos: header[21],
        asked: header[22],
        drops: word(32),
        timestamp: u64::from(word(24)) | u64::from(word(28)) << 32,
    };
    #[cfg(target_endian = "big")]
    compile_error!("the time stamp is put together little-endian");
    (record, word(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn record(n: u32) -> Record {
        Record {
            source: SocketAddrV4::new(Ipv4Addr::from(n), n as u16),
            destination: SocketAddrV4::new(Ipv4Addr::from(!n), !n as u16),
            ifindex: n * 3,
            ttl: n as u8,
            tos: (n >> 8) as u8,
            timestamp: u64::from(n) << 33 | 7,
            asked: (n >> 16) as u8,
            drops: n / 3,
        }
    }

    #[test]
    fn insertion_keeps_order_and_numbers() {
        let mut queue = Queue::new(10_000);
        for n in [0, 1, 9] {
            queue.push(&record(n), &[n as u8]);
        }
        queue.pop();
        let mut others = Queue::unlimited();
        for n in 2..9 {
            assert!(others.push(&record(n), &[n as u8; 3000]));
        }
        queue.insert(2, others);
        for n in 1..10u32 {
            assert_eq!(queue.front_number(), u64::from(n));
            let (front, payload) = queue.front().expect("inserted");
            assert_eq!((front, payload[0]), (record(n), n as u8));
            queue.pop();
        }
        assert!(queue.is_empty());
    }

    #[test]
    fn merging_goes_by_time() {
        let mut queue = Queue::new(10_000);
        for n in [0, 1, 4, 5] {
            queue.push(&record(n), &[n as u8]);
        }
        queue.pop();
        let mut others = Queue::unlimited();
        for n in [2, 3, 6, 7] {
            others.push(&record(n), &[n as u8; 3000]);
        }
        queue.merge(others);
        for n in 1..8u32 {
            assert_eq!(queue.front_number(), u64::from(n));
            let front = queue.front().expect("merged");
            assert_eq!((front.0, front.1[0]), (record(n), n as u8));
            queue.pop();
        }
        assert!(queue.is_empty());
    }

    proptest! {
        /// The queue against a list: same order, same contents, whatever the sizes.
        #[test]
        fn behaves_like_a_list(ops in prop::collection::vec((any::<bool>(), 0usize..3000), 1..400)) {
            let mut queue = Queue::new(1_000_000);
            let mut model: VecDeque<(Record, Vec<u8>)> = VecDeque::new();
            for (i, (push, size)) in ops.into_iter().enumerate() {
                if push {
                    let payload = vec![i as u8; size];
                    let r = record(i as u32);
                    if queue.push(&r, &payload) {
                        model.push_back((r, payload));
                    }
                } else {
                    let front = queue.front().map(|(r, p)| (r, p.to_vec()));
                    prop_assert_eq!(&front, &model.front().cloned());
                    queue.pop();
                    model.pop_front();
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.payload_bytes(), model.iter().map(|m| m.1.len()).sum::<usize>());
            }
        }
    }

    #[test]
    fn holds_at_least_its_limit_and_then_refuses() {
        let mut queue = Queue::new(212_992);
        let mut taken = 0;
        while queue.push(&record(taken), &[1; 64]) {
            taken += 1;
            assert!(taken < 1_000_000);
        }
        // As a kernel socket with the default buffer.
        assert_eq!(taken, 256);
        assert!(queue.bytes.len() <= 1 << 20);
        queue.pop();
        assert!(!queue.push(&record(0), &[1; 64]), "a quarter at a time");
        for _ in 0..63 {
            queue.pop();
        }
        assert!(queue.push(&record(0), &[1; 64]));
    }

    #[test]
    fn a_single_datagram_always_fits() {
        let mut queue = Queue::new(100);
        assert!(queue.push(&record(1), &[7; 65_507]));
        assert!(!queue.push(&record(2), &[7; 1]));
        assert_eq!(queue.front().map(|f| f.1.len()), Some(65_507));
    }
}
