//! Moving a socket between kernel and engine: one function does it, [`UdpSocket::reconcile`].
//!
//! Everything that may change where a socket belongs (bind, connect, join, an option, an
//! interface, fork) changes the control state and calls it; it compares what should be
//! with what is. epoll membership, O_NONBLOCK and queued data stay as they are, for the
//! descriptor is the kernel's all along.

use super::control::{Control, Filter, tx_kernel};
use super::core::Directory;
use super::demux::Wants;
use super::directory::Attached;
use super::path::{Ring, WHOLE_RING};
use super::share::Shadow;
use super::udp::{Family, Mode, UdpSocket};
use crate::clock;
use crate::device::Delivery;
use crate::error::Reason;
use crate::net::{self, Interface};
use crate::sys::inject::Injector;
use crate::sys::{bpf, event, raw, sock};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl UdpSocket {
    /// Puts the socket where its state says it belongs.
    pub(super) fn reconcile(&self, control: &mut Control) {
        if self.place(control) {
            loop {
                event::await_receive_path();
                if !self.arrive_further(control) {
                    break;
                }
            }
        }
    }

    /// The first step; true: [`Self::arrive_further`] is next, after a grace period.
    pub(super) fn place(&self, control: &mut Control) -> bool {
        let mut directory = self.core.directory.lock();
        self.leave_failed(control, &mut directory);
        let result = self
            .plan(control, &mut directory)
            .and_then(|(mask, wants)| self.attach(control, &mut directory, mask, wants));
        self.conclude(control, &mut directory, result)
    }

    /// The steps after that, likewise.
    pub(super) fn arrive_further(&self, control: &mut Control) -> bool {
        let mut directory = self.core.directory.lock();
        let result = self.arrived(control, &directory);
        let goes_on = self.conclude(control, &mut directory, result);
        self.wake();
        goes_on
    }

    fn conclude(
        &self,
        control: &mut Control,
        directory: &mut Directory,
        result: Result<bool, Reason>,
    ) -> bool {
        let waiting = matches!(result, Err(Reason::Waiting));
        self.waiting.store(waiting, Ordering::SeqCst);
        match result {
            Err(reason) => {
                // Before any call can begin to wait in the kernel, where it would keep the
                // socket from coming back.
                let was = directory.sockets.find(self).is_some() || self.awaits_engine();
                let parked = control.stays.is_none() && comes_back(reason, was);
                self.parked.store(parked, Ordering::Release);
                self.detach(control, directory);
                let sends = self.rings_to_send(control, directory, reason);
                if sends {
                    self.watch_errors();
                }
                self.with_tx(tx_kernel::UNSERVED, !sends);
                self.publish(control, Some(reason));
                false
            }
            Ok(goes_on) => {
                self.publish(control, None);
                goes_on
            }
        }
    }

    /// Whether rings send for a socket whose datagrams the kernel receives. Not before
    /// its first send: a ring takes memory.
    fn rings_to_send(
        &self,
        control: &mut Control,
        directory: &mut Directory,
        reason: Reason,
    ) -> bool {
        let possible = matches!(reason, Reason::SharedPort | Reason::Waiting);
        if !possible || !control.sends {
            return false;
        }
        let Ok(local) = Self::local_v4(control) else {
            return false;
        };
        let interfaces = self
            .candidates(control, *local.ip(), &[])
            .unwrap_or_default();
        let opened = interfaces.iter().filter(|i| !i.loopback).filter(|i| {
            self.open_transmit(control, directory, i, *local.ip())
                .is_ok()
        });
        opened.count() > 0
    }

    /// Which rings, and what is wanted from them; or why none.
    pub(super) fn plan(
        &self,
        control: &mut Control,
        directory: &mut Directory,
    ) -> Result<(u64, Wants), Reason> {
        if let Some(reason) = control.stays {
            return Err(reason);
        }
        if self.core.forked.load(Ordering::Relaxed) {
            return Err(Reason::Forked);
        }
        self.core.backend_available()?;
        if self.cutoff.is_over() {
            return Err(Reason::Forked);
        }
        let local = Self::local_v4(control)?;
        if self.ruled_out(control, local) {
            return Err(Reason::Rule);
        }
        let company = self.company(control, directory);
        if control.shared_port && control.groups.members().is_empty() && company.is_empty() {
            return Err(Reason::SharedPort);
        }
        if self.mode() == Mode::Kernel && self.kernel_readers.load(Ordering::SeqCst) != 0 {
            return Err(Reason::Waiting);
        }
        let mask = self.open_rings(control, directory, *local.ip(), &company)?;
        let peer = control
            .peer
            .and_then(super::control::v4)
            .filter(|p| !p.ip().is_unspecified());
        let wants = Wants {
            port: local.port(),
            local: *local.ip(),
            peer,
            device: control.device,
            family_v4: self.family == Family::V4,
            unicast: !control.shared_port,
            multicast_all: control.multicast_all,
            groups: control.groups.clone(),
            since: 0,
        };
        Ok((mask, wants))
    }

    /// The rings of [`Self::candidates`], opened if need be.
    fn open_rings(
        &self,
        control: &mut Control,
        directory: &mut Directory,
        local: std::net::Ipv4Addr,
        company: &[u32],
    ) -> Result<u64, Reason> {
        let key = self.receive_key(&mut control.receive_key, local);
        let mut mask = 0;
        let mut refusal = Reason::NoInterface;
        for interface in &self.candidates(control, local, company)? {
            match self.core.ensure_ring(self, directory, interface, key, true) {
                Ok(index) => mask |= 1 << index,
                Err(reason) => refusal = reason,
            }
        }
        if mask == 0 { Err(refusal) } else { Ok(mask) }
    }

    /// The interfaces that may bring datagrams for this socket and can be accelerated;
    /// `company`: see there.
    fn candidates(
        &self,
        control: &Control,
        local: std::net::Ipv4Addr,
        company: &[u32],
    ) -> Result<Vec<Interface>, Reason> {
        let config = &self.core.config;
        let tables = self.core.tables.read();
        let bound = !local.is_unspecified() && !local.is_multicast();
        let peer = control.peer.and_then(super::control::v4);
        if bound {
            // What this host sends to itself comes by loopback, to whatever address.
            let own = tables.interfaces().find(|i| i.loopback);
            let owner = if local.is_loopback() || peer.is_some_and(|p| p.ip().is_loopback()) {
                own
            } else {
                tables.interface_by_address(local)
            };
            let owner = owner.ok_or(Reason::OtherInterface)?;
            let fit = net::usable(config, owner);
            let usable = |i: &&Interface| net::usable(config, i).is_ok();
            let mut list: Vec<_> = own.filter(usable).into_iter().cloned().collect();
            if fit.is_ok() && !owner.loopback {
                list.push(owner.clone());
            }
            return if list.is_empty() {
                fit.map(|()| list)
            } else {
                Ok(list)
            };
        }
        let mut refusal = Reason::NoInterface;
        let mut list = Vec::new();
        for interface in tables.interfaces() {
            let wanted = if control.device != 0 {
                interface.index == control.device
            } else if control.shared_port
                && !(control.groups.members().is_empty() && company.is_empty())
            {
                let mut joined = control.groups.members().iter();
                joined.any(|m| m.ifindex == interface.index) || company.contains(&interface.index)
            } else {
                true
            };
            if !wanted {
                continue;
            }
            match net::usable(config, interface) {
                Ok(()) => list.push(interface.clone()),
                // Of several refusals the one about a real interface says more.
                Err(Reason::Loopback) => {}
                Err(reason) => refusal = reason,
            }
        }
        if list.is_empty() {
            Err(refusal)
        } else {
            Ok(list)
        }
    }

    /// True: it is on its way, and [`Self::arrived`] is next, after a grace period.
    fn attach(
        &self,
        control: &mut Control,
        directory: &mut Directory,
        mask: u64,
        mut wants: Wants,
    ) -> Result<bool, Reason> {
        let fd = self.fd();
        let any_tap = self.core.any_tap(mask);
        let moving = directory.sockets.find(self).map_or(0, Attached::left);
        if let Some(now) = directory.sockets.find(self) {
            wants.since = now.wants.since;
            let same = now.mask & !moving == mask && *now.wants == wants;
            let filtered = control.filter != Filter::None || !any_tap;
            if same && filtered && self.mode().is_engine() && !self.moving.leaves() {
                self.follow_kernel(control);
                return Ok(!any_tap && self.moving.frames_under_way());
            }
        }
        // Whatever changes, it is on one ring of an interface first.
        self.end_move(directory);
        let before = directory.sockets.find(self);
        let is_new = before.is_none();
        let groups_changed = before.is_none_or(|b| b.wants.groups != wants.groups);
        let inode = sock::inode(fd).unwrap_or(0);
        if is_new {
            self.cutoff.begin();
            self.core.look_for_others(directory, &wants, inode);
        }
        let shadow = self.core.shadow_for(directory, &wants, mask);
        // A port that was open before may have frames under way to the kernel socket.
        let arrives = is_new && self.mode() == Mode::Kernel && is_bound(fd) || self.moving.leaves();
        if arrives {
            self.begin_arriving(mask, &shadow)?;
        } else {
            // What a device that steers lets through is refused before it does; what a tap
            // brings is refused after it does: see `moving`.
            let shared_first = Shadow {
                shared: shadow.shared.clone(),
                ..match &control.filter {
                    Filter::Shadow(now) => now.clone(),
                    Filter::None | Filter::Program => Shadow::default(),
                }
            };
            self.set_shadow(control, shared_first)?;
        }
        let entry = Attached {
            socket: self.me.upgrade().ok_or(Reason::StartFailed)?,
            wants: Arc::new(wants),
            mask,
            moves: Vec::new(),
            inode,
        };
        let before = directory.sockets.put(entry.clone());
        let old_mask = before.as_ref().map_or(0, |b| b.mask);
        directory.rings.receiving(old_mask, mask);
        self.core.install(directory, before.as_ref(), &entry)?;
        let mut rings = self.core.rings_of(mask);
        self.cutoff
            .set_steered(rings.any(|r| r.delivery == Delivery::Steered));
        drop(rings);
        // A port that is new has no frame under way that anybody could miss.
        let new = self.unbound.load(Ordering::Relaxed);
        let mut goes_on = false;
        if new || !self.moving.frames_under_way() || any_tap && !self.core.filter_later(self) {
            self.set_shadow(control, shadow)?;
            self.moving.filtered();
        } else {
            goes_on = !any_tap;
        }
        self.follow_kernel(control);
        self.set_rings(mask);
        if !self.mode().is_engine() {
            self.become_engine(Mode::Engine)?;
        }
        if is_new {
            self.stats.life.handovers.add(1);
            self.wake();
        }
        if groups_changed {
            self.core.routes_changed();
        }
        Ok(goes_on)
    }

    /// The engine's from now on, unless a call waits in the kernel.
    fn become_engine(&self, mode: Mode) -> Result<(), Reason> {
        self.set_mode(mode);
        std::sync::atomic::fence(Ordering::SeqCst);
        if self.kernel_readers.load(Ordering::SeqCst) != 0 {
            return Err(Reason::Waiting);
        }
        Ok(())
    }

    /// Before rings bring anything: calls know that the kernel socket's comes first.
    fn begin_arriving(&self, mask: u64, shadow: &Shadow) -> Result<(), Reason> {
        let any_tap = self.core.any_tap(mask);
        let _turn = self.moving.turn();
        self.moving.begin_arriving(any_tap, self.queue_end());
        self.shared.lock().clone_from(&shadow.shared);
        if any_tap {
            // What the taps hold of an earlier time here the kernel had.
            for ring in self.core.rings_of(mask) {
                ring.drain(WHOLE_RING);
            }
        }
        self.become_engine(Mode::CatchingUp).inspect_err(|_| {
            self.moving.end();
            self.set_mode(Mode::Kernel);
        })
    }

    /// Errors of the kernel socket are of interest when it can have any.
    fn follow_kernel(&self, control: &Control) {
        self.watch_kernel(control.peer.is_some() || control.recverr);
    }

    /// Back to the kernel. What the rings hold of the time before stays in the queue.
    fn detach(&self, control: &mut Control, directory: &mut Directory) {
        if self.begin_leaving(control, directory) {
            event::await_receive_path();
        }
        if self.let_go(control, directory) {
            event::await_receive_path();
        }
        self.end_leaving(control, directory);
    }

    /// Nobody reads what it leaves.
    fn closes(control: &Control) -> bool {
        control.stays == Some(Reason::NotBound)
    }

    /// The first step of a leave: what the rings bring is remembered. True: a grace period is
    /// next.
    pub(super) fn begin_leaving(&self, control: &Control, directory: &mut Directory) -> bool {
        self.end_move(directory);
        let Some(attached) = directory.sockets.find(self) else {
            return false;
        };
        if Self::closes(control) || self.moving.leaves() {
            return false;
        }
        let (mask, port) = (attached.mask, attached.wants.port);
        if self.mode() == Mode::CatchingUp && !self.core.any_tap(mask) {
            self.absorb(port);
        }
        if self.cutoff.get() != 0 {
            // A forked child has lifted the filter: what comes now the kernel has, too.
            for ring in self.core.rings_of(mask) {
                ring.drain(WHOLE_RING);
            }
        }
        {
            let _turn = self.moving.turn();
            self.moving.begin_leaving(self.core.any_tap(mask));
            self.set_mode(Mode::CatchingUp);
        }
        // What the tap showed before that must not pass where the filter was. The
        // next image of an exec remembers nothing, and a link that is down brings nothing.
        let brings = |r: &Ring| r.delivery == Delivery::Tap && !r.dead.load(Ordering::Relaxed);
        !matches!(control.stays, Some(Reason::HandedOver | Reason::Forked))
            && self.core.rings_of(mask).any(brings)
    }

    /// The second: the kernel gets everything again. True: a grace period is next.
    pub(super) fn let_go(&self, control: &mut Control, directory: &Directory) -> bool {
        if self.moving.has_let_go() {
            return false;
        }
        let Some(attached) = directory.sockets.find(self) else {
            return false;
        };
        self.lift_shadow(control);
        if Self::closes(control) {
            return false;
        }
        self.moving.let_go();
        self.unsteer(attached)
    }

    /// The last: the rings forget it.
    pub(super) fn end_leaving(&self, control: &mut Control, directory: &mut Directory) {
        let Some(attached) = directory.sockets.find(self).cloned() else {
            return;
        };
        let closes = Self::closes(control);
        self.lift_shadow(control);
        directory.sockets.remove(self);
        directory.rings.receiving(attached.mask, 0);
        self.core.part(directory, &attached, u64::MAX, false);
        self.cutoff.set_steered(false);
        drop(attached);
        self.shared.lock().clear();
        self.set_rings(0);
        self.unwatch_kernel();
        {
            let _turn = self.moving.turn();
            if closes {
                self.moving.end();
            } else {
                self.moving.left();
            }
            self.cutoff.end(clock::realtime());
            self.set_mode(Mode::Kernel);
        }
        self.stats.life.handovers.add(1);
        self.wake();
    }

    /// Another program goes on with the kernel socket and cannot see our queue: the unicast
    /// in it takes the way by the kernel. A group's datagrams stay: others would get them again.
    pub(super) fn give_queue_back(&self) {
        if !self.readable() || self.mode() != Mode::Kernel {
            return;
        }
        let Ok(injector) = Injector::open() else {
            return;
        };
        let Some(mut queue) = self.queue.lock() else {
            return;
        };
        while let Some((record, payload)) = queue.front() {
            let ends = (record.source, record.destination);
            if record.destination.ip().is_multicast()
                || injector.put(ends, record.ttl, record.tos, payload).is_err()
            {
                break;
            }
            queue.pop();
        }
        self.queued.store(queue.len(), Ordering::Release);
        drop(queue);
        // They are not what the kernel has brought a second time.
        self.moving.end();
    }

    /// A forked child has taken the filter off: the kernel has the socket again.
    #[cold]
    pub(super) fn settle_forked(&self) {
        let mut control = self.control.lock();
        if !self.mode().is_engine() || self.cutoff.get() == 0 {
            return; // it was our own hand-back, which has ended
        }
        control.stays = control.stays.or(Some(Reason::Forked));
        self.reconcile(&mut control);
    }

    /// Before a readiness call in a process that was forked: see [`Self::claim`].
    pub fn settle(&self) {
        match self.mode() {
            // Not to wait: the parent's move wakes its sets, which this call may look at.
            Mode::Inherited => self.claim_at_once(),
            mode if mode.is_engine() && self.cutoff.get() != 0 => self.settle_forked(),
            _ => {}
        }
    }

    /// First use of an inherited socket in a forked child: both sides go on with the
    /// kernel socket, which they share.
    #[cold]
    pub(crate) fn claim(&self) {
        self.claim_at_once();
        // What comes after this call is not to go to the parent.
        self.cutoff.await_unsteered();
    }

    #[cold]
    fn claim_at_once(&self) {
        self.set_rings(0);
        if self.cutoff.get() == 0 {
            let _ = bpf::detach(self.fd());
            self.cutoff.end(clock::realtime());
            // A device that steers goes on bringing to the parent until it knows.
            if let Some(event) = self.core.claimed() {
                event.signal();
            }
        }
        self.cutoff.end_for_good();
        self.set_mode(Mode::Kernel);
    }

    /// In a forked child, a socket that it was born with: the kernel's from here on, and
    /// its calls go there without a look at our state. Other threads of the parent may
    /// have held any lock at the time of the fork; nobody will ever release it here.
    pub(super) fn is_parents(&self) -> bool {
        if !self.core.forked.load(Ordering::Relaxed) {
            return false;
        }
        if self.mode() == Mode::Inherited {
            self.claim();
        }
        true
    }

    /// A number is about to be closed; call it before the kernel's close. With the last
    /// one the socket leaves the engine and every epoll set.
    ///
    /// True: it was the last one of a socket that is in groups, so that
    /// [`Self::groups_left`] is due after the kernel's close.
    pub fn fd_removed(&self, fd: RawFd) -> bool {
        if self.core.forked.load(Ordering::Relaxed) {
            // See `is_parents`; to close is not to use. The parent has the socket still,
            // so that it leaves no epoll set.
            return false;
        }
        let left = {
            let mut fds = self.fds.lock();
            fds.retain(|f| *f != fd);
            fds.first().copied()
        };
        if let Some(other) = left {
            self.fd.store(other, Ordering::Relaxed);
            return false;
        }
        let mut member = false;
        if self.blocked.load(Ordering::SeqCst) != 0
            && let Ok(kept) = sock::duplicate(fd)
        {
            // As in Linux: a call that waits on it keeps the socket alive.
            self.fd
                .store(crate::sys::fd::move_high(kept), Ordering::Relaxed);
            self.orphan.store(true, Ordering::SeqCst);
            // That call may have ended meanwhile, without seeing the mark.
            if self.blocked.load(Ordering::SeqCst) == 0 {
                member = self.close_orphan();
            }
        } else {
            member = self.leave();
            // A call that began to wait meanwhile must not touch what the number becomes.
            self.fd.store(-1, Ordering::Relaxed);
        }
        self.core.closed(self);
        member
    }

    /// The kernel has closed a socket that was in groups.
    pub fn groups_left(&self) {
        self.core.groups_changed();
    }

    /// True: it was in groups.
    fn leave(&self) -> bool {
        let mut control = self.control.lock();
        let member = !std::mem::take(&mut control.groups).members().is_empty();
        control.stays = Some(Reason::NotBound);
        self.reconcile(&mut control);
        self.leave_transmit(&mut control);
        self.unwatch_kernel();
        drop(control);
        self.core.publisher.release_socket(self.stats);
        member
    }

    /// The last call that waited on a closed socket has ended. True: it was in groups.
    pub(super) fn close_orphan(&self) -> bool {
        if !self.orphan.swap(false, Ordering::SeqCst) {
            return false;
        }
        let fd = self.fd();
        let member = self.leave();
        self.fd.store(-1, Ordering::Relaxed);
        crate::sys::fd::unregister(fd);
        raw::close(fd);
        member
    }

    fn publish(&self, control: &Control, reason: Option<Reason>) {
        let unbound = reason == Some(Reason::NotBound) && control.stays.is_none();
        let parked = reason.is_some() && self.parked.load(Ordering::Acquire);
        let was = self.unbound.swap(unbound, Ordering::AcqRel);
        let was = self.parked.swap(parked, Ordering::AcqRel) || was;
        if was && !unbound && !parked {
            self.wake();
        }
        self.stats.set_local(control.local);
        self.stats.set_peer(control.peer);
        match reason {
            Some(reason) if self.sends_by_ring() => self.stats.set_send_only(reason),
            reason => self.stats.set_reason(reason),
        }
        self.stats.set_groups(
            control
                .groups
                .members()
                .iter()
                .map(|m| (m.group, m.ifindex)),
        );
    }
}

/// The kernel has it for a while only: calls wait where they see it come back.
/// `was`: it has had it from the engine.
fn comes_back(reason: Reason, was: bool) -> bool {
    match reason {
        Reason::NoLink | Reason::DeviceFailed => true,
        Reason::InterfaceDown | Reason::NoAddress | Reason::OtherInterface => was,
        _ => false,
    }
}

fn is_bound(fd: RawFd) -> bool {
    sock::local_name(fd)
        .ok()
        .flatten()
        .is_some_and(|a| a.port() != 0)
}
