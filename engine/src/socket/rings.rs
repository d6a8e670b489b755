//! Which ring a socket gets: VMA_RING_ALLOCATION_LOGIC_RX and _TX, the limits, and what
//! becomes of rings that nobody uses any more.
//!
//! A ring belongs to one interface and one key. It receives, sends, or both: what is not
//! used is not open. A [`Ring`] is never freed, for calls look at it without any lock; what
//! it costs (its queue, its memory) goes, and the next ring of the interface takes its place.

use super::core::{Core, Directory, bits};
use super::migrate::Habits;
use super::path::Ring;
use super::route::patient;
use super::udp::UdpSocket;
use crate::clock;
use crate::config::{Config, Opt};
use crate::device::{Chosen, Delivery, Port, QueueOptions, Refused, VerbsOptions};
use crate::error::Reason;
use crate::net::{Interface, Tables};
use crate::sys::mutex::Mutex;
use crate::sys::{event, raw};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

/// Rings that one process opens at the most; bits of a socket's mask.
pub(super) const RINGS: usize = 64;
/// How long a ring that nobody uses stays open, ns: a program may open its next socket.
const KEPT: u64 = 1_000_000_000;
/// The same for the one ring of an interface, which costs more to open.
const KEPT_COMMON: u64 = 10_000_000_000;

/// What a ring is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// All sockets.
    Interface,
    /// Sockets of a local address; those of none in particular count as of the first.
    Address(Ipv4Addr),
    /// One socket.
    Socket(usize),
    /// One thread.
    Thread(usize),
    /// One core.
    Core(usize),
}

impl Key {
    /// Of a thread or core: which.
    pub(super) fn number(self) -> usize {
        match self {
            Self::Thread(n) | Self::Socket(n) => n,
            Self::Core(n) => n + 1,
            Self::Interface | Self::Address(_) => 0,
        }
    }

    /// As the statistics show it.
    fn text(self, socket: &UdpSocket) -> String {
        match self {
            Self::Interface => "interface".into(),
            Self::Address(address) => format!("address {address}"),
            Self::Socket(_) => format!("socket {}", socket.fd()),
            Self::Thread(_) => format!("thread {}", event::thread_id()),
            Self::Core(core) => format!("core {core}"),
        }
    }
}

/// What gets a ring of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Logic {
    Interface,
    Address,
    Socket,
    Thread,
    Core,
    PinnedCore,
}

impl Logic {
    /// VMA_RING_MIGRATION_RATIO_*, where the ring depends on who calls.
    fn ratio(self, config: &Config, option: Opt) -> Option<u32> {
        let calls = u32::try_from(config.int(option)).ok()?;
        matches!(self, Self::Thread | Self::Core | Self::PinnedCore).then_some(calls.max(1))
    }

    fn of(value: i64) -> Self {
        match value {
            1 => Self::Address,
            10 => Self::Socket,
            20 => Self::Thread,
            30 => Self::Core,
            31 => Self::PinnedCore,
            _ => Self::Interface,
        }
    }
}

/// The configuration's part in it.
#[derive(Debug)]
pub(super) struct Allocation {
    receive: Logic,
    send: Logic,
    /// Calls between two looks at who makes them; None: a socket keeps its ring.
    pub(super) receive_ratio: Option<u32>,
    pub(super) send_ratio: Option<u32>,
    /// Rings on one interface at the most; 0: no limit.
    limit: usize,
    /// VMA_RING_ALLOCATION_LOGIC 31: the core that a thread was given.
    pinned: Mutex<HashMap<usize, usize>>,
}

impl Allocation {
    pub(super) fn of(config: &Config) -> Self {
        let receive = Logic::of(config.int(Opt::RingLogicRx));
        let send = Logic::of(config.int(Opt::RingLogicTx));
        Self {
            receive,
            send,
            receive_ratio: receive.ratio(config, Opt::RingMigrationRx),
            send_ratio: send.ratio(config, Opt::RingMigrationTx),
            limit: usize::try_from(config.int(Opt::RingLimit)).unwrap_or(0),
            pinned: Mutex::default(),
        }
    }

    /// What is to be known of who uses a new socket.
    pub(super) fn habits(&self) -> Habits {
        Habits::new(self.receive_ratio.is_some(), self.send_ratio.is_some())
    }

    /// The key of a socket's receiving ring, if the calling thread uses it.
    pub(super) fn receive_key(&self, socket: &UdpSocket, local: Ipv4Addr) -> Key {
        self.key(self.receive, socket, local)
    }

    /// The same for sending.
    pub(super) fn send_key(&self, socket: &UdpSocket, local: Ipv4Addr) -> Key {
        self.key(self.send, socket, local)
    }

    /// The key of a socket that the calling thread uses; `local` decides by address.
    fn key(&self, logic: Logic, socket: &UdpSocket, local: Ipv4Addr) -> Key {
        match logic {
            Logic::Interface => Key::Interface,
            Logic::Address => Key::Address(local),
            Logic::Socket => Key::Socket(std::ptr::from_ref(socket) as usize),
            Logic::Thread => Key::Thread(raw::thread_pointer()),
            Logic::Core => Key::Core(event::current_core()),
            Logic::PinnedCore => Key::Core(self.pin()),
        }
    }

    /// Puts the calling thread on the core that has the fewest of ours, once.
    fn pin(&self) -> usize {
        let core = event::current_core();
        let thread = raw::thread_pointer();
        let mut pinned = self.pinned.lock();
        if pinned.get(&thread) == Some(&core) {
            return core;
        }
        pinned.remove(&thread);
        let threads = |core: usize| pinned.values().filter(|c| **c == core).count();
        let allowed = event::allowed_cores();
        let chosen = allowed
            .into_iter()
            .min_by_key(|c| (threads(*c), *c != core));
        let chosen = chosen.filter(|c| event::pin_to_core(*c)).unwrap_or(core);
        pinned.insert(thread, chosen);
        chosen
    }
}

/// One direction of a ring.
#[derive(Clone, Copy, Debug)]
struct Use {
    users: u32,
    /// Since when there are none, CLOCK_MONOTONIC.
    idle_since: u64,
}

impl Use {
    fn none(now: u64) -> Self {
        Self {
            users: 0,
            idle_since: now,
        }
    }

    fn change(&mut self, more: bool) {
        if more {
            self.users += 1;
        } else {
            self.users = self.users.saturating_sub(1);
            self.idle_since = clock::monotonic();
        }
    }

    fn idle(self, now: u64, kept: u64) -> bool {
        self.users == 0 && now.saturating_sub(self.idle_since) >= kept
    }
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    ifindex: u32,
    common: bool,
    receives: Use,
    sends: Use,
}

impl Slot {
    fn kept(&self, tables: &Tables) -> u64 {
        if self.common && tables.interface(self.ifindex).is_some() {
            KEPT_COMMON
        } else {
            KEPT
        }
    }
}

/// The rings of the process; part of the directory.
#[derive(Debug, Default)]
pub(super) struct RingTable {
    slots: Vec<Option<Slot>>,
    keys: HashMap<(u32, Key), u32>,
    /// Closed ones, to be opened again on the same interface.
    spare: Vec<&'static Ring>,
    /// An interface has, or has had, several.
    pub(super) several: bool,
}

impl RingTable {
    fn on(&self, ifindex: u32) -> Vec<u32> {
        let slots = (0u32..).zip(&self.slots);
        slots
            .filter(|(_, s)| s.is_some_and(|s| s.ifindex == ifindex))
            .map(|(i, _)| i)
            .collect()
    }

    fn free(&self) -> Option<u32> {
        let gap = self.slots.iter().position(Option::is_none);
        let next = Some(self.slots.len()).filter(|n| *n < RINGS);
        gap.or(next).map(|n| n as u32)
    }

    fn set(&mut self, index: u32, slot: Option<Slot>) {
        let at = index as usize;
        if self.slots.len() <= at {
            self.slots.resize(at + 1, None);
        }
        self.slots[at] = slot;
    }

    fn slot(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// A socket's rings are these from now on.
    pub(super) fn receiving(&mut self, before: u64, now: u64) {
        for (mask, more) in [(now & !before, true), (before & !now, false)] {
            for index in bits(mask) {
                if let Some(slot) = self.slot(index) {
                    slot.receives.change(more);
                }
            }
        }
    }

    /// The same for the rings that send for it.
    pub(super) fn sending(&mut self, before: u64, now: u64) {
        for (mask, more) in [(now & !before, true), (before & !now, false)] {
            for index in bits(mask) {
                if let Some(slot) = self.slot(index) {
                    slot.sends.change(more);
                }
            }
        }
    }

    /// A ring's device has failed: nobody finds it by a key any more.
    pub(super) fn forget(&mut self, is: impl Fn(u32) -> bool) {
        self.keys.retain(|_, index| !is(*index));
    }

    /// A ring will never be of use again: what it costs need not be kept for long.
    pub(super) fn let_go(&mut self, is: impl Fn(u32) -> bool) {
        for (index, slot) in (0u32..).zip(&mut self.slots) {
            if let Some(slot) = slot.as_mut().filter(|_| is(index)) {
                slot.common = false;
            }
        }
    }
}

/// One ring for one socket: what is to be opened.
struct Wish<'a> {
    interface: &'a Interface,
    key: Key,
    label: String,
    receives: bool,
}

impl UdpSocket {
    /// The key of its receiving rings, once it has one; by address, what it is bound to.
    pub(super) fn receive_key(&self, kept: &mut Option<Key>, local: Ipv4Addr) -> Key {
        let allocation = &self.core.allocation;
        if allocation.receive == Logic::Address {
            return allocation.key(Logic::Address, self, local);
        }
        *kept.get_or_insert_with(|| {
            let key = allocation.receive_key(self, local);
            self.habits.receives_for(key);
            key
        })
    }

    /// The ring that sends for it on an interface; None: the kernel.
    pub(super) fn transmit_ring(&self, ifindex: u32) -> Option<&'static Ring> {
        let core = self.core;
        let (Some(mut control), Some(mut directory)) =
            (patient(&self.control), patient(&core.directory))
        else {
            core.routes_changed(); // busy is no answer that lasts
            return None;
        };
        if !matches!(directory.interfaces.get(&ifindex), Some(Ok(()))) {
            return None;
        }
        let interface = core.tables.read().interface(ifindex)?.clone();
        let local = Self::local_v4(&control).ok()?;
        let index = self
            .open_transmit(&mut control, &mut directory, &interface, *local.ip())
            .ok()?;
        let ring = core.ring(index);
        (!ring.dead.load(Ordering::Relaxed)).then_some(ring)
    }

    /// Opens the ring that is to send for it on an interface.
    pub(super) fn open_transmit(
        &self,
        control: &mut super::control::Control,
        directory: &mut Directory,
        interface: &Interface,
        local: Ipv4Addr,
    ) -> Result<u32, Reason> {
        let allocation = &self.core.allocation;
        let key = if allocation.send == Logic::Address {
            allocation.key(Logic::Address, self, local)
        } else {
            let kept = &mut control.transmit_key;
            *kept.get_or_insert_with(|| {
                let key = allocation.send_key(self, local);
                self.habits.sends_for(key);
                key
            })
        };
        let index = self
            .core
            .ensure_ring(self, directory, interface, key, false)?;
        let with = control.transmit_rings | 1 << index;
        directory.rings.sending(control.transmit_rings, with);
        control.transmit_rings = with;
        Ok(index)
    }

    /// Rings that are of no more use do not send for it.
    pub(super) fn leave_failed(
        &self,
        control: &mut super::control::Control,
        directory: &mut Directory,
    ) {
        let before = control.transmit_rings;
        let failed = |i: &u32| self.core.ring(*i).has_failed();
        let failed = bits(before).filter(failed).fold(0, |mask, i| mask | 1 << i);
        if failed != 0 {
            control.transmit_rings = before & !failed;
            directory.rings.sending(before, control.transmit_rings);
        }
    }

    /// No ring sends for it any more.
    pub(super) fn leave_transmit(&self, control: &mut super::control::Control) {
        if control.transmit_rings != 0 {
            let mut directory = self.core.directory.lock();
            directory.rings.sending(control.transmit_rings, 0);
            control.transmit_rings = 0;
        }
    }
}

impl Core {
    /// The ring of a key on an interface, opened at the first need.
    pub(super) fn ensure_ring(
        &self,
        socket: &UdpSocket,
        directory: &mut Directory,
        interface: &Interface,
        key: Key,
        receives: bool,
    ) -> Result<u32, Reason> {
        let key = match key {
            Key::Address(a) if !interface.addresses.iter().any(|own| own.addr == a) => {
                let first = interface.addresses.first();
                Key::Address(first.map_or(Ipv4Addr::UNSPECIFIED, |a| a.addr))
            }
            other => other,
        };
        if let Some(Err(reason)) = directory.interfaces.get(&interface.index) {
            return Err(*reason);
        }
        let known = directory.rings.keys.get(&(interface.index, key)).copied();
        if let Some(index) = known
            && (!receives || self.ring(index).receives())
        {
            return self.fit(index);
        }
        if directory.failures.bar(interface.index) {
            return Err(Reason::DeviceFailed);
        }
        let wish = Wish {
            interface,
            key,
            label: key.text(socket),
            receives,
        };
        let index = match known {
            Some(index) => self.open_queue(directory, &wish, index).map(|()| index),
            None => self.allocate(directory, &wish),
        };
        match index {
            Ok(index) => {
                directory.rings.keys.insert((interface.index, key), index);
                self.fit(index)
            }
            Err(reason) => {
                if directory.rings.on(interface.index).is_empty() {
                    directory.interfaces.insert(interface.index, Err(reason));
                }
                Err(reason)
            }
        }
    }

    /// A ring that is free, a new one, or one to be shared.
    fn allocate(&self, directory: &mut Directory, wish: &Wish<'_>) -> Result<u32, Reason> {
        let here: Vec<u32> = directory.rings.on(wish.interface.index);
        let here = || here.iter().copied().filter(|i| !self.ring(*i).has_failed());
        let slot = |i: u32| directory.rings.slots[i as usize].expect("a ring of the interface");
        let idle = here().find(|i| slot(*i).receives.users == 0 && slot(*i).sends.users == 0);
        if let Some(index) = idle {
            directory.rings.forget(|i| i == index);
            if wish.receives && !self.ring(index).receives() {
                self.open_queue(directory, wish, index)?;
            }
            self.relabel(directory, wish, index);
            return Ok(index);
        }
        let limit = self.allocation.limit;
        let full = limit != 0 && here().count() >= limit;
        // Of those that do the same already, the least used; else of all.
        let shared = here().min_by_key(|i| {
            let slot = slot(*i);
            let other = wish.receives && !self.ring(*i).receives();
            (other, slot.receives.users + slot.sends.users)
        });
        let free = directory.rings.free();
        let free = free.or_else(|| self.reclaim_one(directory));
        let opened = match (full, free) {
            (false, Some(free)) => self.open_ring(directory, wish, free),
            _ => Err(Reason::NoResources),
        };
        match (opened, shared) {
            (Ok(index), _) => Ok(index),
            (Err(_), Some(index)) => {
                if wish.receives && !self.ring(index).receives() {
                    self.open_queue(directory, wish, index)?;
                }
                Ok(index)
            }
            (Err(reason), None) => Err(reason),
        }
    }

    fn open_device(&self, directory: &Directory, wish: &Wish<'_>) -> Result<Chosen, Refused> {
        let refused = |reason| Refused {
            reason,
            why: String::new(),
        };
        let candidates = self.backend.map_err(refused)?;
        let slots = directory.rings.slots.iter().flatten();
        let options = QueueOptions {
            slots: self.tuning.rx_slots,
            others: match wish.key {
                Key::Interface => 0,
                _ => slots.count().max(1) as u32,
            },
            verbs: VerbsOptions::of(&self.config),
            stamps_alike: self.allocation.receive_ratio.is_some(),
        };
        let interface = wish.interface;
        let port = Port {
            index: interface.index,
            name: &interface.name,
            mtu: interface.mtu,
            mac: interface.mac,
        };
        if wish.receives {
            candidates.open(port, options)
        } else {
            candidates.open_transmit(port, options)
        }
    }

    /// Opens a ring under a free number.
    #[cold]
    fn open_ring(
        &self,
        directory: &mut Directory,
        wish: &Wish<'_>,
        index: u32,
    ) -> Result<u32, Reason> {
        let interface = wish.interface;
        let same = |r: &&'static Ring| r.ifindex == interface.index;
        let first = !matches!(directory.interfaces.get(&interface.index), Some(Ok(())));
        if let Some(at) = directory.rings.spare.iter().position(same)
            && !first
        {
            let ring = directory.rings.spare.swap_remove(at);
            if wish.receives {
                let chosen = self.open_device(directory, wish).map_err(|r| r.reason);
                let Ok(chosen) = chosen else {
                    directory.rings.spare.push(ring);
                    return chosen.map(|_| index);
                };
                ring.open_queue(chosen.opened.queue, chosen.opened.slots);
            }
            self.list(directory, wish, index, ring);
            return Ok(index);
        }
        let chosen = self.open_device(directory, wish).map_err(|refused| {
            if first {
                self.say(&format!(
                    "interface {}: not accelerated: {} ({}); its sockets stay on the kernel",
                    interface.name, refused.reason, refused.why
                ));
            }
            refused.reason
        })?;
        let Chosen {
            backend,
            opened,
            why,
        } = chosen;
        let device = opened.device.clone();
        let memory = opened.memory.map(|m| format!(", buffers in {m}"));
        if backend.delivery() == Delivery::Steered {
            self.claim_event();
        }
        let stats = self.publisher.ring();
        stats.describe(
            &interface.name,
            interface.index,
            backend.name(),
            &device,
            opened.slots,
            0,
        );
        let any_peer = self.config.flag(Opt::Udp3tRules);
        let ring = Ring::new(interface, opened, backend.delivery(), any_peer, stats);
        let ring: &'static Ring = Box::leak(Box::new(ring));
        directory.interfaces.insert(interface.index, Ok(()));
        self.list(directory, wish, index, ring);
        if first {
            let on = if device.is_empty() { "" } else { " on " };
            self.say(&format!(
                "interface {}: accelerated by {}{on}{device} ({why}){}",
                interface.name,
                backend.name(),
                memory.unwrap_or_default()
            ));
        }
        if self.tuning.mtu > interface.mtu && !directory.mtu_warned {
            directory.mtu_warned = true;
            self.warn(&format!(
                "VMA_MTU={} is above the MTU of {}: {} is used",
                self.tuning.mtu, interface.name, interface.mtu
            ));
        }
        Ok(index)
    }

    /// A ring that has only sent so far receives, too.
    fn open_queue(&self, directory: &Directory, wish: &Wish<'_>, index: u32) -> Result<(), Reason> {
        let chosen = self.open_device(directory, wish).map_err(|r| r.reason)?;
        let ring = self.ring(index);
        ring.open_queue(chosen.opened.queue, chosen.opened.slots);
        self.refresh_ring(ring, &self.tables.read());
        self.ring_changed();
        Ok(())
    }

    /// Puts a ring under a number, for everybody to find.
    fn list(&self, directory: &mut Directory, wish: &Wish<'_>, index: u32, ring: &'static Ring) {
        let now = clock::monotonic();
        let slot = Slot {
            ifindex: ring.ifindex,
            common: wish.key == Key::Interface,
            receives: Use::none(now),
            sends: Use::none(now),
        };
        directory.rings.several |= !directory.rings.on(ring.ifindex).is_empty();
        directory.rings.set(index, Some(slot));
        ring.stats.state.key.set(&wish.label);
        self.publisher.show_ring(ring.stats);
        self.set_ring(index, ring);
        self.refresh_ring(ring, &self.tables.read());
        self.ring_changed();
    }

    fn relabel(&self, directory: &mut Directory, wish: &Wish<'_>, index: u32) {
        if let Some(slot) = directory.rings.slot(index) {
            slot.common = wish.key == Key::Interface;
        }
        self.ring(index).stats.state.key.set(&wish.label);
    }

    /// Closes rings that nobody has used for a while; the control thread's.
    pub fn reclaim_rings(&self, now: u64) {
        let mut directory = self.directory.lock();
        let tables = self.tables.read();
        for index in 0..RINGS as u32 {
            let Some(slot) = directory.rings.slot(index).copied() else {
                continue;
            };
            let kept = slot.kept(&tables);
            if !slot.receives.idle(now, kept) {
                continue;
            }
            if slot.sends.idle(now, kept) {
                self.close_ring(&mut directory, index);
            } else if self.ring(index).receives() {
                self.ring(index).close_queue();
            }
        }
        let gone = |r: &&'static Ring| tables.interface(r.ifindex).is_none();
        for ring in directory.rings.spare.extract_if(.., |r| gone(&*r)) {
            ring.transmit.retire();
        }
    }

    /// When [`Self::reclaim_rings`] may have something to do.
    #[must_use]
    pub fn next_reclaim(&self) -> Option<u64> {
        let directory = self.directory.lock();
        let tables = self.tables.read();
        let slots = (0u32..).zip(&directory.rings.slots);
        let slots = slots.filter_map(|(index, slot)| Some((index, slot.as_ref()?)));
        let due = slots.filter_map(|(index, slot)| {
            let since = match (slot.receives.users, slot.sends.users) {
                (0, 0) => slot.receives.idle_since.max(slot.sends.idle_since),
                // It goes on sending: its queue alone is closed, once.
                (0, _) if self.ring(index).receives() => slot.receives.idle_since,
                _ => return None,
            };
            Some(since + slot.kept(&tables))
        });
        due.min()
    }

    /// Makes room under a number at once.
    fn reclaim_one(&self, directory: &mut Directory) -> Option<u32> {
        let slots = (0u32..).zip(&directory.rings.slots);
        let idle =
            slots.filter(|(_, s)| s.is_some_and(|s| s.receives.users == 0 && s.sends.users == 0));
        let index = idle.map(|(i, _)| i).next()?;
        self.close_ring(directory, index);
        Some(index)
    }

    fn close_ring(&self, directory: &mut Directory, index: u32) {
        let ring = self.ring(index);
        ring.close_queue();
        self.unlist(index);
        directory.rings.forget(|i| i == index);
        directory.rings.set(index, None);
        if ring.has_failed() {
            ring.transmit.retire();
            self.publisher.release_ring(ring.stats);
        } else {
            self.publisher.hide_ring(ring.stats);
            directory.rings.spare.push(ring);
        }
        self.ring_changed();
    }
}
