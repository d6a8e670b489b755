//! The wire over an ordinary interface: the peer may be any host.
//!
//! Sends through an AF_PACKET socket. Receives through a program at the interface's ingress that
//! plays the card's flow table (`program`): what an ordinary rule takes never reaches the
//! kernel's stack. The program puts frames into rings that this process has mapped, so that
//! looking for one takes no system call.
//!
//! Not as on a card: taps on the interface (tcpdump) see every frame; programs that
//! others attach behind this one at the same ingress do not run; TCP super-frames arrive whole.
//! A socket in the kernel's map of the living goes with its process, and its rules with it, also
//! after SIGKILL; but a forked child that does not exec keeps them, as it keeps a card's.

mod assembler;
mod bpf;
mod layout;
mod offload;
mod port;
mod program;
mod ring;

use super::link::Watch;
use super::outlet::LazyOutlet;
use super::syscall::Fd;
use super::{Checksums, Incidents, Interface, Meta, Rule, RuleId, SendError, Wire, WireQueue};
use layout::CLASSES;
use parking_lot::Mutex;
use port::Port;
use ring::{Record, Ring};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{ClockId, DynamicClockId, clock_gettime, clock_gettime_dynamic};
use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Ethernet header and one tag.
const LINK_HEADER: usize = 18;

/// One process's end of one interface.
pub(super) struct PacketWire {
    index: u32,
    /// What takes privileges: made with the first queue, as with a card.
    port: Mutex<Option<Arc<Port>>>,
    outlet: LazyOutlet,
    watch: Watch,
    largest: usize,
}

impl PacketWire {
    /// Joins the interface.
    pub(super) fn open(
        interface: &Interface,
        incidents: Arc<dyn Incidents>,
    ) -> Result<Self, Errno> {
        Ok(Self {
            index: interface.index,
            port: Mutex::default(),
            outlet: LazyOutlet::new(interface.index),
            watch: Watch::start(interface.index, incidents)?,
            largest: interface.mtu as usize + LINK_HEADER,
        })
    }

    fn port(&self) -> Result<Arc<Port>, Errno> {
        let mut port = self.port.lock();
        if let Some(port) = port.as_ref() {
            return Ok(Arc::clone(port));
        }
        self.outlet.open()?;
        let opened = Arc::new(Port::open(self.index)?);
        *port = Some(Arc::clone(&opened));
        Ok(opened)
    }
}

impl Wire for PacketWire {
    fn open_queue(&self, depth: usize) -> Result<Box<dyn WireQueue>, Errno> {
        let port = self.port()?;
        let (slot, fd, ring) = port.open_queue(depth, self.largest)?;
        let events = Fd::own(epoll::create(epoll::CreateFlags::CLOEXEC)?)?;
        epoll::add(
            &events,
            &fd,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::ONESHOT,
        )?;
        Ok(Box::new(PacketQueue {
            port,
            slot,
            ring,
            fd,
            events,
            busy: AtomicBool::new(false),
            cursor: UnsafeCell::new(Cursor {
                segment: 0,
                scratch: vec![0; CLASSES[3] + LINK_HEADER].into_boxed_slice(),
                tai_offset: tai_offset(),
            }),
        }))
    }

    fn attach(&self, queue: &dyn WireQueue, rule: &Rule) -> Result<RuleId, Errno> {
        let slot = u32::try_from(queue.id()).map_err(|_| Errno::INVAL)?;
        self.port()?.attach(slot, rule).map(RuleId)
    }

    fn detach(&self, id: RuleId) {
        if let Some(port) = self.port.lock().as_ref() {
            port.detach(id.0);
        }
    }

    fn send(&self, frame: &[u8]) -> Result<(), SendError> {
        if !self.watch.is_up() {
            return Err(SendError::LinkDown);
        }
        self.outlet.send(frame)
    }

    fn link_up(&self) -> bool {
        self.watch.is_up()
    }
}

/// What atomic time is ahead of the clock that everybody reads.
fn tai_offset() -> u64 {
    let ns = |t: rustix::time::Timespec| t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64;
    let tai = clock_gettime_dynamic(DynamicClockId::Tai).map_or(0, ns);
    // Whole seconds: what passes between the two readings does not count.
    let ahead = tai.saturating_sub(ns(clock_gettime(ClockId::Realtime)));
    (ahead + 500_000_000) / 1_000_000_000 * 1_000_000_000
}

struct Cursor {
    /// Next datagram of the super-frame at the head of the ring.
    segment: usize,
    /// Frames that are not delivered as they lie in the ring are made here.
    scratch: Box<[u8]>,
    /// See [`tai_offset`].
    tai_offset: u64,
}

/// One queue pair's receiving side.
struct PacketQueue {
    port: Arc<Port>,
    slot: u32,
    ring: Ring,
    /// Becomes readable when the program wakes it.
    fd: Fd,
    /// Shows that once for each time it is armed.
    events: Fd,
    /// Owner of `cursor` and of the ring's reading end.
    busy: AtomicBool,
    cursor: UnsafeCell<Cursor>,
}

// SAFETY: the cursor is touched only by who has set `busy`; the rest is Sync.
unsafe impl Sync for PacketQueue {}

impl PacketQueue {
    fn offer(
        &self,
        cursor: &mut Cursor,
        record: &Record<'_>,
        take: &mut dyn FnMut(&[u8], &Meta) -> bool,
    ) -> bool {
        let header = &record.header;
        let mut meta = Meta {
            timestamp_ns: header.time.saturating_sub(cursor.tai_offset),
            checksums: Checksums::Good,
            tag: header.tag,
            status: 0,
        };
        let tag = (header.vlan >> 16 != 0).then_some(header.vlan as u16);
        if header.segment != 0 && tag.is_none() {
            let size = header.segment as usize;
            let index = cursor.segment;
            if let Some((len, last)) =
                offload::segment(record.frame, size, index, &mut cursor.scratch)
            {
                if take(&cursor.scratch[..len], &meta) {
                    cursor.segment += 1;
                    if last {
                        cursor.segment = 0;
                        self.ring.release(record.next());
                    }
                }
                return true;
            }
        }
        if !offload::is_unfinished(record.frame) {
            meta.checksums = Checksums::Unknown;
        }
        let frame = match tag {
            Some(tag) => match offload::tagged(record.frame, tag, &mut cursor.scratch) {
                Some(len) => &cursor.scratch[..len],
                None => record.frame,
            },
            None => record.frame,
        };
        if take(frame, &meta) {
            self.ring.release(record.next());
        }
        true
    }
}

impl WireQueue for PacketQueue {
    fn id(&self) -> u64 {
        u64::from(self.slot)
    }

    fn receive(&self, take: &mut dyn FnMut(&[u8], &Meta) -> bool) -> bool {
        if !self.ring.pending() || self.busy.swap(true, Ordering::Acquire) {
            return false;
        }
        let found = match self.ring.peek() {
            Some(record) => {
                // SAFETY: `busy` was ours to set; nobody else is in here until it is cleared.
                let cursor = unsafe { &mut *self.cursor.get() };
                self.offer(cursor, &record, take)
            }
            None => false,
        };
        self.busy.store(false, Ordering::Release);
        found
    }

    fn pending(&self) -> bool {
        self.ring.pending()
    }

    fn arm(&self) {
        // Before the kernel looks at the ring: the program either sees this or is seen.
        self.port.slot(self.slot).armed.swap(1, Ordering::SeqCst);
        let _ = epoll::modify(
            &self.events,
            &self.fd,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN | epoll::EventFlags::ONESHOT,
        );
    }

    fn event_fd(&self) -> RawFd {
        self.events.raw()
    }

    fn acknowledge(&self) {
        let mut room = Vec::with_capacity(1);
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // One-shot: having been reported, it stays silent until armed again.
        let _ = epoll::wait(
            &self.events,
            rustix::buffer::spare_capacity(&mut room),
            Some(&now),
        );
    }

    fn lost(&self) -> u64 {
        self.port.slot(self.slot).lost.load(Ordering::Relaxed)
    }
}

impl Drop for PacketQueue {
    fn drop(&mut self) {
        self.port.close_queue(self.slot);
    }
}
