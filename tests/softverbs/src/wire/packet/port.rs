//! The interface's side: the maps that all processes share, this process's program and link.

use super::bpf::{self, Kind};
use super::layout::{BANKS, Bank, QUEUES, RULES, Shared, Slot};
use super::program::{Maps, assemble};
use super::ring::{Ring, size_for};
use crate::flow::{Entry, Table};
use crate::wire::Rule;
use crate::wire::syscall::{Fd, Mapping, call};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, getpid};
use std::sync::atomic::Ordering;

/// Name of the program; the number counts layouts of the shared value.
const PROGRAM: &str = "softverbs1";
const MAPS: [&str; 3] = ["sv_table", "sv_queues", "sv_alive"];
const MEMBARRIER_GLOBAL: usize = 1;

/// Held by the one who changes maps of this network namespace; the kernel lets go of it when
/// the process ends. Opened each time: a forked child shares nothing of it.
struct Lock(Fd);

impl Lock {
    fn take() -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let namespace = Fd::own(open("/proc/thread-self/ns/net", flags, Mode::empty())?)?;
        flock(&namespace, FlockOperation::LockExclusive)?;
        Ok(Self(namespace))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// One interface as this process sees it.
pub(super) struct Port {
    shared: Mapping,
    queues: Fd,
    alive: Fd,
    /// In the map of the living for each queue of ours; leaves it when this process is gone.
    token: Fd,
    _peer: Fd,
    program: Fd,
    /// Keeps the program at the interface.
    link: Option<Fd>,
    /// A forked child takes nothing away.
    process: Pid,
}

impl Port {
    /// Joins the interface's other processes, or is the first.
    pub(super) fn open(interface: u32) -> Result<Self, Errno> {
        let _lock = Lock::take()?;
        let mut maps = None;
        for id in bpf::attached(interface)? {
            maps = bpf::maps_of(id, PROGRAM, MAPS)?;
            if maps.is_some() {
                break;
            }
        }
        let maps = match maps {
            Some(maps) => maps,
            None => Self::create()?,
        };
        let mut port = Self::load(maps)?;
        port.link = Some(bpf::attach(port.program.raw(), interface)?);
        Ok(port)
    }

    /// This process's program for a set of maps, attached to nothing.
    pub(super) fn load([table, queues, alive]: [Fd; 3]) -> Result<Self, Errno> {
        let program = assemble(Maps {
            table: table.raw(),
            queues: queues.raw(),
            alive: alive.raw(),
        });
        let program = bpf::load(PROGRAM, &program, &mut [])?;
        let (token, peer) = socketpair(
            AddressFamily::UNIX,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok(Self {
            shared: Mapping::new(
                table.raw(),
                0,
                size_of::<Shared>().next_multiple_of(4096),
                true,
            )?,
            queues,
            alive,
            token: Fd::own(token)?,
            _peer: Fd::own(peer)?,
            program,
            link: None,
            process: getpid(),
        })
    }

    pub(super) fn create() -> Result<[Fd; 3], Errno> {
        let pattern = bpf::create_map(Kind::Ring, "sv_ring", 0, 4096)?;
        Ok([
            bpf::create_map(Kind::Shared, MAPS[0], size_of::<Shared>(), 1)?,
            bpf::create_map(Kind::Maps(pattern.raw()), MAPS[1], 4, QUEUES)?,
            bpf::create_map(Kind::Sockets, MAPS[2], 8, QUEUES)?,
        ])
    }

    fn shared(&self) -> &Shared {
        // SAFETY: the mapping has the size of the value, is page aligned and lives as long as
        // self; any bits are a valid Shared. What others write is behind atomics or the lock.
        unsafe { &*self.shared.start().cast::<Shared>() }
    }

    /// What program and queue tell each other.
    pub(super) fn slot(&self, queue: u32) -> &Slot {
        &self.shared().slots[queue as usize % QUEUES]
    }

    fn table(&self) -> Table {
        let shared = self.shared();
        let bank = &shared.banks[shared.active.load(Ordering::Acquire) as usize % BANKS];
        let count = (bank.count.load(Ordering::Relaxed) as usize).min(RULES);
        let mut table = Table::from_entries(bank.entries[..count].to_vec(), RULES);
        let mut alive = [None; QUEUES];
        table.retain(|entry| {
            *alive[entry.queue as usize % QUEUES]
                .get_or_insert_with(|| bpf::is_taken(self.alive.raw(), entry.queue))
        });
        table
    }

    /// Makes a queue look as if its process had died, for tests.
    #[cfg(test)]
    pub(super) fn forget(&self, slot: u32) {
        bpf::delete(self.alive.raw(), slot).expect("an open queue");
    }

    /// The program, for tests.
    #[cfg(test)]
    pub(super) fn program(&self) -> &Fd {
        &self.program
    }

    /// Puts a table in force. Under the lock.
    fn publish(&self, table: &Table) {
        let shared = self.shared();
        let active = shared.active.load(Ordering::Relaxed);
        // A program may still be reading any bank that was in force a moment ago.
        if shared.changes.fetch_add(1, Ordering::Relaxed) as usize + 2 >= BANKS {
            // SAFETY: integers only. It returns after a grace period.
            let _ = unsafe { call(libc::SYS_membarrier, [MEMBARRIER_GLOBAL, 0, 0, 0, 0, 0]) };
            shared.changes.store(0, Ordering::Relaxed);
        }
        let next = active.wrapping_add(1);
        let bank = (&raw const shared.banks[next as usize % BANKS]).cast_mut();
        let entries = table.entries();
        // SAFETY: the value is mapped writable; we hold the lock, and after the grace period above
        // no program reads this bank.
        let room = unsafe { (&raw mut (*bank).entries).cast::<Entry>() };
        // SAFETY: a table holds at most RULES entries.
        unsafe { std::ptr::copy_nonoverlapping(entries.as_ptr(), room, entries.len()) };
        let bank: &Bank = &shared.banks[next as usize % BANKS];
        bank.count.store(entries.len() as u32, Ordering::Relaxed);
        // Pairs with the program's load: x86 keeps its loads in order.
        shared.active.store(next, Ordering::Release);
    }

    /// Makes a ring and gives it a number.
    pub(super) fn open_queue(&self, depth: usize, frame: usize) -> Result<(u32, Fd, Ring), Errno> {
        let size = size_for(depth, frame);
        let fd = bpf::create_map(Kind::Ring, "sv_ring", 0, size)?;
        let ring = Ring::map(fd.raw(), size)?;
        let _lock = Lock::take()?;
        let slot = (0..QUEUES as u32)
            .find(|&slot| !bpf::is_taken(self.alive.raw(), slot))
            .ok_or(Errno::NOMEM)?;
        // Rules that a dead process left to this number.
        let table = self.table();
        if table.entries().len() as u32 != self.rule_count() {
            self.publish(&table);
        }
        bpf::update(self.queues.raw(), slot, &(fd.raw() as u32))?;
        self.slot(slot).armed.store(0, Ordering::Relaxed);
        self.slot(slot).lost.store(0, Ordering::Relaxed);
        bpf::update(self.alive.raw(), slot, &(self.token.raw() as u64))?;
        Ok((slot, fd, ring))
    }

    fn rule_count(&self) -> u32 {
        let shared = self.shared();
        let active = shared.active.load(Ordering::Acquire) as usize;
        shared.banks[active % BANKS].count.load(Ordering::Relaxed)
    }

    /// Takes a queue and its rules away.
    pub(super) fn close_queue(&self, slot: u32) {
        if getpid() != self.process {
            return;
        }
        let Ok(_lock) = Lock::take() else { return };
        let mut table = self.table();
        table.retain(|entry| entry.queue != slot);
        if table.entries().len() as u32 != self.rule_count() {
            self.publish(&table);
        }
        let _ = bpf::delete(self.alive.raw(), slot);
        let _ = bpf::delete(self.queues.raw(), slot);
    }

    /// Adds a rule; its name.
    pub(super) fn attach(&self, slot: u32, rule: &Rule) -> Result<u64, Errno> {
        let _lock = Lock::take()?;
        let id = self.shared().last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut table = self.table();
        table.insert(id, slot, 0, rule).map_err(|_| Errno::NOMEM)?;
        self.publish(&table);
        Ok(id)
    }

    /// Removes a rule.
    pub(super) fn detach(&self, id: u64) {
        let Ok(_lock) = Lock::take() else { return };
        let mut table = self.table();
        if table.remove(id) {
            self.publish(&table);
        }
    }
}
