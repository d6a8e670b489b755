//! Every counter of the engine: one line each, with its name, kind, unit, what it
//! means and what a rising value asks for.
//!
//! The shared-memory structs, their plain copies, the names in `shim-stats` and the
//! reference text are made from this table and from nothing else. A group is one
//! writer's cache lines; a pair of group and counter name occurs once in the table,
//! so that a source scan can tell who writes it. Changing a group changes
//! [`FINGERPRINT`], and a reader of another build says so instead of guessing.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// One 64-bit number in shared memory. Orders nothing: readers want a recent value.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n` where any thread may write.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Adds `n` where the caller is the only writer, because it holds the lock that
    /// guards the object; saves the locked instruction.
    #[inline]
    pub fn add_exclusive(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Adds `n` where any thread of the program may write: without the locked
    /// instruction as long as there is only one (VMA_THREAD_MODE=0).
    #[inline]
    pub fn add_shared(&self, n: u64) {
        if crate::ring::is_single() {
            self.add_exclusive(n);
        } else {
            self.add(n);
        }
    }

    /// Raises a peak to `value`; the caller is the only writer.
    #[inline]
    pub fn max_exclusive(&self, value: u64) {
        if value > self.0.load(Relaxed) {
            self.0.store(value, Relaxed);
        }
    }

    /// The value now.
    #[inline]
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

/// How a value behaves, and so what a difference of two readings means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only rises.
    Count,
    /// The highest value so far.
    Peak,
    /// Rises and falls.
    Gauge,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// What the counter belongs to: socket, ring, iomux or process.
    pub owner: &'static str,
    /// Field of the owner's block.
    pub group: &'static str,
    /// Name within the group.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// What is counted.
    pub unit: &'static str,
    /// What the number is.
    pub meaning: &'static str,
    /// What a rising value means, and what to do about it.
    pub advice: &'static str,
}

macro_rules! counters {
    ($(
        $(#[doc = $doc:literal])+
        $group:ident, $values:ident in $owner:ident . $field:ident {
            $($name:ident: $kind:ident $unit:ident, $meaning:literal, $advice:literal;)+
        }
    )+) => {
        $(
            $(#[doc = $doc])+
            #[derive(Debug, Default)]
            #[repr(C, align(64))]
            pub struct $group {
                $(#[doc = $meaning] pub $name: Counter,)+
            }

            impl $group {
                /// This group's lines of the table.
                pub const TABLE: &'static [Info] = &[$(Info {
                    owner: stringify!($owner),
                    group: stringify!($field),
                    name: stringify!($name),
                    kind: Kind::$kind,
                    unit: stringify!($unit),
                    meaning: $meaning,
                    advice: $advice,
                }),+];

                /// A copy of the values now.
                #[must_use]
                pub fn values(&self) -> $values {
                    $values { $($name: self.$name.get(),)+ }
                }

                /// Sets everything to zero, for a block that is used again.
                pub fn clear(&self) {
                    $(self.$name.set(0);)+
                }
            }

            #[doc = concat!("A copy of [`", stringify!($group), "`].")]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $values {
                $(#[doc = $meaning] pub $name: u64,)+
            }

            impl $values {
                /// Names and values, in the order of the table.
                pub fn each(&self) -> impl Iterator<Item = (&'static Info, u64)> {
                    $group::TABLE.iter().zip([$(self.$name),+])
                }

                /// What was counted since `earlier`; peaks and gauges stay as they are.
                #[must_use]
                pub fn since(&self, earlier: &Self) -> Self {
                    Self { $($name: match Kind::$kind {
                        Kind::Count => self.$name.saturating_sub(earlier.$name),
                        Kind::Peak | Kind::Gauge => self.$name,
                    },)+ }
                }
            }
        )+

        /// All groups, in the order of the table.
        pub const GROUPS: &[&[Info]] = &[$($group::TABLE),+];
    };
}

counters! {
    /// Datagrams that the engine gave to the program. Written under the socket's receive lock.
    SocketRx, SocketRxValues in socket.rx {
        packets: Count packets, "Datagrams received from the engine", "Work done by the fast path.";
        bytes: Count bytes, "Payload received from the engine", "Work done by the fast path.";
        poll_hit: Count calls, "Receive calls that found a datagram while polling", "The share of hits says how well the polling budget is spent.";
        poll_miss: Count calls, "Receive calls that polled their whole budget in vain", "Misses that end in sleep cost a wake-up each: raise VMA_RX_POLL or accept it.";
        eagain: Count calls, "Receive calls that returned EAGAIN", "Normal for a program that polls by itself.";
        errors: Count calls, "Receive calls that failed otherwise", "The program sees these errors: look at its own log.";
    }

    /// Datagrams that came through the kernel's socket.
    SocketRxOs, SocketRxOsValues in socket.rx_os {
        packets: Count packets, "Datagrams received from the kernel socket", "On an accelerated socket: traffic of loopback, fragments or before the hand-over; much of it means the fast path is bypassed.";
        bytes: Count bytes, "Payload received from the kernel socket", "As for rx_os.packets.";
        eagain: Count calls, "Kernel receive calls that returned EAGAIN", "Normal for a program that polls by itself.";
        errors: Count calls, "Kernel receive calls that failed otherwise", "The program sees these errors: look at its own log.";
    }

    /// Datagrams that the engine sent. Written under the socket's send lock.
    SocketTx, SocketTxValues in socket.tx {
        packets: Count packets, "Datagrams sent by the engine", "Work done by the fast path.";
        bytes: Count bytes, "Payload sent by the engine", "Work done by the fast path.";
        eagain: Count calls, "Sends that found no room in the ring", "The device is slower than the program: raise VMA_TX_WRE or send less.";
        errors: Count calls, "Sends that failed otherwise", "The program sees these errors: look at its own log.";
    }

    /// Datagrams that went out through the kernel's socket.
    SocketTxOs, SocketTxOsValues in socket.tx_os {
        packets: Count packets, "Datagrams sent by the kernel socket", "On an accelerated socket: first packet to an unresolved neighbour, fragments, other interfaces; much of it means the fast path is bypassed.";
        bytes: Count bytes, "Payload sent by the kernel socket", "As for tx_os.packets.";
        eagain: Count calls, "Kernel sends that returned EAGAIN", "The kernel's send buffer is full: raise SO_SNDBUF or send less.";
        errors: Count calls, "Kernel sends that failed otherwise", "The program sees these errors: look at its own log.";
    }

    /// The socket's receive queue. Written under the socket's receive lock.
    SocketQueue, SocketQueueValues in socket.queue {
        packets: Gauge packets, "Datagrams waiting in the queue", "A value that stays high: the program reads too slowly.";
        bytes: Gauge bytes, "Bytes waiting in the queue", "A value that stays high: the program reads too slowly.";
        limit_bytes: Gauge bytes, "Most bytes the queue may hold", "Follows SO_RCVBUF.";
        max_packets: Peak packets, "Most datagrams that ever waited", "Near the limit: bursts are about to be dropped.";
        max_bytes: Peak bytes, "Most bytes that ever waited", "Near queue.limit_bytes: raise SO_RCVBUF.";
        drop_packets: Count packets, "Datagrams dropped because the queue was full", "Loss: raise SO_RCVBUF or read faster.";
        drop_bytes: Count bytes, "Bytes dropped because the queue was full", "Loss: raise SO_RCVBUF or read faster.";
    }

    /// Rare events of a socket; any thread writes.
    SocketLife, SocketLifeValues in socket.life {
        rx_migrations: Count times, "Times the socket changed its receiving ring", "Threads take turns with the socket: give each its own, or set VMA_RING_MIGRATION_RATIO_RX=-1.";
        tx_migrations: Count times, "Times the socket changed its sending ring", "As for life.rx_migrations, with VMA_RING_MIGRATION_RATIO_TX.";
        handovers: Count times, "Times the socket changed between engine and kernel", "More than a few: something binds, connects or joins back and forth; see the reason.";
    }

    /// Frames that a ring received. Written under the ring's receive lock.
    RingRx, RingRxValues in ring.rx {
        frames: Count frames, "Frames taken from the ring", "Work done by the fast path.";
        frame_bytes: Count bytes, "Bytes of these frames", "Work done by the fast path.";
        not_ours: Count frames, "Frames that no accelerated socket wanted", "Time spent on foreign traffic: the ring's filter is wider than the sockets.";
        malformed: Count frames, "Frames with an impossible length or header", "A broken sender or a device fault.";
        bad_checksum: Count frames, "Datagrams with a wrong IP or UDP checksum", "Damage on the way: look at cables and switches.";
        reassembled: Count packets, "Datagrams put together from fragments", "The sender exceeds the MTU: slower, and one lost fragment loses all.";
    }

    /// What keeping a ring alive found. Written by the control thread and by whoever finds the ring stopped.
    RingUpkeep, RingUpkeepValues in ring.upkeep {
        kernel_drops: Count frames, "Frames the kernel dropped because the ring was full", "Loss: poll more often or enlarge the ring (VMA_RX_WRE).";
        freezes: Count times, "Times the ring was full and stopped", "Loss: poll more often or enlarge the ring (VMA_RX_WRE).";
        drained: Count frames, "Frames taken by the control thread", "The program did not read for a while; harmless unless queues overflow.";
    }

    /// Frames that a ring sent. Written under the ring's transmit lock.
    RingTx, RingTxValues in ring.tx {
        frames: Count frames, "Frames put on the ring", "Work done by the fast path.";
        frame_bytes: Count bytes, "Bytes of these frames", "Work done by the fast path.";
        failed: Count frames, "Frames the device refused", "The interface is down or the frame is too long: look at the interface.";
        full: Count times, "Times no slot was free", "The device is slower than the program: raise VMA_TX_WRE or send less.";
    }

    /// One poll, select or epoll object; several threads write.
    IomuxEvents, IomuxEventsValues in iomux.events {
        offload_ready: Count fds, "Accelerated sockets reported ready", "Work done by the fast path.";
        os_ready: Count fds, "Kernel descriptors reported ready", "Normal for timers, pipes and TCP.";
        timeouts: Count calls, "Calls that ended by time-out", "Normal for a program with idle times.";
        errors: Count calls, "Calls that failed", "The program sees these errors: look at its own log.";
        poll_hit: Count calls, "Calls that found something while polling", "The share of hits says how well the polling budget is spent.";
        poll_miss: Count calls, "Calls that polled their whole budget in vain", "Misses that end in sleep cost a wake-up each: raise VMA_SELECT_POLL or accept it.";
    }

    /// The process as a whole; any thread writes.
    ProcessTotals, ProcessTotalsValues in process.totals {
        mode_switches: Count times, "Switches of the thread mode to a stronger one", "The program has more threads than VMA_THREAD_MODE promised.";
        sockets_opened: Count sockets, "UDP sockets opened", "A program that opens a socket per request cannot be fast.";
        sockets_unlisted: Count sockets, "Sockets that found no statistics slot", "Raise VMA_STATS_FD_NUM.";
        warnings: Count times, "Warnings given", "Read them in the log.";
    }
}

const fn hash(mut state: u64, text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        state = (state ^ bytes[i] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        i += 1;
    }
    // A separator, so that "ab" + "c" is not "a" + "bc".
    (state ^ 0xff).wrapping_mul(0x0000_0100_0000_01b3)
}

/// FNV-1a over owners, groups and names in order: equal in two builds whose counters
/// lie in the same places.
pub const FINGERPRINT: u64 = {
    let mut state = 0xcbf2_9ce4_8422_2325;
    let mut group = 0;
    while group < GROUPS.len() {
        let mut line = 0;
        while line < GROUPS[group].len() {
            let info = &GROUPS[group][line];
            state = hash(state, info.owner);
            state = hash(state, info.group);
            state = hash(state, info.name);
            line += 1;
        }
        group += 1;
    }
    state
};

/// Every line of the table.
pub fn all() -> impl Iterator<Item = &'static Info> {
    GROUPS.iter().flat_map(|group| group.iter())
}

#[cfg(test)]
mod tests;
