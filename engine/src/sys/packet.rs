//! AF_PACKET sockets and their mapped receive ring (packet(7), linux/if_packet.h,
//! Documentation/networking/packet_mmap.rst): TPACKET_V2.
//!
//! Owns the mapping. A slot belongs to the kernel until its status says USER, and
//! to us until the status is set back to KERNEL; both sides order by that word.

use super::handle::Handle;
use super::raw::syscall6;
use super::{bpf, sock};
use crate::error::Errno;
use crate::sys::mutex::Mutex;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

const TPACKET_V2: i32 = 1;
const TP_STATUS_KERNEL: u32 = 0;
const TP_STATUS_USER: u32 = 1;
/// The frame did not fit: a whole copy waits in the socket's own queue.
pub const STATUS_COPY: u32 = 1 << 1;
/// Frames were lost since the last one.
pub const STATUS_LOSING: u32 = 1 << 2;
/// Checksum not finished: the frame comes from a stack on this machine.
pub const STATUS_CSUM_NOT_READY: u32 = 1 << 3;
/// The VLAN tag is valid.
pub const STATUS_VLAN_VALID: u32 = 1 << 4;
/// The device has verified the checksum.
pub const STATUS_CSUM_VALID: u32 = 1 << 7;

const PACKET_RX_RING: i32 = 5;
const PACKET_STATISTICS: i32 = 6;
const PACKET_COPY_THRESH: i32 = 7;
const PACKET_VERSION: i32 = 10;
const PACKET_VNET_HDR: i32 = 15;
const PACKET_QDISC_BYPASS: i32 = 20;
const PACKET_IGNORE_OUTGOING: i32 = 23;
const ETH_P_ALL: u16 = 3;

#[repr(C)]
struct TpacketReq {
    block_size: u32,
    block_nr: u32,
    frame_size: u32,
    frame_nr: u32,
}

#[repr(C)]
struct Tpacket2Hdr {
    status: u32,
    len: u32,
    snaplen: u32,
    mac: u16,
    net: u16,
    sec: u32,
    nsec: u32,
    vlan_tci: u16,
    vlan_tpid: u16,
    padding: [u8; 4],
}
const _: () = assert!(size_of::<Tpacket2Hdr>() == 32 && offset_of!(Tpacket2Hdr, sec) == 16);

/// `struct virtio_net_hdr` (linux/virtio_net.h), before every frame of the ring.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct VnetHeader {
    /// VIRTIO_NET_HDR_F_*.
    pub flags: u8,
    /// VIRTIO_NET_HDR_GSO_*; 0 for an ordinary frame.
    pub gso_type: u8,
    /// Length of the headers.
    pub hdr_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// Where checksumming starts.
    pub csum_start: u16,
    /// Where the checksum is, from there.
    pub csum_offset: u16,
}
const _: () = assert!(size_of::<VnetHeader>() == 10);

/// Geometry of a receive ring.
#[derive(Clone, Copy, Debug)]
pub struct RingGeometry {
    /// Number of slots; a power of two.
    pub slots: u32,
    /// Bytes of a slot; a power of two, at least 2048.
    pub slot_size: u32,
}

/// A frame in its slot.
#[derive(Debug)]
pub struct SlotFrame<'a> {
    /// TP_STATUS_* bits.
    pub status: u32,
    /// From the Ethernet header on, as much as the slot holds.
    pub data: &'a [u8],
    /// Length on the wire.
    pub wire_len: u32,
    /// CLOCK_REALTIME nanoseconds.
    pub timestamp: u64,
    /// 802.1Q tag that the kernel took off; valid with STATUS_VLAN_VALID.
    pub vlan_tci: u16,
    /// Segmentation and checksum state.
    pub vnet: VnetHeader,
}

/// The mapping and where its head is; shared by the ring and those who only watch it,
/// without any lock. Therefore its addresses stay mapped for good: when the ring is closed
/// they are empty pages, which cost nothing, and the next ring of this size is put there.
#[derive(Debug)]
struct Slots {
    base: NonNull<u8>,
    total: usize,
    slots: AtomicU32,
    slot_size: AtomicU32,
    /// Next slot to be taken; written by the ring's owner alone.
    head: AtomicU32,
}

/// Those of closed rings.
static UNUSED: Mutex<Vec<&'static Slots>> = Mutex::new(Vec::new());

// SAFETY: status words are atomics; the rest of a slot is reached only through the one
// `PacketRing`, by `&mut` or while no one releases. Nothing is tied to a thread.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    #[inline]
    fn slot(&self) -> NonNull<u8> {
        let head = self.head.load(Ordering::Relaxed) & (self.slots.load(Ordering::Relaxed) - 1);
        let offset = head as usize * self.slot_size.load(Ordering::Relaxed) as usize;
        // A watch may have read the numbers of two rings.
        let offset = offset.min(self.total - size_of::<Tpacket2Hdr>());
        // SAFETY: the offset is inside the mapping by the line above.
        unsafe { self.base.add(offset) }
    }

    #[inline]
    fn status(&self) -> &AtomicU32 {
        // SAFETY: the first word of a slot is its status, aligned to 16 bytes; the
        // kernel's accesses to it are word-sized, as ours are.
        unsafe { AtomicU32::from_ptr(self.slot().cast().as_ptr()) }
    }

    #[inline]
    fn ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & TP_STATUS_USER != 0
    }
}

/// Maps `total` bytes of memory that nobody writes: addresses and nothing else.
fn map_nothing(at: usize, total: usize) -> Result<usize, Errno> {
    let place = if at == 0 { 0 } else { libc::MAP_FIXED };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | place;
    // SAFETY: a new mapping where the kernel likes, or in place of one that is this
    // module's own and stays readable throughout.
    unsafe {
        syscall6(
            libc::SYS_mmap,
            [
                at,
                total,
                libc::PROT_READ as usize,
                flags as usize,
                usize::MAX,
                0,
            ],
        )
    }
}

impl Slots {
    /// One of a closed ring of this size, or a new one.
    fn take(geometry: RingGeometry) -> Result<&'static Self, Errno> {
        let total = geometry.slots as usize * geometry.slot_size as usize;
        // A forked child may find it locked by a thread that it does not have.
        let unused = UNUSED.try_lock().and_then(|mut unused| {
            let at = unused.iter().position(|slots| slots.total == total)?;
            Some(unused.swap_remove(at))
        });
        if let Some(slots) = unused {
            slots.slots.store(geometry.slots, Ordering::Relaxed);
            slots.slot_size.store(geometry.slot_size, Ordering::Relaxed);
            slots.head.store(0, Ordering::Relaxed);
            return Ok(slots);
        }
        let base = NonNull::new(map_nothing(0, total)? as *mut u8).ok_or(Errno(libc::ENOMEM))?;
        Ok(Box::leak(Box::new(Self {
            base,
            total,
            slots: AtomicU32::new(geometry.slots),
            slot_size: AtomicU32::new(geometry.slot_size),
            head: AtomicU32::new(0),
        })))
    }

    /// Puts a socket's ring there. A forked child must never take the parent's frames.
    fn map(&self, fd: RawFd) -> Result<(), Errno> {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let base = self.base.as_ptr() as usize;
        // SAFETY: in place of a mapping of the same size that is this value's; the
        // descriptor is a packet socket with a ring of exactly that size.
        unsafe {
            syscall6(
                libc::SYS_mmap,
                [
                    base,
                    self.total,
                    prot as usize,
                    flags as usize,
                    fd as usize,
                    0,
                ],
            )
        }?;
        // SAFETY: the range is the mapping just made.
        let _ = unsafe {
            syscall6(
                libc::SYS_madvise,
                [base, self.total, libc::MADV_DONTFORK as usize, 0, 0, 0],
            )
        };
        Ok(())
    }

    /// The ring is closed.
    fn give_back(&'static self) {
        let empty = map_nothing(self.base.as_ptr() as usize, self.total);
        if empty.is_ok()
            && let Some(mut unused) = UNUSED.try_lock()
        {
            unused.push(self);
        }
    }
}

/// Tells whether a frame waits, for spinning without the ring's lock.
#[derive(Clone, Debug)]
pub struct RingWatch(&'static Slots);

impl RingWatch {
    /// Watches the same memory.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }

    /// A hint: a poller may be about to take the frame.
    #[inline]
    #[must_use]
    pub fn ready(&self) -> bool {
        self.0.ready()
    }
}

/// A packet socket bound to one interface, with a mapped receive ring.
#[derive(Debug)]
pub struct PacketRing {
    /// Given back before the socket is closed.
    slots: Mapped,
    socket: Handle,
}

/// The ring's share of its slots.
#[derive(Debug)]
struct Mapped(&'static Slots);

impl Drop for Mapped {
    fn drop(&mut self) {
        self.0.give_back();
    }
}

fn open_socket() -> Result<Handle, Errno> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket(2) takes no pointers.
    let fd = unsafe {
        syscall6(
            libc::SYS_socket,
            [libc::AF_PACKET as usize, kind as usize, 0, 0, 0, 0],
        )
    }?;
    Handle::new(fd as RawFd)
}

fn bind_to(fd: RawFd, ifindex: u32, protocol: u16) -> Result<(), Errno> {
    let addr = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: ifindex as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as u32;
    sock::bind(fd, std::ptr::from_ref(&addr) as usize, len).map(drop)
}

impl PacketRing {
    /// Opens a ring on an interface. `filter` is in place before the first frame.
    ///
    /// # Errors
    /// EPERM without CAP_NET_RAW, ENOMEM, EMFILE, ENODEV.
    pub fn open(
        ifindex: u32,
        geometry: RingGeometry,
        filter: &bpf::Program,
    ) -> Result<Self, Errno> {
        let socket = open_socket()?;
        let fd = socket.as_raw_fd();
        sock::set(fd, libc::SOL_PACKET, PACKET_VERSION, &TPACKET_V2)?;
        // Tells super-frames (UDP GSO of a sender on this machine) from large datagrams.
        sock::set(fd, libc::SOL_PACKET, PACKET_VNET_HDR, &1i32)?;
        // What does not fit a slot is queued whole on the socket itself.
        sock::set(fd, libc::SOL_PACKET, PACKET_COPY_THRESH, &1i32)?;
        sock::set(fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)?;
        // Frames get their time when they arrive, one time for ring and sockets: that is
        // how the two copies of a datagram are told from two datagrams.
        sock::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
        let copies = 4 << 20;
        if sock::set(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &copies).is_err() {
            let _ = sock::set(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &copies);
        }
        bpf::attach(fd, filter)?;
        let total = geometry.slots as usize * geometry.slot_size as usize;
        let block_size = (256 * 1024).min(total as u32);
        let req = TpacketReq {
            block_size,
            block_nr: total as u32 / block_size,
            frame_size: geometry.slot_size,
            frame_nr: geometry.slots,
        };
        sock::set(fd, libc::SOL_PACKET, PACKET_RX_RING, &req)?;
        let slots = Mapped(Slots::take(geometry)?);
        slots.0.map(fd)?;
        let ring = Self { slots, socket };
        bind_to(fd, ifindex, ETH_P_ALL)?;
        Ok(ring)
    }

    /// Has the kernel stamp every frame when it comes in, once for all who look at it,
    /// instead of when it reaches this ring (SO_TIMESTAMPNS, `net_enable_timestamp`).
    ///
    /// # Errors
    /// The kernel's.
    pub fn stamp_early(&self) -> Result<(), Errno> {
        let fd = self.socket.as_raw_fd();
        sock::set(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
    }

    /// True when a frame waits.
    #[inline]
    #[must_use]
    pub fn ready(&self) -> bool {
        self.slots.0.ready()
    }

    /// For looking at the head without owning the ring.
    #[must_use]
    pub fn watch(&self) -> RingWatch {
        RingWatch(self.slots.0)
    }

    /// The frame at the head, if one waits; stays until [`Self::release`].
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<SlotFrame<'_>> {
        let status = self.slots.0.status().load(Ordering::Acquire);
        if status & TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the acquire load saw USER, so the kernel has finished writing this
        // slot and leaves it alone until the status is set back, which needs &mut self.
        let header = unsafe { self.slots.0.slot().cast::<Tpacket2Hdr>().as_ref() };
        let mac = usize::from(header.mac);
        let slot_size = self.slots.0.slot_size.load(Ordering::Relaxed) as usize;
        let room = (slot_size).saturating_sub(mac);
        let len = (header.snaplen as usize).min(room);
        // SAFETY: mac and len were limited to the slot above.
        let start = unsafe { self.slots.0.slot().add(mac.min(slot_size)) };
        // SAFETY: start..start+len lies inside the slot, which is ours now (see above).
        let data = unsafe { std::slice::from_raw_parts(start.as_ptr(), len) };
        let vnet = if mac >= size_of::<VnetHeader>() {
            // SAFETY: the header stands in the ten bytes before the frame (PACKET_VNET_HDR).
            let at = unsafe { start.sub(size_of::<VnetHeader>()) };
            // SAFETY: plain bytes inside the slot; read without alignment.
            unsafe { at.cast::<VnetHeader>().read_unaligned() }
        } else {
            VnetHeader::default()
        };
        Some(SlotFrame {
            status,
            data,
            wire_len: header.len,
            timestamp: u64::from(header.sec) * 1_000_000_000 + u64::from(header.nsec),
            vlan_tci: header.vlan_tci,
            vnet,
        })
    }

    /// Gives the head slot back to the kernel.
    #[inline]
    pub fn release(&mut self) {
        self.slots
            .0
            .status()
            .store(TP_STATUS_KERNEL, Ordering::Release);
        let head = self.slots.0.head.load(Ordering::Relaxed);
        self.slots
            .0
            .head
            .store(head.wrapping_add(1), Ordering::Relaxed);
    }

    /// The whole of a frame that did not fit its slot (STATUS_COPY): virtio header, then frame.
    ///
    /// # Errors
    /// EAGAIN when there is none.
    pub fn read_copy(&self, out: &mut [u8]) -> Result<usize, Errno> {
        sock::recv(self.socket.as_raw_fd(), out, libc::MSG_DONTWAIT)
    }

    /// Replaces the filter.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn set_filter(&self, filter: &bpf::Program) -> Result<(), Errno> {
        bpf::attach(self.socket.as_raw_fd(), filter)
    }

    /// Frames that the kernel could not place since the last call.
    #[must_use]
    pub fn take_drops(&self) -> u32 {
        let mut out = [0u8; 8];
        match sock::get_bytes(
            self.socket.as_raw_fd(),
            libc::SOL_PACKET,
            PACKET_STATISTICS,
            &mut out,
        ) {
            Ok(8) => u32::from_ne_bytes([out[4], out[5], out[6], out[7]]),
            _ => 0,
        }
    }

    /// Readable when a frame waits; for the sleep.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// The ring's shape.
    #[must_use]
    pub fn geometry(&self) -> RingGeometry {
        RingGeometry {
            slots: self.slots.0.slots.load(Ordering::Relaxed),
            slot_size: self.slots.0.slot_size.load(Ordering::Relaxed),
        }
    }
}

/// A packet socket that only sends whole Ethernet frames on one interface.
#[derive(Debug)]
pub struct PacketSender {
    socket: Handle,
}

/// Numbers of senders whose interface is gone. A call may still be about to send there, so
/// they are never closed: the next sender takes the number over, in one step.
static RETIRED: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

impl PacketSender {
    /// Opens it. Protocol 0: it never receives.
    ///
    /// # Errors
    /// As [`PacketRing::open`].
    pub fn open(ifindex: u32) -> Result<Self, Errno> {
        let mut socket = open_socket()?;
        let fd = socket.as_raw_fd();
        sock::set(fd, libc::SOL_PACKET, PACKET_QDISC_BYPASS, &1i32)?;
        bind_to(fd, ifindex, 0)?;
        let retired = RETIRED.try_lock().and_then(|mut retired| retired.pop());
        if let Some(number) = retired {
            socket = socket.take_number(number)?;
        }
        Ok(Self { socket })
    }

    /// Nobody sends by it any more; it is not dropped.
    pub fn retire(&self) {
        if let Some(mut retired) = RETIRED.try_lock() {
            retired.push(self.socket.as_raw_fd());
        }
    }

    /// Sends one frame, never blocking.
    ///
    /// # Errors
    /// EAGAIN or ENOBUFS when the interface takes no more, ENETDOWN, EMSGSIZE, ENXIO.
    #[inline]
    pub fn send(&self, frame: &[u8]) -> Result<(), Errno> {
        sock::send(self.socket.as_raw_fd(), frame, libc::MSG_DONTWAIT).map(drop)
    }

    /// For waiting until it can send again.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
