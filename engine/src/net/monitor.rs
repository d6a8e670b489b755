//! The socket that hears of every change, and the tables' first filling.
//!
//! Owns the order that loses nothing: subscribe, then dump, then take the events that
//! came meanwhile; events are idempotent. Where the kernel had to drop events
//! (ENOBUFS), everything is dumped again. Without group events (before Linux 6.14)
//! memberships are read from /proc when they are older than [`GROUPS_AGE`].

use super::event::{Event, Message, messages};
use super::group::{Membership, read_memberships};
use super::request::{self, Failure, Mode, Requests};
use super::tables::{Changes, Tables};
use crate::clock::Nanos;
use crate::error::Errno;
use crate::sys::netlink::{DATAGRAM_MAX, Socket};
use netlink_packet_route::RouteNetlinkMessage;
use std::os::fd::{AsRawFd, RawFd};

/// RTNLGRP_* of linux/rtnetlink.h without which there is no monitor: LINK, NEIGH,
/// IPV4_IFADDR, IPV4_ROUTE, IPV4_RULE.
const NEEDED: [u32; 5] = [1, 3, 5, 7, 8];
/// RTNLGRP_NEXTHOP, since Linux 5.3.
const NEXTHOP: u32 = 32;
/// RTNLGRP_IPV4_MCADDR, since Linux 6.14.
const IPV4_MCADDR: u32 = 37;

/// How old memberships may become where no event tells of them.
pub const GROUPS_AGE: Nanos = 100_000_000;

/// How often an interrupted dump is begun anew before what came is taken.
const DUMP_TRIES: usize = 5;
/// Datagrams taken at one time, so that a storm of events does not hold the caller.
const BATCH: usize = 256;
const RECEIVE_BUFFER: i32 = 1 << 20;

/// Hears of changes.
#[derive(Debug)]
pub struct Monitor {
    events: Socket,
    requests: Requests,
    buffer: Vec<u8>,
    group_events: bool,
    groups_read: Nanos,
    /// A dump failed; the tables are not to be trusted until one succeeds.
    incomplete: bool,
}

impl Monitor {
    /// Opens the sockets and subscribes. From then on nothing is missed that a
    /// [`Monitor::dump`] does not show.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open() -> Result<Self, Errno> {
        let mut monitor = Self::open_without_group_events()?;
        monitor.group_events = monitor.events.subscribe(IPV4_MCADDR).is_ok();
        Ok(monitor)
    }

    /// The same as it is on a kernel that announces no joins and leaves.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open_without_group_events() -> Result<Self, Errno> {
        let events = Socket::open()?;
        // Best effort: a small buffer only means that more is dumped anew.
        let _ = events.set_receive_buffer(RECEIVE_BUFFER);
        for group in NEEDED {
            events.subscribe(group)?;
        }
        let _ = events.subscribe(NEXTHOP);
        Ok(Self {
            events,
            requests: Requests::open()?,
            buffer: vec![0; DATAGRAM_MAX],
            group_events: false,
            groups_read: 0,
            incomplete: true,
        })
    }

    /// Readable when there is something to [`Monitor::receive`].
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    /// Whether joins and leaves are told by events. If not, call
    /// [`Monitor::refresh_groups`] before relying on memberships.
    #[must_use]
    pub fn has_group_events(&self) -> bool {
        self.group_events
    }

    /// Fills the tables anew. On an error they are what they were.
    ///
    /// # Errors
    /// The kernel's; the next [`Monitor::receive`] tries again.
    pub fn dump(&mut self, tables: &mut Tables) -> Result<(), Errno> {
        self.incomplete = true;
        let mut fresh = Tables::new();
        for request in [request::links, request::addresses, request::neighbors] {
            self.dump_into(&mut fresh, request)?;
        }
        self.dump_groups(&mut fresh)?;
        *tables = fresh;
        self.incomplete = false;
        Ok(())
    }

    /// Takes in what has happened; never waits. Call again while [`Monitor::fd`] is
    /// readable.
    ///
    /// # Errors
    /// The kernel's, if it refuses a dump that has become necessary.
    pub fn receive(&mut self, tables: &mut Tables) -> Result<Changes, Errno> {
        let mut changes = Changes::NONE;
        for _ in 0..BATCH {
            let received = match self.events.receive(&mut self.buffer, false) {
                Ok(received) => received,
                Err(Errno::AGAIN) => break,
                Err(Errno(libc::ENOBUFS)) => {
                    self.incomplete = true;
                    continue;
                }
                Err(errno) => return Err(errno),
            };
            if !received.from_kernel {
                continue;
            }
            self.incomplete |= received.truncated;
            for (_, message) in messages(&self.buffer[..received.len]) {
                match message {
                    Message::Event(event) => changes |= tables.apply(event),
                    Message::Route(_) => changes |= tables.apply(Event::Routes),
                    Message::Overrun => self.incomplete = true,
                    Message::Done(_) | Message::Ignored => {}
                }
            }
        }
        if self.incomplete {
            self.dump(tables)?;
            changes = Changes::ALL;
        }
        Ok(changes)
    }

    /// Reads the memberships where no event tells of them and they are too old.
    ///
    /// # Errors
    /// The kernel's, ENOENT without procfs.
    pub fn refresh_groups(&mut self, tables: &mut Tables, now: Nanos) -> Result<Changes, Errno> {
        let age = now.saturating_sub(self.groups_read);
        if self.group_events || (self.groups_read != 0 && age < GROUPS_AGE) {
            return Ok(Changes::NONE);
        }
        self.groups_read = now;
        Ok(tables.set_memberships(memberships()?))
    }

    fn dump_into(
        &mut self,
        tables: &mut Tables,
        request: fn() -> RouteNetlinkMessage,
    ) -> Result<(), Errno> {
        for _ in 0..DUMP_TRIES {
            let answer = self.requests.ask(request(), Mode::Dump, |message| {
                if let Message::Event(event) = message {
                    tables.apply(event);
                }
            });
            match answer {
                Ok(()) => return Ok(()),
                Err(Failure::Inconsistent) => {}
                Err(Failure::Errno(errno)) => return Err(errno),
            }
        }
        // What is missing or too much changed while we asked, so its event is waiting.
        Ok(())
    }

    /// By netlink where it can (Linux 6.15), else from /proc.
    fn dump_groups(&mut self, tables: &mut Tables) -> Result<(), Errno> {
        let mut groups = Vec::new();
        let answer = self.requests.ask_groups(|message| {
            if let Message::Event(Event::Joined(membership)) = message {
                groups.push(membership);
            }
        });
        // None at all is no answer either: every interface that is up is in 224.0.0.1.
        if answer.is_err() || groups.is_empty() {
            match memberships() {
                Ok(read) => groups = read,
                Err(_) if answer.is_ok() => {}
                Err(errno) => return Err(errno),
            }
        }
        tables.set_memberships(groups);
        Ok(())
    }
}

/// The groups of the host, from procfs.
///
/// # Errors
/// The kernel's, ENOENT without procfs.
fn memberships() -> Result<Vec<Membership>, Errno> {
    Ok(read_memberships()?
        .into_iter()
        .map(|(membership, _)| membership)
        .collect())
}
