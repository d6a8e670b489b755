//! The wire through shared memory: frames go from process to process, no kernel between.
//!
//! Every interface that a process opens is a port of the switch, known by its address. The
//! *sender* plays the receiving card: it finds the port of the destination, looks up that
//! port's flow table and puts the frame into the ring of each queue that is meant. What no
//! ordinary rule took goes out by the real interface, whose link carries it to the kernel of
//! the destination, as does what is for an address that no process has opened.
//!
//! A multicast frame goes to every other port, and to the real link if at least one of them left
//! it to the kernel (or there is none). So with more than two ports a kernel may see a frame
//! that its own port's rule took. Frames that kernels send do not come this way: they meet no rule.
//!
//! A process may die at any moment: the lock is the kernel's, a half-written frame is stepped
//! over, and the others, told by a pidfd, take its rules and rings away.

mod clock;
mod layout;
mod members;
mod ring;
mod table;
mod watch;

use super::link::Watch;
use super::outlet::LazyOutlet;
use super::syscall::Fd;
use super::worker::Worker;
use super::{Checksums, Incidents, Interface, Meta, Rule, RuleId, SendError, Wire, WireQueue};
use crate::flow::{Key, Verdict};
use clock::Clock;
use layout::PORTS;
use members::{Membership, QueueId, address_word};
use ring::{Pulled, Pushed, Window};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::cell::UnsafeCell;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use table::Copies;

/// Ethernet header and one tag.
const LINK_HEADER: usize = 18;
/// Looks that find nothing before it is asked whether a producer died over a frame.
const PATIENCE: u32 = 1024;

/// One process's end of one port.
pub(super) struct SwitchWire {
    // Ends before the membership does.
    _reaper: Worker,
    member: Arc<Membership>,
    outlet: LazyOutlet,
    watch: Watch,
    largest: usize,
}

impl SwitchWire {
    /// Joins the switch with an interface.
    pub(super) fn open(
        switch: &str,
        interface: &Interface,
        incidents: Arc<dyn Incidents>,
    ) -> Result<Self, Errno> {
        let member = Arc::new(Membership::join(switch, interface.address)?);
        Ok(Self {
            _reaper: watch::start(Arc::clone(&member))?,
            member,
            outlet: LazyOutlet::new(interface.index),
            watch: Watch::start(interface.index, incidents)?,
            largest: interface.mtu as usize + LINK_HEADER,
        })
    }

    /// Gives a frame to a port; whether its kernel gets it too.
    #[inline]
    fn deliver(&self, port: usize, key: &Key, frame: &[u8]) -> Verdict {
        let table = &self.member.shared().tables[port];
        // Again only when queues went between the look-up and the delivery.
        for _ in 0..3 {
            let mut copies = Copies::default();
            let verdict = table.look_up(key, &mut copies);
            let mut gone = false;
            let mut came = false;
            for copy in copies.iter() {
                let pushed = self
                    .member
                    .window(copy.queue)
                    .map(|window| window.push(copy.generation, self.member.id(), frame, copy.tag));
                match pushed {
                    Some(Pushed::Done(asleep)) => {
                        came = true;
                        if asleep {
                            self.member.wake(copy.queue, copy.generation);
                        }
                    }
                    Some(Pushed::Full) => came = true,
                    Some(Pushed::Gone) | None => gone = true,
                }
            }
            if came || !gone {
                return verdict;
            }
        }
        Verdict::Kernel
    }
}

impl Wire for SwitchWire {
    fn open_queue(&self, depth: usize) -> Result<Box<dyn WireQueue>, Errno> {
        self.outlet.open()?;
        let queue = self.member.open_queue(depth, self.largest)?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = open(self.member.paths().pipe(queue.number), flags, Mode::empty())
            .and_then(Fd::own)
            .inspect_err(|_| self.member.close_queue(queue))?;
        Ok(Box::new(SwitchQueue {
            member: Arc::clone(&self.member),
            queue,
            pipe,
            empty: AtomicU32::new(0),
            busy: AtomicBool::new(false),
            clock: UnsafeCell::new(Clock::start()),
        }))
    }

    fn attach(&self, queue: &dyn WireQueue, rule: &Rule) -> Result<RuleId, Errno> {
        let number = u32::try_from(queue.id()).map_err(|_| Errno::INVAL)?;
        self.member.attach(number, rule).map(RuleId)
    }

    fn detach(&self, id: RuleId) {
        self.member.detach(id.0);
    }

    fn send(&self, frame: &[u8]) -> Result<(), SendError> {
        if !self.watch.is_up() {
            return Err(SendError::LinkDown);
        }
        if frame.len() > self.largest {
            return Err(SendError::Broken(Errno::MSGSIZE));
        }
        let (Some(&destination), Some(key)) = (frame.first_chunk::<6>(), Key::of_frame(frame))
        else {
            return self.outlet.send(frame);
        };
        let own = self.member.port();
        let mut kernel = false;
        if destination[0] & 1 == 0 {
            kernel = match self.member.port_of(address_word(destination)) {
                Some(port) if port != own => self.deliver(port, &key, frame) == Verdict::Kernel,
                _ => true,
            };
        } else {
            let mut others = 0;
            for port in (0..PORTS).filter(|&port| port != own) {
                if self.member.shared().addresses[port].load(Ordering::Acquire) != 0 {
                    others += 1;
                    kernel |= self.deliver(port, &key, frame) == Verdict::Kernel;
                }
            }
            kernel |= others == 0;
        }
        if kernel {
            return self.outlet.send(frame);
        }
        Ok(())
    }

    fn link_up(&self) -> bool {
        self.watch.is_up()
    }
}

/// One queue pair's receiving side.
struct SwitchQueue {
    member: Arc<Membership>,
    queue: QueueId,
    /// A byte comes in when a frame arrived while armed.
    pipe: Fd,
    /// Looks that found nothing.
    empty: AtomicU32,
    /// Owner of `clock` and of the ring's reading end.
    busy: AtomicBool,
    clock: UnsafeCell<Clock>,
}

// SAFETY: the clock is touched only by who has set `busy`; the rest is Sync.
unsafe impl Sync for SwitchQueue {}

impl SwitchQueue {
    #[inline]
    fn window(&self) -> Option<&Window> {
        self.member.window(self.queue.number)
    }

    /// Offers the frame at the head, which only the holder of `busy` moves.
    #[inline]
    fn offer(&self, window: &Window, take: &mut dyn FnMut(&[u8], &Meta) -> bool) -> bool {
        loop {
            match window.pull(window.head()) {
                Pulled::Frame {
                    frame,
                    ticks,
                    tag,
                    next,
                } => {
                    let meta = Meta {
                        timestamp_ns: if ticks == 0 {
                            0
                        } else {
                            // SAFETY: `busy` is ours: nobody else is in here.
                            let clock = unsafe { &mut *self.clock.get() };
                            clock.realtime(ticks)
                        },
                        checksums: Checksums::Unknown,
                        tag,
                        status: 0,
                    };
                    if take(frame, &meta) {
                        window.release(next);
                    }
                    return true;
                }
                Pulled::Filler(next) => window.release(next),
                Pulled::Empty => return false,
            }
        }
    }

    /// Whether something is at the head. Touches nothing that producers write but the frame.
    #[inline]
    fn is_ready(&self, window: &Window) -> bool {
        if !matches!(window.pull(window.head()), Pulled::Empty) {
            return true;
        }
        let empty = self.empty.load(Ordering::Relaxed).wrapping_add(1);
        self.empty.store(empty, Ordering::Relaxed);
        if empty.is_multiple_of(PATIENCE) {
            self.question(window);
        }
        false
    }

    /// Steps over a frame that nobody will finish.
    #[cold]
    fn question(&self, window: &Window) {
        let at = window.head();
        if !window.is_claimed(at) || self.busy.swap(true, Ordering::Acquire) {
            return;
        }
        // A producer may have finished just before it left: hence the second look.
        if at == window.head()
            && let Some((producer, next)) = window.claimant(at)
            && !self.member.is_member(producer)
            && window.claimant(at).is_some()
        {
            window.release(next);
        }
        self.busy.store(false, Ordering::Release);
    }
}

impl WireQueue for SwitchQueue {
    fn id(&self) -> u64 {
        u64::from(self.queue.number)
    }

    #[inline]
    fn receive(&self, take: &mut dyn FnMut(&[u8], &Meta) -> bool) -> bool {
        let Some(window) = self.window() else {
            return false;
        };
        if !self.is_ready(window) {
            return false;
        }
        if self.busy.swap(true, Ordering::Acquire) {
            return false;
        }
        let found = self.offer(window, take);
        self.busy.store(false, Ordering::Release);
        found
    }

    #[inline]
    fn pending(&self) -> bool {
        self.window().is_some_and(|window| self.is_ready(window))
    }

    fn arm(&self) {
        if let Some(window) = self.window() {
            // Pairs with the producer's look after it has published a frame.
            window.header().armed.0.swap(1, Ordering::SeqCst);
            // Who dies over a frame from now on wakes us; who has died is stepped over here.
            self.question(window);
        }
    }

    fn event_fd(&self) -> RawFd {
        self.pipe.raw()
    }

    fn acknowledge(&self) {
        let mut bytes = [0u8; 64];
        while rustix::io::read(&self.pipe, &mut bytes).is_ok_and(|n| n == bytes.len()) {}
        // Someone may have died over a frame, and this be about one behind it.
        if let Some(window) = self.window() {
            self.question(window);
        }
    }

    fn stamp(&self, wanted: bool) {
        if let Some(window) = self.window() {
            let stamps = &window.header().stamps;
            stamps.store(wanted.into(), Ordering::Relaxed);
        }
    }

    fn lost(&self) -> u64 {
        self.window()
            .map_or(0, |window| window.header().lost.0.load(Ordering::Relaxed))
    }
}

impl Drop for SwitchQueue {
    fn drop(&mut self) {
        self.member.close_queue(self.queue);
    }
}
