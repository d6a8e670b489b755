//! Changing what the device of a ring brings: its queue is opened and closed, sockets come
//! and go, addresses, groups and other programs of the host change.

use super::core::{Core, Directory, bits};
use super::demux::{Demux, Entry, Place, Wants};
use super::directory::Attached;
use super::path::{QueueAll, REASSEMBLY_BYTES, REASSEMBLY_DATAGRAMS, Ring, RingState, WHOLE_RING};
use super::share::Sharing;
use super::steer;
use super::udp::UdpSocket;
use crate::device::{Closed, Delivery, Flow, Queue, Watch};
use crate::error::Reason;
use crate::steering::Scope;
use crate::sys::event;
use crate::wire::{Checksum, Parsed, Reassembler, parse};
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A card may still bring what it had matched when a rule was taken away, ns.
const UNDER_WAY: u64 = 50_000;

impl Ring {
    /// It receives from now on.
    pub(super) fn open_queue(&self, queue: Box<dyn Queue>, slots: u32) {
        let number = |fd: Option<RawFd>| fd.unwrap_or(-1);
        self.sleep_fd
            .store(number(queue.sleep_fd()), Ordering::Relaxed);
        self.event_fd
            .store(number(queue.event_fd()), Ordering::Relaxed);
        let watch = queue.watch().map(|watch| self.kept_watch(watch));
        self.with(|state| state.open(queue));
        let watch = watch.map_or(std::ptr::null(), std::ptr::from_ref);
        self.watch.store(watch.cast_mut(), Ordering::Release);
        self.receives.store(true, Ordering::Release);
        self.stats.state.rx_slots.store(slots, Ordering::Relaxed);
    }

    /// Calls look at a watch without a lock: none is ever freed.
    fn kept_watch(&self, watch: Watch) -> &'static Watch {
        let mut watches = self.watches.lock();
        if let Some(same) = watches.iter().find(|w| w.same(&watch)) {
            return same;
        }
        let watch: &'static Watch = Box::leak(Box::new(watch));
        watches.push(watch);
        watch
    }

    /// It receives no more, and its memory is given back. No socket is attached.
    pub(super) fn close_queue(&self) {
        self.receives.store(false, Ordering::Release);
        self.sleep_fd.store(-1, Ordering::Relaxed);
        let events = self.transmit.event_fd().unwrap_or(-1);
        self.event_fd.store(events, Ordering::Relaxed);
        let queue = self.with(RingState::close);
        self.stats.state.rx_slots.store(0, Ordering::Relaxed);
        drop(queue);
    }

    /// Another ring of the interface gives a frame the same time stamp.
    pub(super) fn stamps_alike(&self) -> bool {
        self.with(|state| state.queue.stamps_alike())
            .unwrap_or(false)
    }

    /// It has a queue.
    #[must_use]
    pub fn receives(&self) -> bool {
        self.receives.load(Ordering::Acquire)
    }

    /// Steers for a socket no more, which still takes what was brought. True: something may be
    /// under way.
    pub(super) fn unsteer(&self, port: u16, socket: &UdpSocket) -> bool {
        let unsteered = self.with(|state| state.unsteer(port, socket));
        if unsteered == Some(Ok(true)) {
            let _ = event::ppoll(&mut [], Some(UNDER_WAY), None);
            return true;
        }
        false
    }

    /// Keeps its device as it is whatever sockets want, until it is let go.
    ///
    /// # Errors
    /// The device cannot take what they want.
    pub(super) fn hold(&self, hold: bool, sharing: &Sharing) -> Result<(), Reason> {
        let held = self.with(|state| {
            state.held = hold;
            if hold {
                return Ok(());
            }
            state.sharing = sharing.clone();
            state.resteer()
        });
        held.unwrap_or(Ok(()))
    }

    /// A socket leaves; what the device has brought until then still goes to its queue.
    /// `linger`: the device may be about to bring what was under way.
    pub fn part(&self, port: u16, socket: &UdpSocket, linger: bool) {
        self.with(|state| {
            if self.delivery == Delivery::Steered {
                let unsteered = state.unsteer(port, socket);
                if linger && unsteered == Ok(true) {
                    let _ = event::ppoll(&mut [], Some(UNDER_WAY), None);
                }
            }
            self.drain_locked(state);
            state.remove(port, socket);
        });
    }

    /// Steers the device anew after addresses, groups or `sharing` have changed. Flows whose
    /// sharing changes have two rules for a moment, and what comes then may come twice.
    pub(super) fn resteer(&self, sharing: &Sharing) {
        self.with(|state| {
            state.sharing = sharing.clone();
            let mut twins = Twins::of(&state.changing_over());
            if twins.flows.is_empty() {
                // What a device that steers cannot take the kernel still delivers.
                let _ = state.resteer();
                return;
            }
            self.drain_locked(state);
            let _ = state.resteer();
            let _ = event::ppoll(&mut [], Some(UNDER_WAY), None);
            for _ in 0..WHOLE_RING {
                let Some(frame) = state.queue.next() else {
                    break;
                };
                if twins.is_second(frame.data) {
                    state.queue.release();
                } else {
                    self.poll_locked(state, &mut QueueAll, 1);
                }
            }
        });
    }
}

/// Tells the second copies of frames that come twice: of each flow, every other one of a run of equal
/// frames. Equal frames that a sender has sent are told apart by their number: each comes
/// twice.
#[derive(Debug)]
struct Twins {
    flows: Vec<(Ipv4Addr, u16)>,
    /// Of each flow the last first copy; empty: its second has come.
    first: Vec<Vec<u8>>,
}

impl Twins {
    fn of(flows: &[Flow]) -> Self {
        Self {
            flows: flows.iter().map(|f| (f.destination, f.port)).collect(),
            first: vec![Vec::new(); flows.len()],
        }
    }

    fn is_second(&mut self, frame: &[u8]) -> bool {
        let Parsed::Udp(udp) = parse(frame, Checksum::Trusted) else {
            return false;
        };
        let flow = (*udp.dst.ip(), udp.dst.port());
        let Some(at) = self.flows.iter().position(|f| *f == flow) else {
            return false;
        };
        let first = &mut self.first[at];
        let second = first == frame;
        first.clear();
        if !second {
            first.extend_from_slice(frame);
        }
        second
    }
}

impl RingState {
    fn open(&mut self, queue: Box<dyn Queue>) {
        self.queue = queue;
        self.steered.clear();
        self.every_port = false;
        let _ = self.resteer();
    }

    fn close(&mut self) -> Box<dyn Queue> {
        self.reassembler = Reassembler::new(REASSEMBLY_BYTES, REASSEMBLY_DATAGRAMS);
        self.demux = Demux::default();
        std::mem::replace(&mut self.queue, Box::new(Closed))
    }

    /// Changes what this ring is to a socket.
    pub(super) fn set_place(&mut self, port: u16, socket: &UdpSocket, place: Place) {
        self.demux
            .set_place(port, |s| std::ptr::eq(&**s, socket), place);
    }

    /// A socket wants something from this ring, or something else than before.
    ///
    /// # Errors
    /// The device cannot take its flows; everything stays as it was.
    pub fn put(&mut self, entry: Entry<Arc<UdpSocket>>) -> Result<(), Reason> {
        let port = entry.wants.port;
        let socket = Arc::clone(&entry.target);
        let is = |s: &Arc<UdpSocket>| Arc::ptr_eq(s, &socket);
        let before = self.demux.put(entry, is);
        let result = self.steer_port(port);
        if result.is_err() {
            match before {
                Some(before) => drop(self.demux.put(before, is)),
                None => self.demux.remove(port, is),
            }
        }
        result
    }

    /// These are the sockets of a port.
    ///
    /// # Errors
    /// The device cannot take their flows; those of before are still there.
    pub(super) fn set_port(
        &mut self,
        port: u16,
        entries: Vec<Entry<Arc<UdpSocket>>>,
    ) -> Result<(), Reason> {
        let before = self.demux.set_port(port, entries);
        let result = self.steer_port(port);
        if result.is_err() {
            self.demux.set_port(port, before);
        }
        result
    }

    /// A socket wants nothing of a port any more.
    pub fn remove(&mut self, port: u16, socket: &UdpSocket) {
        if self.demux.has(port) {
            self.demux.remove(port, |s| std::ptr::eq(&**s, socket));
            // A device that keeps a flow brings what nobody takes.
            let _ = self.steer_port(port);
        }
    }

    fn flows<'a>(&self, entries: impl Iterator<Item = &'a Entry<Arc<UdpSocket>>>) -> Vec<Flow> {
        if self.delivery == Delivery::Tap {
            return steer::ports(entries);
        }
        // For one that is on its way to the kernel no more is to come.
        let stay = entries.filter(|e| !e.target.moving.leaves());
        self.flows_if(stay, &self.sharing)
    }

    /// The flows of these sockets, with others on the host as `sharing` says.
    pub(super) fn flows_if<'a, T: 'a>(
        &self,
        entries: impl Iterator<Item = &'a Entry<T>>,
        sharing: &Sharing,
    ) -> Vec<Flow> {
        let groups: Vec<_> = self.groups.all().collect();
        let scope = Scope {
            addresses: &self.addresses,
            groups: &groups,
            delivery: self.delivery,
            any_peer: self.any_peer,
        };
        let shared = |group, port| sharing.is_shared(group, port);
        steer::flows(entries, self.ifindex, &scope, &shared)
    }

    /// The flows of these and of all sockets of the ring.
    pub(super) fn flows_with<'a, T: 'a>(
        &self,
        entries: impl Iterator<Item = &'a Entry<T>>,
        sharing: &Sharing,
    ) -> Vec<Flow> {
        let mut flows = self.flows_if(entries, sharing);
        flows.extend(self.flows_if(self.demux.entries(), sharing));
        flows
    }

    /// Flows that stay but for their sharing, and the others of the same groups, for their rules
    /// may change with that.
    fn changing_over(&self) -> Vec<Flow> {
        if self.delivery == Delivery::Tap {
            return Vec::new();
        }
        let mut flows = self.flows(self.demux.entries());
        let place = |f: &Flow| (f.destination, f.port, f.peer);
        let before = |f: &Flow| self.steered.iter().find(|b| place(b) == place(f));
        let changed = |f: &&Flow| before(f).is_some_and(|b| b.shared != f.shared);
        let groups: Vec<Ipv4Addr> = flows
            .iter()
            .filter(changed)
            .map(|f| f.destination)
            .collect();
        flows.retain(|f| groups.contains(&f.destination) && before(f).is_some());
        flows
    }

    /// Steers the device anew after addresses or groups have changed.
    ///
    /// # Errors
    /// The device cannot take these flows; those of before stay.
    pub(super) fn resteer(&mut self) -> Result<(), Reason> {
        if self.held {
            return Ok(());
        }
        let every_port = !self.queue.tells_apart(self.demux.len());
        if every_port && self.every_port {
            return Ok(());
        }
        let flows = self.flows(self.demux.entries());
        if flows != self.steered {
            self.queue.steer(&flows)?;
            self.steered = flows;
        }
        self.every_port = every_port;
        Ok(())
    }

    /// The wishes for one port have changed: what it costs does not grow with the others.
    fn steer_port(&mut self, port: u16) -> Result<(), Reason> {
        if self.every_port || !self.queue.tells_apart(self.demux.len()) {
            return self.resteer();
        }
        let flows = self.flows(self.demux.port(port));
        self.steer_port_to(port, flows).map(drop)
    }

    /// True: something was changed.
    fn steer_port_to(&mut self, port: u16, flows: Vec<Flow>) -> Result<bool, Reason> {
        if self.held || self.steered.iter().filter(|f| f.port == port).eq(&flows) {
            return Ok(false);
        }
        let others = self.steered.iter().filter(|f| f.port != port);
        let mut all: Vec<Flow> = others.copied().chain(flows).collect();
        all.sort_unstable();
        self.queue.steer(&all)?;
        self.steered = all;
        Ok(true)
    }

    /// Ends the flows that this socket alone wants, or with others that leave; it still
    /// takes what was brought. True: there were some.
    ///
    /// # Errors
    /// The device's.
    fn unsteer(&mut self, port: u16, socket: &UdpSocket) -> Result<bool, Reason> {
        let others = self.demux.port(port);
        let flows = self.flows(others.filter(|e| !std::ptr::eq(&*e.target, socket)));
        self.steer_port_to(port, flows)
    }
}

impl Core {
    /// Tells the rings what a socket wants from now on, and those that it leaves that it
    /// does.
    pub(super) fn install(
        &self,
        directory: &Directory,
        before: Option<&Attached>,
        now: &Attached,
    ) -> Result<(), Reason> {
        if let Some(before) = before {
            let same_port = now.wants.port == before.wants.port;
            let left = if same_port { !now.mask } else { u64::MAX };
            self.part(directory, before, left, true);
        }
        if directory.rings.several {
            return self.level(directory, now.wants.port, now.mask);
        }
        for index in bits(now.mask) {
            let ring = self.ring(index);
            let entry = entry_for(ring, now, Place::Here);
            ring.with(|state| {
                // What is there already came to those who were there.
                ring.drain_locked(state);
                state.sharing = directory.mixed.now.clone();
                state.put(entry)
            })
            .unwrap_or(Ok(()))?;
        }
        Ok(())
    }

    /// A socket leaves those of its rings that are in `mask`.
    pub(super) fn part(&self, directory: &Directory, gone: &Attached, mask: u64, linger: bool) {
        for index in bits(gone.mask & mask) {
            self.ring(index).part(gone.wants.port, &gone.socket, linger);
        }
        if directory.rings.several {
            // The others of its port have one rival less.
            let _ = self.level(directory, gone.wants.port, gone.mask);
        }
    }

    /// Where an interface has several rings, each that has a socket of the port knows all
    /// others of the port, to give each datagram to the right one. `touched`: rings of the
    /// interfaces that something has changed on.
    pub(super) fn level(
        &self,
        directory: &Directory,
        port: u16,
        touched: u64,
    ) -> Result<(), Reason> {
        let list = directory.sockets.port(port);
        let all = list.iter().fold(touched, |mask, a| mask | a.mask);
        let ifindexes: Vec<u32> = self.rings_of(touched).map(|r| r.ifindex).collect();
        for index in bits(all) {
            let ring = self.ring(index);
            if !ifindexes.contains(&ring.ifindex) {
                continue;
            }
            let on = |a: &&Attached| self.rings_of(a.mask).any(|r| r.ifindex == ring.ifindex);
            let entries: Vec<_> = list
                .iter()
                .filter(on)
                .map(|a| entry_for(ring, a, a.place(index)))
                .collect();
            let entries = if entries.iter().all(|e| e.place == Place::Elsewhere) {
                Vec::new()
            } else {
                entries
            };
            ring.with(|state| {
                ring.drain_locked(state);
                state.sharing = directory.mixed.now.clone();
                state.set_port(port, entries)
            })
            .unwrap_or(Ok(()))?;
        }
        Ok(())
    }
}

fn entry_for(ring: &Ring, attached: &Attached, place: Place) -> Entry<Arc<UdpSocket>> {
    let wants = if ring.delivery == Delivery::Steered && attached.wants.since != 0 {
        // What it brings the kernel did not get, however old it is.
        Arc::new(Wants {
            since: 0,
            ..(*attached.wants).clone()
        })
    } else {
        Arc::clone(&attached.wants)
    };
    Entry {
        target: Arc::clone(&attached.socket),
        wants,
        place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{HeaderTemplate, TemplateSpec};
    use std::net::SocketAddrV4;

    const GROUP: Ipv4Addr = Ipv4Addr::new(239, 0, 0, 1);

    fn frame(port: u16, payload: &[u8]) -> Vec<u8> {
        let template = HeaderTemplate::new(&TemplateSpec {
            src_mac: [2; 6],
            dst_mac: [1, 0, 0x5e, 0, 0, 1],
            src: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 9), 5),
            dst: SocketAddrV4::new(GROUP, port),
            ttl: 1,
            tos: 0,
            dont_fragment: true,
            udp_checksum: false,
        });
        let mut frame = vec![0; 42 + payload.len()];
        assert_eq!(template.build(&mut frame, &[payload], 0), Some(frame.len()));
        frame
    }

    fn twins() -> Twins {
        Twins::of(&[Flow {
            destination: GROUP,
            port: 7,
            peer: None,
            shared: true,
        }])
    }

    fn kept(twins: &mut Twins, frames: &[Vec<u8>]) -> usize {
        frames.iter().filter(|f| !twins.is_second(f)).count()
    }

    #[test]
    fn each_of_a_pair_once() {
        let (a, b) = (frame(7, b"a"), frame(7, b"b"));
        let pairs = [a.clone(), a.clone(), b.clone(), b.clone()];
        assert_eq!(kept(&mut twins(), &pairs), 2);
        // Single ones before and after; equal ones that were sent twice.
        let more = [b.clone(), a.clone(), a.clone(), a.clone(), a.clone(), b];
        assert_eq!(kept(&mut twins(), &more), 4);
        // Other flows in between do not matter, nor are they touched.
        let other = frame(8, b"a");
        let mixed = [a.clone(), other.clone(), other.clone(), a, other];
        assert_eq!(kept(&mut twins(), &mixed), 4);
    }
}
