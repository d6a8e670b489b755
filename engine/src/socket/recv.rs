//! Receiving: the queue, the rings, by ratio the kernel; then sleep on all of them.

use super::io::{Late, Left, Receive, wanted};
use super::path::{Direct, QueueAll, WHOLE_RING};
use super::udp::{Mode, UdpSocket};
use crate::error::Errno;
use crate::ring::{Limit, Patience, Record, Spin, Turn};
use crate::sys::defer;
use crate::sys::event::{self, Event, SignalHold};
use crate::sys::leave::Kept;
use smallvec::SmallVec;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Frames handled by one receive call beside its own.
const BURST: usize = 32;
/// Looks at the rings' heads between two full turns of a spinning call.
const GLANCES: u32 = 16;
/// Sleep without a wake-up descriptor (none could be had): looked at this often.
const BLIND_NAP: u64 = 1_000_000;

/// A call that takes the first datagram of its socket in place.
struct DirectCall<'a, R> {
    socket: *const UdpSocket,
    call: &'a mut R,
    result: Option<Result<usize, Errno>>,
}

impl<R: Receive> Direct for DirectCall<'_, R> {
    #[inline]
    fn offer(&mut self, socket: &UdpSocket, record: Record, payload: &[u8]) -> bool {
        // Only when nothing older waits, or the order would be lost.
        if !std::ptr::eq(self.socket, socket) || self.result.is_some() || socket.readable() {
            return false;
        }
        self.result = Some(socket.hand_over(self.call, &record, payload));
        true
    }

    #[inline(always)]
    fn done(&self) -> bool {
        self.result.is_some()
    }
}

/// A call that waits: as in Linux it keeps the socket alive after its last close.
struct Blocked<'a>(&'a UdpSocket);

impl<'a> Blocked<'a> {
    fn begin(socket: &'a UdpSocket) -> Self {
        socket.blocked.fetch_add(1, Ordering::SeqCst);
        Self(socket)
    }
}

impl Drop for Blocked<'_> {
    fn drop(&mut self) {
        if self.0.blocked.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.close_orphan() {
            self.0.groups_left();
        }
    }
}

/// A call inside the kernel's receive, which would not see the engine's datagrams.
struct KernelReader<'a>(&'a UdpSocket);

impl<'a> KernelReader<'a> {
    fn begin(socket: &'a UdpSocket) -> Self {
        socket.kernel_readers.fetch_add(1, Ordering::SeqCst);
        Self(socket)
    }
}

impl Drop for KernelReader<'_> {
    fn drop(&mut self) {
        let socket = self.0;
        let last = socket.kernel_readers.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && socket.waiting.load(Ordering::SeqCst) {
            let mut control = socket.control.lock();
            socket.reconcile(&mut control);
        }
    }
}

/// A sleeper: who wakes it, and what it sleeps on.
struct Sleeper<'a> {
    socket: &'a UdpSocket,
    waker: Option<Arc<Event>>,
    set: SmallVec<[libc::pollfd; 8]>,
}

impl<'a> Sleeper<'a> {
    fn begin(socket: &'a UdpSocket) -> Self {
        let waker = socket.core.waker();
        if let Some(event) = &waker {
            socket.add_waiter(event);
        }
        let set = SmallVec::new();
        Self { socket, waker, set }
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        if let Some(event) = self.waker.take() {
            self.socket.remove_waiter(&event);
            self.socket.core.return_waker(event);
        }
    }
}

impl UdpSocket {
    /// A call with these flags waits if there is nothing.
    #[inline]
    #[must_use]
    pub fn waits(&self, flags: i32) -> bool {
        flags & libc::MSG_DONTWAIT == 0 && !self.nonblocking.load(Ordering::Relaxed)
    }

    /// Polls the rings that bring this socket's datagrams.
    #[inline]
    pub(super) fn poll_rings<D: Direct>(&self, direct: &mut D) -> Left {
        let mut left = Left::default();
        let mut mask = self.ring_mask();
        while mask != 0 {
            let ring = self.core.ring(mask.trailing_zeros());
            mask &= mask - 1;
            left.note(ring.poll(direct, BURST), BURST);
            if direct.done() {
                break;
            }
        }
        left
    }

    /// Looks at the rings for a call that may take a datagram in place.
    #[inline]
    fn take<R: Receive>(&self, call: &mut R) -> (Option<Result<usize, Errno>>, Left) {
        let mut direct = DirectCall {
            socket: self,
            call,
            result: None,
        };
        let left = self.poll_rings(&mut direct);
        (direct.result, left)
    }

    /// What is queued.
    #[inline]
    fn queued<R: Receive>(&self, call: &mut R, peek: bool) -> Option<Result<usize, Errno>> {
        if self.readable() {
            self.pop(call, peek)
        } else {
            None
        }
    }

    /// One look at queue and rings; also what it left there.
    #[inline]
    fn look<R: Receive>(&self, call: &mut R, peek: bool) -> (Option<Result<usize, Errno>>, Left) {
        let queued = self.queued(call, peek);
        if queued.is_some() {
            return (queued, Left::default());
        }
        let (taken, left) = if peek {
            (None, self.poll_rings(&mut QueueAll))
        } else {
            self.take(call)
        };
        (taken.or_else(|| self.queued(call, peek)), left)
    }

    /// The beginning of a receive call: takes the datagram at the head of the socket's ring,
    /// if it is one more of the kind and the call a usual one. Leaves `errno` alone.
    #[inline(always)]
    pub fn recv_early<R: Receive>(&self, call: &mut R, flags: i32) -> Result<usize, Late> {
        const UNUSUAL: i32 = libc::MSG_ERRQUEUE | libc::MSG_PEEK;
        if self.mode() != Mode::Engine || flags & UNUSUAL != 0 || self.habits.watch_receives() {
            return Err(Late::Unknown);
        }
        let Some(ring) = self.only_ring() else {
            return Err(Late::Unknown);
        };
        let count = ring.take_first(self, call)?;
        self.stats.rx.poll_hit.add_exclusive(1);
        Ok(count)
    }

    /// What [`Self::recv_early`] has said means to a call that does not wait: nothing and
    /// nothing due is the end of it. Leaves `errno` alone.
    #[inline(always)]
    pub fn at_once(&self, late: Late) -> Late {
        if late != Late::Nothing || !self.takes_now() {
            late
        } else if self.look_due() {
            Late::Due
        } else {
            self.stats.rx.eagain.add(1);
            Late::Failed(Errno::AGAIN)
        }
    }

    /// A receive call of any kind. `flags` are the call's MSG_* bits, `late` is what
    /// [`Self::recv_early`] said, if it was asked.
    ///
    /// # Errors
    /// As recv(2).
    #[inline]
    pub fn recv<R: Receive>(
        &self,
        fd: RawFd,
        call: &mut R,
        flags: i32,
        late: Late,
    ) -> Result<usize, Errno> {
        match late {
            Late::Failed(errno) => Err(errno),
            Late::Nothing if self.takes_now() => {
                self.recv_empty(call, flags, Left::default(), None)
            }
            Late::Due => self.recv_due(call),
            Late::Nothing | Late::Unknown => self.recv_else(fd, call, flags, None),
        }
    }

    /// Something is queued, several rings, a frame of another kind, or not a usual call.
    #[inline(never)]
    fn recv_else<R: Receive>(
        &self,
        fd: RawFd,
        call: &mut R,
        flags: i32,
        patience: Option<&Patience>,
    ) -> Result<usize, Errno> {
        if self.habits.watch_receives() {
            self.begin_receive(flags)?;
        }
        if self.mode() != Mode::Engine || flags & libc::MSG_ERRQUEUE != 0 || self.cutoff.get() != 0
        {
            return self.recv_aside(fd, call, flags, patience);
        }
        let peek = flags & libc::MSG_PEEK != 0;
        let (result, left) = self.look(call, peek);
        if let Some(result) = result {
            self.stats.rx.poll_hit.add_exclusive(1);
            return result;
        }
        self.recv_empty(call, flags, left, patience)
    }

    /// The rings brought the call nothing.
    #[inline(never)]
    fn recv_empty<R: Receive>(
        &self,
        call: &mut R,
        flags: i32,
        left: Left,
        patience: Option<&Patience>,
    ) -> Result<usize, Errno> {
        let peek = flags & libc::MSG_PEEK != 0;
        let waits = self.waits(flags);
        if (left.busy || left.more) && !waits {
            self.look_behind(left);
        }
        if let Some(result) = self.queued(call, peek) {
            self.stats.rx.poll_hit.add_exclusive(1);
            return result;
        }
        if waits {
            self.recv_wait(call, peek, patience)
        } else {
            self.recv_miss(call)
        }
    }

    /// For a call that will not look again: its datagram may be behind those of others, or
    /// just now in another thread's hands.
    #[cold]
    pub(super) fn look_behind(&self, mut left: Left) {
        for _ in 0..WHOLE_RING / BURST {
            if !left.more || self.readable() {
                break;
            }
            let busy = left.busy;
            left = self.poll_rings(&mut QueueAll);
            left.busy |= busy;
        }
        if left.busy {
            self.core.wait_rings(self.ring_mask());
        }
    }

    /// Not, or no longer, served by the engine.
    #[cold]
    fn recv_aside<R: Receive>(
        &self,
        fd: RawFd,
        call: &mut R,
        flags: i32,
        patience: Option<&Patience>,
    ) -> Result<usize, Errno> {
        match self.mode() {
            Mode::Inherited => self.claim(),
            mode if mode.is_engine() && self.cutoff.get() != 0 => self.settle_forked(),
            _ => {}
        }
        let special = flags & libc::MSG_ERRQUEUE != 0;
        if !special && (self.mode() == Mode::CatchingUp || self.moving.has_left()) {
            return self.recv_while_moving(call, flags, patience);
        }
        if !special && let Some(result) = self.queued(call, flags & libc::MSG_PEEK != 0) {
            return result;
        }
        let blocking = self.waits(flags);
        // A call that has waited already: between two waits, too, a handler ends it, its time
        // goes on, and another thread may have closed the socket.
        if blocking && !special && (self.awaits_engine() || patience.is_some()) {
            return self.recv_by_turns(call, flags, patience);
        }
        let mut reader = Kept::new(KernelReader::begin(self));
        // `attach` sets the mode first and looks for readers then: one of us sees the other.
        if self.mode().is_engine() && !special && self.cutoff.get() == 0 {
            drop(reader);
            return self.recv_else(fd, call, flags, patience);
        }
        let result = if blocking {
            let _armed = reader.arm();
            let _open = defer::open();
            self.ask_kernel(call, fd, 0)
        } else {
            self.ask_kernel(call, fd, 0)
        };
        self.count_kernel(result);
        result
    }

    /// Waits, if it may, for what comes first while the socket moves.
    #[cold]
    fn recv_while_moving<R: Receive>(
        &self,
        call: &mut R,
        flags: i32,
        patience: Option<&Patience>,
    ) -> Result<usize, Errno> {
        let waits = self.waits(flags);
        let mut spin = self.spin(Limit::Never, 0, patience);
        let mut blocked = Kept::new(waits.then(|| Blocked::begin(self)));
        let _blocked = blocked.arm_if(waits);
        loop {
            let mode = self.mode();
            match self.recv_moving(self.fd(), call, flags & libc::MSG_PEEK != 0) {
                None => return self.recv_else(self.fd(), call, flags, Some(&spin.patience())),
                Some(Err(Errno::AGAIN)) if waits => {
                    if self.shut.load(Ordering::Acquire) {
                        return self.ask_kernel(call, self.fd(), 0);
                    }
                    self.sleep(&mut spin, mode)?;
                }
                Some(result) => return result,
            }
        }
    }

    /// Waits on a socket of the kernel's that may be the engine's at any time, which a call
    /// inside the kernel would never notice: it has no port yet, or had the engine before.
    #[cold]
    fn recv_by_turns<R: Receive>(
        &self,
        call: &mut R,
        flags: i32,
        patience: Option<&Patience>,
    ) -> Result<usize, Errno> {
        let mut spin = self.spin(Limit::Never, 0, patience);
        let mut blocked = Kept::new(Blocked::begin(self));
        let _blocked = blocked.arm();
        loop {
            // It may have been the engine's and left while this call slept.
            if self.mode() != Mode::Kernel
                || self.moving.has_left()
                || !(self.awaits_engine() || patience.is_some())
            {
                return self.recv_else(self.fd(), call, flags, Some(&spin.patience()));
            }
            if let Some(result) = self.queued(call, flags & libc::MSG_PEEK != 0) {
                return result;
            }
            if let Some(result) = self.kernel_now(call, Mode::Kernel) {
                return result;
            }
            if self.shut.load(Ordering::Acquire) {
                return self.ask_kernel(call, self.fd(), 0);
            }
            self.sleep(&mut spin, Mode::Kernel)?;
        }
    }

    #[inline]
    fn count_kernel(&self, result: Result<usize, Errno>) {
        let os = &self.stats.rx_os;
        match result {
            Ok(n) => {
                os.packets.add(1);
                os.bytes.add(n as u64);
            }
            Err(Errno::AGAIN) => os.eagain.add(1),
            Err(_) => os.errors.add(1),
        }
    }

    /// A non-blocking call found nothing: does the kernel have something?
    #[inline(never)]
    fn recv_miss<R: Receive>(&self, call: &mut R) -> Result<usize, Errno> {
        if !self.look_due() {
            self.stats.rx.eagain.add(1);
            return Err(Errno::AGAIN);
        }
        self.recv_due(call)
    }

    /// The same, and it is to be asked.
    #[inline(never)]
    fn recv_due<R: Receive>(&self, call: &mut R) -> Result<usize, Errno> {
        let result = self.kernel_now(call, Mode::Engine);
        self.looked();
        result.unwrap_or_else(|| {
            self.stats.rx_os.eagain.add(1);
            Err(Errno::AGAIN)
        })
    }

    /// Spins, then sleeps, until something comes.
    #[inline(never)]
    fn recv_wait<R: Receive>(
        &self,
        call: &mut R,
        peek: bool,
        patience: Option<&Patience>,
    ) -> Result<usize, Errno> {
        let limit = match self.core.tuning.rx_poll {
            -1 => Limit::Never,
            turns => Limit::Turns(turns.max(1) as u64),
        };
        let mut spin = Kept::new(self.spin(limit, self.kernel_every(), patience));
        let mut spin = spin.arm();
        // From the first slow step on, a close elsewhere leaves the kernel socket to us.
        let mut blocked = Kept::new(None);
        let mut blocked = blocked.arm();
        loop {
            if let Some(result) = self.look(call, peek).0 {
                self.stats.rx.poll_hit.add_exclusive(1);
                return result;
            }
            if self.mode() != Mode::Engine || self.cutoff.get() != 0 {
                // Taken from the engine meanwhile: the rest of the wait is the kernel's.
                let flags = if peek { libc::MSG_PEEK } else { 0 };
                return self.recv_aside(self.fd(), call, flags, Some(&spin.patience()));
            }
            if !spin.crowded() {
                self.glance();
            }
            match spin.turn() {
                Turn::Again if !self.kernel_told() => {
                    if spin.is_long() && blocked.is_none() {
                        *blocked = Some(Blocked::begin(self));
                    }
                }
                Turn::Again | Turn::Kernel => {
                    blocked.get_or_insert_with(|| Blocked::begin(self));
                    if let Some(result) = self.kernel_now(call, Mode::Engine) {
                        return result;
                    }
                }
                Turn::Expired => return Err(Errno::AGAIN),
                Turn::Interrupted => return Err(Errno::INTR),
                Turn::Sleep => {
                    blocked.get_or_insert_with(|| Blocked::begin(self));
                    self.stats.rx.poll_miss.add(1);
                    if let Some(result) = self.kernel_now(call, Mode::Engine) {
                        return result;
                    }
                    self.sleep(&mut spin, Mode::Engine)?;
                }
            }
        }
    }

    /// The wait of a receive call: SO_RCVTIMEO is its time-out, and with one SA_RESTART does
    /// not count (signal(7)).
    fn spin(&self, limit: Limit, kernel_every: u32, patience: Option<&Patience>) -> Spin {
        let timeout = Some(self.receive_timeout.load(Ordering::Relaxed)).filter(|ns| *ns != 0);
        let cores = self.core.tuning.cores;
        Spin::new(limit, kernel_every, timeout, timeout.is_none(), cores).after(patience)
    }

    /// The short part of a turn: watches the rings' heads without taking any lock.
    #[inline]
    fn glance(&self) {
        let mask = self.ring_mask();
        for _ in 0..GLANCES {
            let mut left = mask;
            while left != 0 {
                if self.core.ring(left.trailing_zeros()).may_be_ready() {
                    return;
                }
                left &= left - 1;
            }
            if self.readable() {
                return;
            }
        }
    }

    /// The kernel's part of a receive call.
    pub(super) fn ask_kernel<R: Receive>(
        &self,
        call: &mut R,
        fd: RawFd,
        extra: i32,
    ) -> Result<usize, Errno> {
        let result = call.kernel(fd, extra);
        if result.is_ok() && self.wanted.load(Ordering::Relaxed) & wanted::RXQ_OVFL != 0 {
            // The kernel counts what the shadow filter refuses.
            call.correct_drops(self.drops());
        }
        result
    }

    /// Asks the kernel socket once; None: it has nothing.
    /// Not if it is another's by now than `mode` says: the next look at that decides.
    fn kernel_now<R: Receive>(&self, call: &mut R, mode: Mode) -> Option<Result<usize, Errno>> {
        let _turn = self.moving.turn();
        if self.mode() != mode {
            return None;
        }
        self.look_in_kernel(call)
    }

    /// The same for one who has the turn.
    pub(super) fn look_in_kernel<R: Receive>(&self, call: &mut R) -> Option<Result<usize, Errno>> {
        self.begin_look();
        let result = self.ask_kernel(call, self.fd(), libc::MSG_DONTWAIT);
        if result == Err(Errno::AGAIN) {
            return None;
        }
        self.hint_kernel();
        self.count_kernel(result);
        Some(result)
    }

    /// Sleeps until the ring, the kernel socket or another thread has something.
    #[cold]
    fn sleep(&self, spin: &mut Spin, mode: Mode) -> Result<(), Errno> {
        let mut sleeper = Kept::new(Sleeper::begin(self));
        let mut sleeper = sleeper.arm();
        // Those that were put off run here.
        let _ = spin.interrupted();
        let open = defer::open();
        // Handlers that run from here on interrupt the ppoll; those before are seen below.
        let hold = SignalHold::begin();
        let result = if spin.interrupted() {
            Err(Errno::INTR)
        } else if self.readable() || !self.core.arm(self.ring_mask()) || self.mode() != mode {
            Ok(())
        } else {
            let Sleeper { waker, set, .. } = &mut *sleeper;
            self.core
                .sleep_set(self.ring_mask(), waker.as_deref(), |fd| set.push(fd));
            set.push(libc::pollfd {
                fd: self.fd(),
                events: libc::POLLIN,
                revents: 0,
            });
            let nap = waker.is_none().then_some(BLIND_NAP);
            let timeout = match (spin.remaining(), nap) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            match event::ppoll_cancellable(set, timeout, hold.original()) {
                Ok(0) if nap.is_none() => Err(Errno::AGAIN),
                Ok(0) if spin.remaining() == Some(0) => Err(Errno::AGAIN),
                Ok(_) => Ok(()),
                Err(Errno::INTR) if spin.interrupted() => Err(Errno::INTR),
                Err(Errno::INTR) => Ok(()), // SA_RESTART, or stopped and continued
                Err(e) => Err(e),
            }
        };
        drop(hold);
        drop(open);
        result
    }
}
