//! A wire that does to frames, and to its port, what was asked for.

use super::spec::{Action, Side, Trouble};
use crate::wire::{Checksums, Incident, Incidents, Meta, Rule, RuleId, SendError, Wire, WireQueue};
use parking_lot::Mutex;
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use std::collections::VecDeque;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A frame that waits to be overtaken waits no longer.
const OVERTAKEN_WITHIN: u64 = 10_000_000;
/// Ethernet, IPv4 and UDP headers: what is behind is flipped, so that rules still match.
const HEADERS: usize = 42;

fn now() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec.cast_unsigned() * 1_000_000_000 + t.tv_nsec.cast_unsigned()
}

/// What one side does to its frames.
#[derive(Default)]
struct Troubles {
    /// Trouble, every how many, and frames since.
    every: Vec<(Trouble, u64, u64)>,
    /// Frames until one completes with a status.
    errors: Vec<(u64, u32)>,
    random: u64,
}

impl Troubles {
    fn set(&mut self, trouble: Trouble, n: u64) {
        let same = |t: &Trouble| std::mem::discriminant(t) == std::mem::discriminant(&trouble);
        self.every.retain(|(t, ..)| !same(t));
        if n > 0 {
            let phase = if self.random == 0 { 0 } else { self.draw() % n };
            self.every.push((trouble, n, phase));
        }
    }

    /// A number that only the seed determines (xorshift).
    fn draw(&mut self) -> u64 {
        let mut x = self.random.max(1);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random = x;
        x
    }

    /// Counts a frame: what happens to it.
    fn next(&mut self) -> (Option<Trouble>, Option<u32>) {
        let mut hit = None;
        for (trouble, n, since) in &mut self.every {
            *since += 1;
            if *since >= *n {
                *since = 0;
                hit = hit.or(Some(*trouble));
            }
        }
        let mut status = None;
        for (left, with) in &mut self.errors {
            *left -= 1;
            if *left == 0 {
                status = Some(*with);
            }
        }
        self.errors.retain(|(left, _)| *left > 0);
        (hit, status)
    }

    /// Flips one bit, behind the headers if there is something.
    fn corrupt(&mut self, frame: &mut [u8]) {
        let from = if frame.len() > HEADERS { HEADERS } else { 14 };
        if frame.len() > from {
            let bit = self.draw() as usize % ((frame.len() - from) * 8);
            frame[from + bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Events that wait for sends.
#[derive(Default)]
struct Pending(Vec<(u64, Incident)>);

/// What the faults know of one opened device.
pub(super) struct Port {
    name: String,
    incidents: Arc<dyn Incidents>,
    /// No carrier, whatever the link says.
    down: AtomicBool,
    gone: AtomicBool,
    sent: AtomicU64,
    /// Sends at which an event is due.
    due: AtomicU64,
    pending: Mutex<Pending>,
    rx: Mutex<Troubles>,
    tx: Mutex<(Troubles, Vec<u8>)>,
}

impl Port {
    /// A healthy one.
    pub(super) fn new(name: &str, incidents: Arc<dyn Incidents>) -> Self {
        Self {
            name: name.to_owned(),
            incidents,
            down: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            due: AtomicU64::new(u64::MAX),
            pending: Mutex::default(),
            rx: Mutex::default(),
            tx: Mutex::default(),
        }
    }

    /// Its interface.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Does what is asked for.
    pub(super) fn apply(&self, action: &Action) {
        let on = |side: Side, change: &dyn Fn(&mut Troubles)| match side {
            Side::Rx => change(&mut self.rx.lock()),
            Side::Tx => change(&mut self.tx.lock().0),
        };
        match *action {
            Action::Every(side, trouble, n) => on(side, &|t| t.set(trouble, n)),
            Action::Error(side, n, status) => on(side, &|t| t.errors.push((n, status))),
            Action::Seed(seed) => {
                self.rx.lock().random = seed;
                self.tx.lock().0.random = seed;
            }
            Action::Event(incident, 0) => self.happen(incident),
            Action::Event(incident, after) => {
                let mut pending = self.pending.lock();
                let at = self.sent.load(Ordering::Relaxed) + after;
                pending.0.push((at, incident));
                self.due.fetch_min(at, Ordering::Relaxed);
            }
            Action::Fail { .. } => {}
        }
    }

    fn happen(&self, incident: Incident) {
        match incident {
            Incident::PortDown => self.down.store(true, Ordering::Relaxed),
            Incident::PortActive => self.down.store(false, Ordering::Relaxed),
            Incident::DeviceFatal => self.gone.store(true, Ordering::Relaxed),
            _ => {}
        }
        self.incidents.raise(incident);
    }

    /// Counts a send; raises what is due. An event of the send itself comes after the frame.
    fn count_send(&self) {
        let sent = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        if sent < self.due.load(Ordering::Relaxed) {
            return;
        }
        let mut pending = self.pending.lock();
        let (now, later): (Vec<_>, Vec<_>) = pending.0.drain(..).partition(|&(at, _)| at <= sent);
        let next = later.iter().map(|&(at, _)| at).min();
        self.due.store(next.unwrap_or(u64::MAX), Ordering::Relaxed);
        pending.0 = later;
        drop(pending);
        for (_, incident) in now {
            self.happen(incident);
        }
    }

    fn is_deaf(&self) -> bool {
        self.down.load(Ordering::Relaxed) || self.gone.load(Ordering::Relaxed)
    }
}

/// A wire with faults.
pub(super) struct FaultyWire {
    wire: Arc<dyn Wire>,
    port: Arc<Port>,
}

impl FaultyWire {
    /// Around a wire.
    pub(super) fn new(wire: Arc<dyn Wire>, port: Arc<Port>) -> Self {
        Self { wire, port }
    }

    fn pass(&self, frame: &[u8]) -> Result<(), SendError> {
        if self.port.gone.load(Ordering::Relaxed) {
            return Err(SendError::Broken(Errno::IO));
        }
        if self.port.down.load(Ordering::Relaxed) {
            return Err(SendError::LinkDown);
        }
        let mut tx = self.port.tx.lock();
        let (troubles, scratch) = &mut *tx;
        let (trouble, status) = troubles.next();
        if let Some(status) = status {
            return Err(SendError::Failed(status));
        }
        match trouble {
            Some(Trouble::Drop) => Ok(()),
            Some(Trouble::Corrupt) => {
                scratch.clear();
                scratch.extend_from_slice(frame);
                troubles.corrupt(scratch);
                self.wire.send(scratch)
            }
            _ => {
                drop(tx);
                self.wire.send(frame)
            }
        }
    }
}

impl Wire for FaultyWire {
    fn open_queue(&self, depth: usize) -> Result<Box<dyn WireQueue>, Errno> {
        let queue = self.wire.open_queue(depth)?;
        Ok(Box::new(FaultyQueue::new(queue, Arc::clone(&self.port))?))
    }

    fn attach(&self, queue: &dyn WireQueue, rule: &Rule) -> Result<RuleId, Errno> {
        self.wire.attach(queue, rule)
    }

    fn detach(&self, id: RuleId) {
        self.wire.detach(id);
    }

    fn send(&self, frame: &[u8]) -> Result<(), SendError> {
        let result = self.pass(frame);
        self.port.count_send();
        result
    }

    fn link_up(&self) -> bool {
        !self.port.is_deaf() && self.wire.link_up()
    }
}

/// A frame that comes later.
struct Held {
    due: u64,
    /// Or as soon as another frame has been taken.
    until_overtaken: bool,
    frame: Vec<u8>,
    meta: Meta,
}

/// A queue with faults.
struct FaultyQueue {
    queue: Box<dyn WireQueue>,
    port: Arc<Port>,
    held: Mutex<VecDeque<Held>>,
    timer: OwnedFd,
    /// Of the queue's own event descriptor and the timer.
    events: OwnedFd,
}

impl FaultyQueue {
    fn new(queue: Box<dyn WireQueue>, port: Arc<Port>) -> Result<Self, Errno> {
        let high = |fd: OwnedFd| rustix::io::fcntl_dupfd_cloexec(&fd, 64);
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = high(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        let events = high(epoll::create(epoll::CreateFlags::CLOEXEC)?)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&events, &timer, data, epoll::EventFlags::IN)?;
        // SAFETY: the queue owns the descriptor and is kept beside.
        let inner = unsafe { BorrowedFd::borrow_raw(queue.event_fd()) };
        epoll::add(&events, inner, data, epoll::EventFlags::IN)?;
        Ok(Self {
            queue,
            port,
            held: Mutex::default(),
            timer,
            events,
        })
    }

    /// Offers a held frame whose time has come.
    fn offer_held(&self, take: &mut dyn FnMut(&[u8], &Meta) -> bool) -> bool {
        let mut held = self.held.lock();
        let Some(at) = due(&held) else {
            return false;
        };
        if take(&held[at].frame, &held[at].meta) {
            held.remove(at);
        }
        true
    }

    /// One frame of the wire; what is to be done with it.
    fn judge(&self, frame: &[u8], meta: &Meta, take: &mut dyn FnMut(&[u8], &Meta) -> bool) -> Fate {
        if self.port.is_deaf() {
            return Fate::Gone;
        }
        let mut troubles = self.port.rx.lock();
        let (trouble, status) = troubles.next();
        let mut meta = *meta;
        meta.status = status.unwrap_or(0);
        let hold = |late: u64, until_overtaken| {
            self.held.lock().push_back(Held {
                due: now() + late,
                until_overtaken,
                frame: frame.to_vec(),
                meta,
            });
            Fate::Gone
        };
        match trouble {
            Some(Trouble::Drop) => Fate::Gone,
            Some(Trouble::Delay(us)) => hold(us * 1000, false),
            Some(Trouble::Reorder) => hold(OVERTAKEN_WITHIN, true),
            Some(Trouble::Corrupt) => {
                let mut copy = frame.to_vec();
                troubles.corrupt(&mut copy);
                meta.checksums = Checksums::Unknown;
                drop(troubles);
                Fate::offered(take(&copy, &meta))
            }
            None => {
                drop(troubles);
                Fate::offered(take(frame, &meta))
            }
        }
    }
}

/// What became of a frame of the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Nobody was offered it.
    Gone,
    Taken,
    Refused,
}

impl Fate {
    fn offered(taken: bool) -> Self {
        if taken { Self::Taken } else { Self::Refused }
    }
}

/// A held frame that is due.
fn due(held: &VecDeque<Held>) -> Option<usize> {
    if held.is_empty() {
        return None;
    }
    let now = now();
    held.iter().position(|h| h.due <= now)
}

impl WireQueue for FaultyQueue {
    fn id(&self) -> u64 {
        self.queue.id()
    }

    fn receive(&self, take: &mut dyn FnMut(&[u8], &Meta) -> bool) -> bool {
        if self.offer_held(take) {
            return true;
        }
        loop {
            let mut fate = Fate::Gone;
            let more = self.queue.receive(&mut |frame, meta| {
                fate = self.judge(frame, meta, take);
                fate != Fate::Refused
            });
            if !more {
                return false;
            }
            if fate == Fate::Taken {
                for held in self.held.lock().iter_mut().filter(|h| h.until_overtaken) {
                    held.due = 0;
                }
            }
            if fate != Fate::Gone {
                return true;
            }
        }
    }

    fn pending(&self) -> bool {
        due(&self.held.lock()).is_some() || self.queue.pending()
    }

    fn arm(&self) {
        self.queue.arm();
        if let Some(first) = self.held.lock().iter().map(|h| h.due).min() {
            let left = first.saturating_sub(now()).max(1);
            let zero = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let wait = Itimerspec {
                it_interval: zero,
                it_value: Timespec {
                    tv_sec: (left / 1_000_000_000).cast_signed(),
                    tv_nsec: (left % 1_000_000_000).cast_signed(),
                },
            };
            let _ = timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &wait);
        }
    }

    fn event_fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    fn acknowledge(&self) {
        let _ = rustix::io::read(&self.timer, &mut [0u8; 8]);
        self.queue.acknowledge();
    }

    fn stamp(&self, wanted: bool) {
        self.queue.stamp(wanted);
    }

    fn lost(&self) -> u64 {
        self.queue.lost()
    }
}
