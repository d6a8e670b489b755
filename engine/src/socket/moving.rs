//! While a socket moves between kernel and engine: each datagram once, and in order.
//!
//! A tap and the kernel socket both see a frame, the tap first. For a short time around a
//! move the kernel socket's filter lets everything through, and the engine remembers what
//! it brought; what the kernel socket then holds of that is skipped. A copy is known by
//! its receive time stamp, which the kernel makes once per frame, with its sender and size.
//! Of what is left on both sides the older one is next.
//!
//! A device that steers gives a frame to the engine or to the kernel, so that one side has
//! everything that is older. Of a shared flow both have it; a copy is known by its sender
//! and payload, for the two have different time stamps.
//!
//! Between a move's beginning and the moment at which the filter comes or goes lies an RCU
//! grace period, so that no frame is on its way from the device to the socket: a busy
//! receive path takes milliseconds for that. Another one lies between that and the end.

use super::control::Control;
use super::core::{Core, Directory};
use super::io::Receive;
use super::path::QueueAll;
use super::udp::{Mode, UdpSocket};
use crate::clock;
use crate::device::Delivery;
use crate::error::{Errno, Reason};
use crate::ring::{Guard, Lock, Queue, Record};
use crate::sys::event::{self, Event};
use crate::sys::mutex::Mutex;
use crate::sys::sock;
use once_cell::sync::OnceCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::net::SocketAddrV4;
use std::os::fd::RawFd;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// What is remembered at the most: a grace period at a million datagrams a second.
const MOST: usize = 1 << 16;
/// How long after the way back a frame may still reach the kernel socket, ns.
const UNDER_WAY: u64 = 100_000_000;

/// What names a datagram on both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Identity {
    key: Key,
    source: SocketAddrV4,
    length: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// When the frame came, where a tap brings it.
    Stamp(u64),
    /// What is in it, where a device does that steers.
    Content(u64),
}

impl Key {
    fn of_content(payload: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write(payload);
        Self::Content(hasher.finish())
    }
}

/// How far a socket's filter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Filtering {
    /// No move, or its filter is on.
    Settled,
    /// Frames may be on their way past the tap, which did not know the socket yet.
    UnderWay,
    /// It has come, and frames that passed before may be on their way still.
    Filtered,
    /// The filter is about to go.
    Leaving,
    /// It has gone, and devices that steer bring nothing new.
    LetGo,
}

/// The state of a move.
#[derive(Debug)]
pub(super) struct Moving {
    /// The engine's datagrams are remembered.
    remembers: AtomicBool,
    /// A [`Filtering`].
    filtering: AtomicU8,
    /// A tap takes part.
    by_tap: AtomicBool,
    /// Rises with every arrival.
    arrival: AtomicU64,
    /// When the kernel got the socket back (CLOCK_MONOTONIC, ns); 0: not lately.
    left_at: AtomicU64,
    /// Number of the first datagram that a device brought which steers: what is queued here
    /// from before is older than what the kernel socket holds.
    steered_from: AtomicU64,
    /// What the engine has brought. Rank: after the socket's queue.
    had: Lock<HashMap<Identity, u32>>,
    /// One thread at a time decides which datagram is next.
    turn: Lock<()>,
}

impl Default for Moving {
    fn default() -> Self {
        Self {
            remembers: AtomicBool::new(false),
            filtering: AtomicU8::new(Filtering::Settled as u8),
            by_tap: AtomicBool::new(false),
            arrival: AtomicU64::new(0),
            left_at: AtomicU64::new(0),
            steered_from: AtomicU64::new(0),
            had: Lock::new(HashMap::new()),
            turn: Lock::new(()),
        }
    }
}

/// A socket, and which of its arrivals.
type Arrival = (Weak<UdpSocket>, u64);

/// Sockets that have come from the kernel and still have no filter.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    list: Mutex<Vec<Arrival>>,
    /// Those whose grace period is over.
    due: Mutex<Vec<Arrival>>,
    /// Wakes the thread that waits for grace periods: the control thread has no time for
    /// them. None: it could not be had.
    thread: OnceCell<Option<Event>>,
}

impl Core {
    /// A socket's filter is to come when no frame is under way past it; false: now.
    pub(super) fn filter_later(&'static self, socket: &UdpSocket) -> bool {
        let started = self.arrivals.thread.get_or_init(|| {
            let event = Event::open().ok()?;
            event::spawn_quiet("shim-filter", || self.filter_arrivals()).ok()?;
            Some(event)
        });
        match started {
            Some(event) => {
                let arrival = socket.moving.arrival.load(Ordering::SeqCst);
                self.arrivals.list.lock().push((socket.me.clone(), arrival));
                event.signal();
                true
            }
            None => {
                event::await_receive_path();
                false
            }
        }
    }

    /// Puts the filters on when they are due, for ever.
    fn filter_arrivals(&self) {
        // Whoever asked for this thread is still storing it.
        while self.arrivals.thread.get().is_none() {
            event::yield_now();
        }
        let Some(Some(event)) = self.arrivals.thread.get() else {
            return;
        };
        loop {
            let mut wake = [libc::pollfd {
                fd: event.raw(),
                events: libc::POLLIN,
                revents: 0,
            }];
            let _ = event::ppoll(&mut wake, None, None);
            event.clear();
            let list = std::mem::take(&mut *self.arrivals.list.lock());
            event::await_receive_path();
            self.arrivals.due.lock().extend(list);
            // Rings are the control thread's and the program's: see `ring::visit`.
            if let Some(event) = self.ring_opened() {
                event.signal();
            }
        }
    }

    /// Whether [`Self::filter_due`] has something to do.
    pub fn has_filters_due(&self) -> bool {
        !self.arrivals.due.lock().is_empty()
    }

    /// Puts the filters on that are due; the control thread's.
    pub fn filter_due(&self) {
        let due = std::mem::take(&mut *self.arrivals.due.lock());
        for (socket, arrival) in due {
            let Some(socket) = socket.upgrade() else {
                continue;
            };
            let mut control = socket.control.lock();
            if socket.moving.arrival.load(Ordering::SeqCst) != arrival {
                continue;
            }
            let goes_on = {
                let directory = self.directory.lock();
                socket.arrived(&mut control, &directory)
            };
            match goes_on {
                Ok(true) if !socket.core.filter_later(&socket) => {
                    socket.moving.set(Filtering::Settled)
                }
                Ok(_) => {}
                Err(_) => socket.reconcile(&mut control),
            }
        }
    }

    /// A ring of the mask is a tap.
    pub(super) fn any_tap(&self, mask: u64) -> bool {
        self.rings_of(mask).any(|r| r.delivery == Delivery::Tap)
    }
}

/// Which datagram a receive call gets next.
enum Next {
    /// A result for the call.
    Result(Result<usize, Errno>),
    /// Neither side has one.
    Nothing,
    /// Neither side has one, and the move is over.
    Over,
}

impl Moving {
    /// While it is held no call looks at the kernel socket, and none is in the middle of
    /// that: where a datagram comes from may change. None: this thread's call is, below a handler.
    pub(super) fn turn(&self) -> Option<Guard<'_, ()>> {
        self.turn.lock()
    }

    fn is(&self, state: Filtering) -> bool {
        self.filtering.load(Ordering::SeqCst) == state as u8
    }

    fn set(&self, state: Filtering) {
        self.filtering.store(state as u8, Ordering::SeqCst);
    }

    /// To the engine: from now on everything that it brings is remembered. `number`: of the
    /// next datagram that is queued.
    pub(super) fn begin_arriving(&self, by_tap: bool, number: u64) {
        self.arrival.fetch_add(1, Ordering::SeqCst);
        self.by_tap.store(by_tap, Ordering::SeqCst);
        self.steered_from.store(number, Ordering::Relaxed);
        self.set(Filtering::UnderWay);
        self.remembers.store(true, Ordering::SeqCst);
    }

    /// To the kernel: likewise.
    pub(super) fn begin_leaving(&self, by_tap: bool) {
        self.by_tap.store(by_tap, Ordering::SeqCst);
        self.set(Filtering::Leaving);
        self.remembers.store(true, Ordering::SeqCst);
    }

    /// The kernel socket refuses nothing any more.
    pub(super) fn let_go(&self) {
        self.set(Filtering::LetGo);
    }

    /// It has, and frames are through that came before.
    pub(super) fn has_let_go(&self) -> bool {
        self.is(Filtering::LetGo)
    }

    /// It is on its way to the kernel: its device is not to steer for it.
    pub(super) fn leaves(&self) -> bool {
        self.is(Filtering::Leaving) || self.is(Filtering::LetGo)
    }

    /// Nothing that the engine brings reaches the kernel socket any more.
    pub(super) fn filtered(&self) {
        self.set(Filtering::Settled);
    }

    /// The filter must not come yet.
    pub(super) fn frames_under_way(&self) -> bool {
        self.is(Filtering::UnderWay)
    }

    /// The kernel has the socket; what it holds may be copies.
    pub(super) fn left(&self) {
        self.set(Filtering::Settled);
        self.left_at
            .store(clock::monotonic().max(1), Ordering::SeqCst);
    }

    /// The kernel got the socket back a moment ago.
    #[inline]
    pub(super) fn has_left(&self) -> bool {
        self.left_at.load(Ordering::Relaxed) != 0
    }

    /// What the engine brings is to be remembered.
    #[inline]
    pub(super) fn remembers(&self) -> bool {
        self.remembers.load(Ordering::Relaxed)
    }

    fn remember(&self, identity: Identity) {
        if let Some(mut had) = self.had.lock()
            && had.len() < MOST
        {
            // The pieces of a super-frame may be alike.
            *had.entry(identity).or_default() += 1;
        }
    }

    fn is_copy(&self, fd: RawFd, origin: &sock::Origin) -> bool {
        let Some(source) = origin.source else {
            return false;
        };
        if self.had.lock().is_none_or(|had| had.is_empty()) {
            return false;
        }
        let length = origin.length;
        let was_had = |key| {
            self.was_had(Identity {
                key,
                source,
                length,
            })
        };
        was_had(Key::Stamp(origin.timestamp)) || {
            let mut payload = vec![0; length];
            sock::peek(fd, &mut payload)
                .is_ok_and(|read| was_had(Key::of_content(&payload[..read.min(length)])))
        }
    }

    /// It moves from or to a tap.
    pub(super) fn by_tap_still(&self) -> bool {
        self.remembers() && self.by_tap.load(Ordering::SeqCst)
    }

    /// Its filter is to come or to go still.
    pub(super) fn has_steps_left(&self) -> bool {
        !self.is(Filtering::Settled)
    }

    /// The engine brought such a one, whose copy has not come yet.
    fn was_had(&self, identity: Identity) -> bool {
        let Some(mut had) = self.had.lock() else {
            return false;
        };
        let Some(left) = had.get_mut(&identity) else {
            return false;
        };
        *left -= 1;
        if *left == 0 {
            had.remove(&identity);
        }
        true
    }

    /// In a forked child: its kernel socket is as it is. No lock is touched, for the
    /// parent's threads may have held it.
    pub(super) fn forget_in_child(&self) {
        self.by_tap.store(false, Ordering::SeqCst);
        self.remembers.store(false, Ordering::SeqCst);
        self.left_at.store(0, Ordering::SeqCst);
        self.set(Filtering::Settled);
    }

    /// The move is over.
    pub(super) fn end(&self) {
        self.set(Filtering::Settled);
        self.remembers.store(false, Ordering::SeqCst);
        self.left_at.store(0, Ordering::SeqCst);
        if let Some(mut had) = self.had.lock() {
            had.clear();
            had.shrink_to(64);
        }
    }
}

impl UdpSocket {
    /// A receive call while the socket moves. None: the move is over.
    pub(super) fn recv_moving<R: Receive>(
        &self,
        fd: RawFd,
        call: &mut R,
        peek: bool,
    ) -> Option<Result<usize, Errno>> {
        match self.next_moving(fd, call, peek) {
            Next::Result(result) => Some(result),
            Next::Nothing => Some(Err(Errno::AGAIN)),
            Next::Over => {
                self.moving.end();
                self.caught_up();
                None
            }
        }
    }

    /// The engine brings a datagram: the kernel socket may have a copy.
    #[cold]
    pub(super) fn remember(&self, record: &Record, payload: &[u8]) {
        let key = if !self.core.steers(record.ifindex) {
            Key::Stamp(record.timestamp)
        } else if self.is_shared(record) {
            Key::of_content(payload)
        } else {
            return;
        };
        self.moving.remember(Identity {
            key,
            source: record.source,
            length: payload.len(),
        });
    }

    /// It leaves before its kernel socket is empty: what that holds of before the engine had the
    /// socket gets its place in the queue, between what is older and what is younger.
    pub(super) fn absorb(&self, port: u16) {
        let Some(_turn) = self.moving.turn() else {
            return;
        };
        let held = self.take_held(port);
        if !held.is_empty() {
            let number = self.moving.steered_from.load(Ordering::Relaxed);
            self.insert_queued(number, held);
        }
    }

    /// Ends a move from or to a tap whose last copies have come: what the kernel socket holds
    /// gets its place in the queue by its time.
    pub(super) fn absorb_copies(&self) {
        let Some(_turn) = self.moving.turn() else {
            return;
        };
        if !self.moving.by_tap_still() || self.moving.has_steps_left() {
            return;
        }
        self.empty_rings();
        let port = sock::local_name(self.fd()).ok().flatten();
        let port = port.map_or(0, |a| a.port());
        let held = self.take_held(port);
        if !held.is_empty() {
            self.merge_queued(held);
            self.wake();
        }
        self.moving.end();
        self.caught_up();
    }

    /// What the kernel socket holds beside copies of what rings have brought. An error there is
    /// the next call's.
    fn take_held(&self, port: u16) -> Queue {
        let mut held = Queue::unlimited();
        let end = sock::take_all(self.fd(), |taken, payload| {
            let was_had = |key| {
                self.moving.was_had(Identity {
                    key,
                    source: taken.source,
                    length: payload.len(),
                })
            };
            if !was_had(Key::Stamp(taken.timestamp)) && !was_had(Key::of_content(payload)) {
                held.push(&self.record_of(taken, port), payload);
            }
        });
        if end != Errno::AGAIN {
            self.leave_error(end);
        }
        held
    }

    fn record_of(&self, taken: &sock::Taken, port: u16) -> Record {
        Record {
            source: taken.source,
            destination: SocketAddrV4::new(taken.destination, port),
            ifindex: taken.ifindex,
            ttl: taken.ttl,
            tos: taken.tos,
            timestamp: taken.timestamp,
            asked: self.asked(),
            drops: self.drops(),
        }
    }

    /// Without a tap: one side has everything that is older than what the other has.
    fn next_steered<R: Receive>(
        &self,
        fd: RawFd,
        call: &mut R,
        peek: bool,
        arriving: bool,
    ) -> Next {
        loop {
            self.empty_rings();
            let leaves = self.moving.leaves();
            let first = leaves
                || !arriving
                || self.front_is_before(self.moving.steered_from.load(Ordering::Relaxed));
            if first && let Some(result) = self.pop(call, peek) {
                return Next::Result(result);
            }
            if leaves {
                // The last of the engine's may be on its way.
                return Next::Nothing;
            }
            let origin = match sock::peek_origin(fd) {
                Ok(origin) => origin,
                Err(Errno::AGAIN) if self.moving.frames_under_way() => return Next::Nothing,
                Err(Errno::AGAIN) => match self.pop(call, peek) {
                    Some(result) => return Next::Result(result),
                    None => return self.nothing_moving(arriving),
                },
                Err(e) => return Next::Result(Err(e)),
            };
            // Its copy is in the ring at the latest now.
            self.empty_rings();
            if self.moving.is_copy(fd, &origin) {
                sock::discard(fd);
            } else if let Some(result) = self.look_in_kernel(call) {
                return Next::Result(result);
            }
        }
    }

    fn next_moving<R: Receive>(&self, fd: RawFd, call: &mut R, peek: bool) -> Next {
        let Some(_turn) = self.moving.turn() else {
            // A signal handler above this very call: Linux would give it the next one, too.
            return Next::Result(self.ask_kernel(call, fd, 0));
        };
        let arriving = self.mode() == Mode::CatchingUp;
        if !self.moving.by_tap.load(Ordering::SeqCst) {
            return self.next_steered(fd, call, peek, arriving);
        }
        loop {
            // What the rings hold before the kernel is looked at comes before what it gets.
            self.empty_rings();
            let waits_here = self.front_timestamp().is_some();
            let origin = match sock::peek_origin(fd) {
                Ok(origin) => origin,
                Err(Errno::AGAIN) if waits_here => match self.pop(call, peek) {
                    Some(result) => return Next::Result(result),
                    None => continue,
                },
                Err(Errno::AGAIN) => return self.nothing_moving(arriving),
                Err(e) => return Next::Result(Err(e)),
            };
            // Its copy is in the ring at the latest now.
            self.empty_rings();
            if self.moving.is_copy(fd, &origin) {
                sock::discard(fd);
                continue;
            }
            let here = self.front_timestamp();
            let result = if here.is_some_and(|here| here < origin.timestamp) {
                self.pop(call, peek)
            } else {
                self.look_in_kernel(call)
            };
            if let Some(result) = result {
                return Next::Result(result);
            }
        }
    }

    /// After a grace period of an arrival: the filter comes; true: there is another one to
    /// wait for before the move is over.
    pub(super) fn arrived(
        &self,
        control: &mut Control,
        directory: &Directory,
    ) -> Result<bool, Reason> {
        if self.moving.is(Filtering::Filtered) {
            self.moving.filtered();
        }
        if !self.moving.frames_under_way() {
            return Ok(false);
        }
        let Some(attached) = directory.sockets.find(self) else {
            return Ok(false);
        };
        let shadow = self
            .core
            .shadow_for(directory, &attached.wants, attached.mask);
        let refuses = shadow.refuses();
        self.set_shadow(control, shadow)?;
        self.moving.set(if refuses {
            Filtering::Filtered
        } else {
            Filtering::Settled
        });
        Ok(refuses)
    }

    fn nothing_moving(&self, arriving: bool) -> Next {
        let left_at = self.moving.left_at.load(Ordering::SeqCst);
        let over = if arriving {
            self.moving.is(Filtering::Settled)
        } else {
            clock::monotonic().saturating_sub(left_at) > UNDER_WAY
        };
        if over { Next::Over } else { Next::Nothing }
    }

    /// Takes into the queue what the rings hold.
    fn empty_rings(&self) {
        let left = self.poll_rings(&mut QueueAll);
        self.look_behind(left);
    }
}
