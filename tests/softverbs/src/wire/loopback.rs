//! A wire within one process: every frame sent goes through the flow table to the queues of the
//! same process, the sender's own included. For the tests of the verbs objects, which need
//! neither privileges nor a peer. It has no kernel behind it: what no rule takes is gone.

use super::{Checksums, Incidents, Interface, Meta, Rule, RuleId, SendError, Wire, WireQueue};
use crate::clock;
use crate::flow::{Key, Table, walk};
use parking_lot::Mutex;
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// Rules of the process.
const RULES: usize = 65536;

struct Hub {
    table: Table,
    queues: BTreeMap<u32, Arc<Shared>>,
    serial: u64,
}

static HUB: Mutex<Option<Hub>> = Mutex::new(None);

fn hub<T>(with: impl FnOnce(&mut Hub) -> T) -> T {
    let mut hub = HUB.lock();
    with(hub.get_or_insert_with(|| Hub {
        table: Table::new(RULES),
        queues: BTreeMap::new(),
        serial: 0,
    }))
}

/// Both ends of a queue.
struct Shared {
    frames: Mutex<Frames>,
    waiting: AtomicUsize,
    armed: AtomicBool,
    event: OwnedFd,
    lost: AtomicU64,
    depth: usize,
}

#[derive(Default)]
struct Frames {
    arrived: VecDeque<(Vec<u8>, Meta)>,
    /// Buffers to use again.
    spare: Vec<Vec<u8>>,
}

impl Shared {
    fn put(&self, frame: &[u8], tag: u32) {
        let mut frames = self.frames.lock();
        if frames.arrived.len() == self.depth {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut buffer = frames.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(frame);
        let meta = Meta {
            timestamp_ns: clock::realtime(),
            checksums: Checksums::Unknown,
            tag,
            status: 0,
        };
        frames.arrived.push_back((buffer, meta));
        self.waiting.store(frames.arrived.len(), Ordering::Release);
        drop(frames);
        if self.armed.swap(false, Ordering::AcqRel) {
            // Fails only if the counter is full: then it is readable too.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }
}

/// The wire of one opened device.
pub(super) struct Loopback;

impl Loopback {
    pub(super) fn open(_: &Interface, _: Arc<dyn Incidents>) -> Self {
        Self
    }
}

impl Wire for Loopback {
    fn open_queue(&self, depth: usize) -> Result<Box<dyn WireQueue>, Errno> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(Shared {
            frames: Mutex::default(),
            waiting: AtomicUsize::new(0),
            armed: AtomicBool::new(false),
            event: rustix::event::eventfd(0, flags)?,
            lost: AtomicU64::new(0),
            depth,
        });
        let slot = hub(|hub| {
            hub.serial += 1;
            let slot = hub.serial as u32;
            hub.queues.insert(slot, Arc::clone(&shared));
            slot
        });
        Ok(Box::new(Queue { slot, shared }))
    }

    fn attach(&self, queue: &dyn WireQueue, rule: &Rule) -> Result<RuleId, Errno> {
        hub(|hub| {
            hub.serial += 1;
            let (id, slot) = (hub.serial, queue.id() as u32);
            match hub.table.insert(id, slot, 0, rule) {
                Ok(()) => Ok(RuleId(id)),
                Err(_) => Err(Errno::NOMEM),
            }
        })
    }

    fn detach(&self, id: RuleId) {
        hub(|hub| hub.table.remove(id.0));
    }

    fn send(&self, frame: &[u8]) -> Result<(), SendError> {
        if let Some(key) = Key::of_frame(frame) {
            hub(|hub| {
                walk(hub.table.entries().iter().copied(), &key, |entry| {
                    let queue = hub.queues.get(&entry.queue);
                    queue.inspect(|q| q.put(frame, entry.tag)).is_some()
                });
            });
        }
        Ok(())
    }

    fn link_up(&self) -> bool {
        true
    }
}

struct Queue {
    slot: u32,
    shared: Arc<Shared>,
}

impl Drop for Queue {
    fn drop(&mut self) {
        hub(|hub| hub.queues.remove(&self.slot));
    }
}

impl WireQueue for Queue {
    fn id(&self) -> u64 {
        u64::from(self.slot)
    }

    fn receive(&self, take: &mut dyn FnMut(&[u8], &Meta) -> bool) -> bool {
        let mut frames = self.shared.frames.lock();
        let Some((frame, meta)) = frames.arrived.front() else {
            return false;
        };
        if take(frame, meta)
            && let Some((buffer, _)) = frames.arrived.pop_front()
        {
            frames.spare.push(buffer);
        }
        let left = frames.arrived.len();
        self.shared.waiting.store(left, Ordering::Release);
        true
    }

    fn pending(&self) -> bool {
        self.shared.waiting.load(Ordering::Acquire) != 0
    }

    fn arm(&self) {
        self.shared.armed.store(true, Ordering::Release);
    }

    fn event_fd(&self) -> RawFd {
        self.shared.event.as_raw_fd()
    }

    fn acknowledge(&self) {
        let _ = rustix::io::read(&self.shared.event, &mut [0u8; 8]);
    }

    fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }
}
