//! What lies where in the shared memory: a header, then sockets, rings, poll objects
//! and the process's totals, each an array of 64-byte aligned blocks.
//!
//! Every field is an atomic: any bit pattern is a valid value, so a damaged file
//! gives wrong numbers and never undefined behaviour. What a receiving, a sending and
//! a controlling thread write lies on different cache lines. The only unsafe code of
//! [`crate::stats`] is here: it makes references of addresses inside a checked range.
#![allow(unsafe_code, reason = "typed views of the shared memory")]

use super::table::{
    FINGERPRINT, IomuxEvents, ProcessTotals, RingRx, RingTx, RingUpkeep, SocketLife, SocketQueue,
    SocketRx, SocketRxOs, SocketTx, SocketTxOs,
};
use crate::sys::shm::Mapping;
use core::mem::{align_of, offset_of, size_of};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// "shimstat" in the file's first eight bytes; written last.
pub const MAGIC: u64 = u64::from_le_bytes(*b"shimstat");
/// Raised whenever a struct of this file changes.
pub const VERSION: u32 = 1;
/// Rings with a block.
pub const RINGS: usize = 64;
/// Epoll objects with a block.
pub const EPOLLS: usize = 32;
/// Poll objects with a block: poll, select, then epoll objects.
pub const IOMUXES: usize = 2 + EPOLLS;
/// Most sockets with a block.
pub const MAX_SOCKETS: usize = 1024;
/// Groups listed for a socket.
pub const GROUPS: usize = 16;

/// Nobody uses the block.
pub const FREE: u32 = 0;
/// Somebody is filling it in.
pub const CLAIMED: u32 = 1;
/// Readers may show it.
pub const LIVE: u32 = 2;

/// A short text, padded with zeros; longer ones are cut.
#[derive(Debug)]
#[repr(transparent)]
pub struct Text<const N: usize>([AtomicU8; N]);

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self([const { AtomicU8::new(0) }; N])
    }
}

impl<const N: usize> Text<N> {
    /// Replaces the text.
    pub fn set(&self, text: &str) {
        let bytes = text.bytes().chain(core::iter::repeat(0));
        for (cell, byte) in self.0.iter().zip(bytes) {
            cell.store(byte, Relaxed);
        }
    }

    /// The text; what a terminal would obey instead of show comes as `?`.
    #[must_use]
    pub fn get(&self) -> String {
        let bytes: Vec<u8> = self
            .0
            .iter()
            .map(|b| b.load(Relaxed))
            .take_while(|&b| b != 0)
            .collect();
        let text = String::from_utf8_lossy(&bytes);
        text.chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect()
    }
}

/// The first bytes of the file.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`FINGERPRINT`] of the counters.
    pub fingerprint: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Size of this header.
    pub header_size: AtomicU32,
    /// Size of a socket's block.
    pub socket_size: AtomicU32,
    /// Number of socket blocks.
    pub socket_count: AtomicU32,
    /// Size of a ring's block.
    pub ring_size: AtomicU32,
    /// Number of ring blocks.
    pub ring_count: AtomicU32,
    /// Size of a poll object's block.
    pub iomux_size: AtomicU32,
    /// Number of poll objects' blocks.
    pub iomux_count: AtomicU32,
    /// Size of the process's block.
    pub process_size: AtomicU32,
    /// Writer's process id.
    pub pid: AtomicU32,
    /// 1 until the writer has ended in an orderly way.
    pub alive: AtomicU32,
    /// Keeps the next field aligned.
    pub reserved: AtomicU32,
    /// Length of the file.
    pub total_size: AtomicU64,
    /// Start time of the process in clock ticks since boot (field 22 of
    /// `/proc/<pid>/stat`); 0 if unknown.
    pub start_ticks: AtomicU64,
    /// When the statistics began, in nanoseconds since 1970.
    pub since: AtomicU64,
    /// Name of the program.
    pub program: Text<64>,
}

/// An IPv4 or IPv6 address and port.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Endpoint {
    /// First eight bytes of the IPv6 address, big-endian; 0 for IPv4.
    pub high: AtomicU64,
    /// Last eight bytes of the address, big-endian.
    pub low: AtomicU64,
    /// Port in host order.
    pub port: AtomicU32,
    /// 0 none, 4 or 6.
    pub kind: AtomicU32,
}

/// A joined multicast group.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Group {
    /// IPv4 address in host order.
    pub address: AtomicU32,
    /// Interface; 0 if the kernel chose it.
    pub ifindex: AtomicU32,
}

/// What a socket is, beside its counters. Written by the control plane through
/// [`SocketBlock`]'s setters.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct SocketState {
    /// [`FREE`], [`CLAIMED`] or [`LIVE`].
    pub in_use: AtomicU32,
    /// Raised each time the block gets a new socket.
    pub generation: AtomicU32,
    /// Odd while a setter is at work; each change raises it by two.
    pub sequence: AtomicU32,
    /// Descriptor.
    pub fd: AtomicU32,
    /// AF_INET or AF_INET6.
    pub family: AtomicU32,
    /// 1 if the engine serves it, or sends for it at least.
    pub accelerated: AtomicU32,
    /// [`crate::error::Reason`] if it does not, or only sends.
    pub reason: AtomicU32,
    /// 0 for O_NONBLOCK.
    pub blocking: AtomicU32,
    /// IP_MULTICAST_LOOP.
    pub mc_loop: AtomicU32,
    /// Joined groups; the list holds the first [`GROUPS`].
    pub group_count: AtomicU32,
    /// Inode of the kernel's socket.
    pub inode: AtomicU64,
    /// Local address.
    pub local: Endpoint,
    /// Connected peer.
    pub peer: Endpoint,
    /// Joined groups.
    pub groups: [Group; GROUPS],
}

/// One UDP socket.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct SocketBlock {
    /// From the engine to the program.
    pub rx: SocketRx,
    /// The receive queue.
    pub queue: SocketQueue,
    /// From the kernel to the program.
    pub rx_os: SocketRxOs,
    /// From the program to the engine.
    pub tx: SocketTx,
    /// From the program to the kernel.
    pub tx_os: SocketTxOs,
    /// Rare events.
    pub life: SocketLife,
    /// What it is.
    pub state: SocketState,
}

/// What a ring is.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct RingState {
    /// [`FREE`], [`CLAIMED`] or [`LIVE`].
    pub in_use: AtomicU32,
    /// Raised each time the block gets a new ring.
    pub generation: AtomicU32,
    /// Interface index.
    pub ifindex: AtomicU32,
    /// Receive slots.
    pub rx_slots: AtomicU32,
    /// Transmit slots.
    pub tx_slots: AtomicU32,
    /// Interface name.
    pub interface: Text<16>,
    /// Backend name.
    pub backend: Text<16>,
    /// The device behind the interface by its own name, if it has one.
    pub device: Text<32>,
    /// Whose ring it is.
    pub key: Text<32>,
}

/// One queue of an interface.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct RingBlock {
    /// Receive.
    pub rx: RingRx,
    /// What keeping it alive found.
    pub upkeep: RingUpkeep,
    /// Transmit.
    pub tx: RingTx,
    /// What it is.
    pub state: RingState,
}

/// What a poll object is.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct IomuxState {
    /// [`FREE`], [`CLAIMED`] or [`LIVE`].
    pub in_use: AtomicU32,
    /// Raised each time the block gets a new object.
    pub generation: AtomicU32,
    /// [`super::IomuxKind`].
    pub kind: AtomicU32,
    /// Epoll descriptor; all ones otherwise.
    pub epfd: AtomicU32,
}

/// One poll object.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct IomuxBlock {
    /// Counters.
    pub events: IomuxEvents,
    /// What it is.
    pub state: IomuxState,
}

/// The process as a whole.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct ProcessBlock {
    /// Counters.
    pub totals: ProcessTotals,
}

// The layout is read by other processes: no padding may creep in, no group may share
// a cache line with another.
const _: () = {
    assert!(size_of::<Header>() == 192);
    assert!(offset_of!(Header, version) == 16);
    assert!(offset_of!(Header, total_size) == 64);
    assert!(offset_of!(Header, program) == 88);
    assert!(size_of::<Endpoint>() == 24);
    assert!(size_of::<Group>() == 8);
    assert!(offset_of!(SocketState, inode) == 40);
    assert!(offset_of!(SocketState, local) == 48);
    assert!(offset_of!(SocketState, groups) == 96);
    assert!(size_of::<SocketState>() == 256);
    assert!(offset_of!(SocketBlock, queue) == 64);
    assert!(offset_of!(SocketBlock, rx_os) == 128);
    assert!(offset_of!(SocketBlock, tx) == 192);
    assert!(offset_of!(SocketBlock, tx_os) == 256);
    assert!(offset_of!(SocketBlock, life) == 320);
    assert!(offset_of!(SocketBlock, state) == 384);
    assert!(size_of::<SocketBlock>() == 640);
    assert!(offset_of!(RingBlock, upkeep) == 64);
    assert!(offset_of!(RingBlock, tx) == 128);
    assert!(offset_of!(RingBlock, state) == 192);
    assert!(offset_of!(RingState, interface) == 20);
    assert!(size_of::<RingBlock>() == 320);
    assert!(size_of::<IomuxBlock>() == 128);
    assert!(size_of::<ProcessBlock>() == 64);
    assert!(align_of::<Line>() == 64 && size_of::<Line>() == 64);
};

/// One cache line of a copied file.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Line([AtomicU64; 8]);

impl Line {
    /// Zeros, in whole lines.
    #[must_use]
    pub fn zeroed(bytes: usize) -> Box<[Line]> {
        let line = || Line([const { AtomicU64::new(0) }; 8]);
        (0..bytes.div_ceil(64)).map(|_| line()).collect()
    }

    /// Copies a file's bytes into aligned memory; the last line is padded with zeros.
    #[must_use]
    pub fn copy(bytes: &[u8]) -> Box<[Line]> {
        let word = |bytes: &[u8]| {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            AtomicU64::new(u64::from_ne_bytes(padded))
        };
        let line = |bytes: &[u8]| {
            let mut words = bytes.chunks(8).map(word);
            Line(core::array::from_fn(|_| words.next().unwrap_or_default()))
        };
        bytes.chunks(64).map(line).collect()
    }
}

/// Where the arrays begin, for a number of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    sockets: usize,
    rings_at: usize,
    iomuxes_at: usize,
    process_at: usize,
    total: usize,
}

impl Plan {
    /// The plan for `sockets` blocks, at least one and at most [`MAX_SOCKETS`].
    #[must_use]
    pub fn new(sockets: usize) -> Self {
        let sockets = sockets.clamp(1, MAX_SOCKETS);
        let rings_at = size_of::<Header>() + sockets * size_of::<SocketBlock>();
        let iomuxes_at = rings_at + RINGS * size_of::<RingBlock>();
        let process_at = iomuxes_at + IOMUXES * size_of::<IomuxBlock>();
        Self {
            sockets,
            rings_at,
            iomuxes_at,
            process_at,
            total: process_at + size_of::<ProcessBlock>(),
        }
    }

    /// Length of the file.
    #[must_use]
    pub fn total(&self) -> usize {
        self.total
    }

    /// Writes what describes the layout; the magic number comes from [`Header::begin`].
    pub fn describe(&self, header: &Header) {
        let set = |cell: &AtomicU32, value: usize| cell.store(value as u32, Relaxed);
        header.fingerprint.store(FINGERPRINT, Relaxed);
        header.version.store(VERSION, Relaxed);
        set(&header.header_size, size_of::<Header>());
        set(&header.socket_size, size_of::<SocketBlock>());
        set(&header.socket_count, self.sockets);
        set(&header.ring_size, size_of::<RingBlock>());
        set(&header.ring_count, RINGS);
        set(&header.iomux_size, size_of::<IomuxBlock>());
        set(&header.iomux_count, IOMUXES);
        set(&header.process_size, size_of::<ProcessBlock>());
        header.total_size.store(self.total as u64, Relaxed);
    }

    /// Whether a header describes exactly this build's layout, and for how many sockets.
    #[must_use]
    pub fn described_by(header: &Header) -> Option<Self> {
        let sockets = header.socket_count.load(Relaxed) as usize;
        if sockets == 0 || sockets > MAX_SOCKETS {
            return None;
        }
        let plan = Self::new(sockets);
        let wanted = Header::default();
        plan.describe(&wanted);
        let words = |h: &Header| {
            [
                &h.version,
                &h.header_size,
                &h.socket_size,
                &h.ring_size,
                &h.ring_count,
                &h.iomux_size,
                &h.iomux_count,
                &h.process_size,
            ]
            .map(|cell| cell.load(Relaxed))
        };
        let longs = |h: &Header| [&h.fingerprint, &h.total_size].map(|cell| cell.load(Relaxed));
        (words(header) == words(&wanted) && longs(header) == longs(&wanted)).then_some(plan)
    }
}

/// Typed references to everything in one mapping or copy.
#[derive(Clone, Copy, Debug)]
pub struct Area<'a> {
    /// First bytes.
    pub header: &'a Header,
    /// Sockets.
    pub sockets: &'a [SocketBlock],
    /// Rings.
    pub rings: &'a [RingBlock],
    /// poll, select, epoll objects.
    pub iomuxes: &'a [IomuxBlock],
    /// Totals.
    pub process: &'a ProcessBlock,
}

impl<'a> Area<'a> {
    /// The blocks of a mapping, which stays mapped for good.
    ///
    /// `None` if it is shorter than the plan.
    #[must_use]
    pub fn of_mapping(mapping: &Mapping, plan: Plan) -> Option<Area<'static>> {
        if mapping.len() < plan.total {
            return None;
        }
        // SAFETY: a `Mapping` is page-aligned, readable and writable, as long as just
        // checked, and never unmapped.
        Some(unsafe { Area::at(mapping.base(), plan) })
    }

    /// The blocks of a copy.
    ///
    /// `None` if it is shorter than the plan.
    #[must_use]
    pub fn of_copy(lines: &'a [Line], plan: Plan) -> Option<Self> {
        if size_of_val(lines) < plan.total {
            return None;
        }
        // SAFETY: the slice is 64-byte aligned, as long as just checked and borrowed
        // for 'a; its words are atomics, hence may be written through shared references.
        Some(unsafe { Self::at(NonNull::from_ref(lines).cast(), plan) })
    }

    /// The header alone of a copy that may have another layout.
    #[must_use]
    pub fn header_of(lines: &'a [Line]) -> Option<&'a Header> {
        if size_of_val(lines) < size_of::<Header>() {
            return None;
        }
        // SAFETY: as in `of_copy`.
        Some(unsafe { place(NonNull::from_ref(lines).cast(), 0) })
    }

    /// # Safety
    /// `base` is 64-byte aligned; `plan.total` bytes from it on are readable and
    /// writable for 'a and touched through atomics only.
    unsafe fn at(base: NonNull<u8>, plan: Plan) -> Self {
        Self {
            // SAFETY: the header is the plan's first part.
            header: unsafe { place(base, 0) },
            // SAFETY: the plan puts the sockets behind the header.
            sockets: unsafe { array(base, size_of::<Header>(), plan.sockets) },
            // SAFETY: the plan puts the rings here.
            rings: unsafe { array(base, plan.rings_at, RINGS) },
            // SAFETY: the plan puts the poll objects here.
            iomuxes: unsafe { array(base, plan.iomuxes_at, IOMUXES) },
            // SAFETY: the process's block is the plan's last part.
            process: unsafe { place(base, plan.process_at) },
        }
    }
}

/// # Safety
/// A `T` made of atomics, aligned for it, lies `offset` bytes behind `base` for 'a.
unsafe fn place<'a, T>(base: NonNull<u8>, offset: usize) -> &'a T {
    // SAFETY: within the caller's range.
    let at = unsafe { base.byte_add(offset) };
    // SAFETY: aligned and valid for 'a; any bit pattern is a value.
    unsafe { at.cast::<T>().as_ref() }
}

/// # Safety
/// As for [`place`], for `count` values in a row.
unsafe fn array<'a, T>(base: NonNull<u8>, offset: usize, count: usize) -> &'a [T] {
    // SAFETY: within the caller's range.
    let at = unsafe { base.byte_add(offset) };
    // SAFETY: aligned and valid for 'a; any bit pattern is a value.
    unsafe { core::slice::from_raw_parts(at.cast::<T>().as_ptr(), count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_fill_the_file_without_gap_or_overlap() {
        for sockets in [1, 100, MAX_SOCKETS] {
            let plan = Plan::new(sockets);
            let lines = Line::copy(&vec![0; plan.total()]);
            let area = Area::of_copy(&lines, plan).unwrap();
            let mut at = lines.as_ptr() as usize;
            for (part, size) in [
                (
                    core::ptr::from_ref(area.header) as usize,
                    size_of_val(area.header),
                ),
                (area.sockets.as_ptr() as usize, size_of_val(area.sockets)),
                (area.rings.as_ptr() as usize, size_of_val(area.rings)),
                (area.iomuxes.as_ptr() as usize, size_of_val(area.iomuxes)),
                (
                    core::ptr::from_ref(area.process) as usize,
                    size_of_val(area.process),
                ),
            ] {
                assert_eq!(part, at);
                at += size;
            }
            assert_eq!(at - lines.as_ptr() as usize, plan.total());
        }
    }

    #[test]
    fn a_short_copy_has_no_area() {
        let plan = Plan::new(3);
        assert!(Area::of_copy(&Line::copy(&vec![0; plan.total() - 64]), plan).is_none());
        assert!(Area::header_of(&Line::copy(&[0; 64])).is_none());
    }

    #[test]
    fn a_header_describes_its_plan_and_nothing_else() {
        let header = Header::default();
        assert_eq!(Plan::described_by(&header), None);
        Plan::new(7).describe(&header);
        assert_eq!(Plan::described_by(&header), Some(Plan::new(7)));
        header.ring_size.store(1, Relaxed);
        assert_eq!(Plan::described_by(&header), None);
        Plan::new(7).describe(&header);
        header.fingerprint.store(1, Relaxed);
        assert_eq!(Plan::described_by(&header), None);
    }

    #[test]
    fn texts_are_cut_and_made_harmless() {
        let text = Text::<8>::default();
        text.set("eth0");
        assert_eq!(text.get(), "eth0");
        text.set("\x1b[2Jabcdefgh");
        assert_eq!(text.get(), "?[2Jabcd");
        text.set("");
        assert_eq!(text.get(), "");
    }
}
