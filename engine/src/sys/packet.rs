//! AF_PACKET sockets and their mapped receive ring (packet(7), linux/if_packet.h,
//! Documentation/networking/packet_mmap.rst): TPACKET_V2.
//!
//! Owns the mapping. A slot belongs to the kernel until its status says USER, and
//! to us until the status is set back to KERNEL; both sides order by that word.

use super::handle::Handle;
use super::raw::syscall6;
use super::{bpf, sock};
use crate::error::Errno;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;
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

/// The mapping and where its head is; shared by the ring and those who only watch it.
#[derive(Debug)]
struct Slots {
    base: NonNull<u8>,
    geometry: RingGeometry,
    /// Next slot to be taken; written by the ring's owner alone.
    head: AtomicU32,
}

// SAFETY: status words are atomics; the rest of a slot is reached only through the one
// `PacketRing`, by `&mut` or while no one releases. Nothing is tied to a thread.
unsafe impl Send for Slots {}
// SAFETY: as above.
unsafe impl Sync for Slots {}

impl Slots {
    #[inline]
    fn slot(&self) -> NonNull<u8> {
        let head = self.head.load(Ordering::Relaxed) & (self.geometry.slots - 1);
        let offset = head as usize * self.geometry.slot_size as usize;
        // SAFETY: head < slots, so the offset is inside the mapping.
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

impl Drop for Slots {
    fn drop(&mut self) {
        let total = self.geometry.slots as usize * self.geometry.slot_size as usize;
        // SAFETY: the mapping made in `PacketRing::open`, unmapped once, by the last owner.
        let _ = unsafe {
            syscall6(
                libc::SYS_munmap,
                [self.base.as_ptr() as usize, total, 0, 0, 0, 0],
            )
        };
    }
}

/// Tells whether a frame waits, for spinning without the ring's lock.
#[derive(Clone, Debug)]
pub struct RingWatch(Arc<Slots>);

impl RingWatch {
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
    socket: Handle,
    slots: Arc<Slots>,
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
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping chosen by the kernel of exactly the ring's size; the
        // descriptor is a packet socket with that ring.
        let base = unsafe {
            syscall6(
                libc::SYS_mmap,
                [
                    0,
                    total,
                    prot as usize,
                    libc::MAP_SHARED as usize,
                    fd as usize,
                    0,
                ],
            )
        }?;
        let base = NonNull::new(base as *mut u8).ok_or(Errno(libc::ENOMEM))?;
        let head = AtomicU32::new(0);
        let slots = Arc::new(Slots {
            base,
            geometry,
            head,
        });
        let ring = Self { socket, slots };
        // A forked child must never take the parent's frames.
        // SAFETY: the range is the mapping just made.
        let _ = unsafe {
            syscall6(
                libc::SYS_madvise,
                [
                    base.as_ptr() as usize,
                    total,
                    libc::MADV_DONTFORK as usize,
                    0,
                    0,
                    0,
                ],
            )
        };
        bind_to(fd, ifindex, ETH_P_ALL)?;
        Ok(ring)
    }

    /// True when a frame waits.
    #[inline]
    #[must_use]
    pub fn ready(&self) -> bool {
        self.slots.ready()
    }

    /// For looking at the head without owning the ring.
    #[must_use]
    pub fn watch(&self) -> RingWatch {
        RingWatch(Arc::clone(&self.slots))
    }

    /// The frame at the head, if one waits; stays until [`Self::release`].
    #[inline]
    #[must_use]
    pub fn peek(&self) -> Option<SlotFrame<'_>> {
        let status = self.slots.status().load(Ordering::Acquire);
        if status & TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the acquire load saw USER, so the kernel has finished writing this
        // slot and leaves it alone until the status is set back, which needs &mut self.
        let header = unsafe { self.slots.slot().cast::<Tpacket2Hdr>().as_ref() };
        let mac = usize::from(header.mac);
        let room = (self.slots.geometry.slot_size as usize).saturating_sub(mac);
        let len = (header.snaplen as usize).min(room);
        // SAFETY: mac and len were limited to the slot above.
        let start = unsafe {
            self.slots
                .slot()
                .add(mac.min(self.slots.geometry.slot_size as usize))
        };
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
            .status()
            .store(TP_STATUS_KERNEL, Ordering::Release);
        let head = self.slots.head.load(Ordering::Relaxed);
        self.slots
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
        self.slots.geometry
    }
}

/// A packet socket that only sends whole Ethernet frames on one interface.
#[derive(Debug)]
pub struct PacketSender {
    socket: Handle,
}

impl PacketSender {
    /// Opens it. Protocol 0: it never receives.
    ///
    /// # Errors
    /// As [`PacketRing::open`].
    pub fn open(ifindex: u32) -> Result<Self, Errno> {
        let socket = open_socket()?;
        let fd = socket.as_raw_fd();
        sock::set(fd, libc::SOL_PACKET, PACKET_QDISC_BYPASS, &1i32)?;
        bind_to(fd, ifindex, 0)?;
        Ok(Self { socket })
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
