//! Who takes part in a switch: joining, leaving, and clearing up after the dead.

use super::layout::{FILE, MAGIC, MEMBERS, Member, PORTS, QUEUES, Shared, WINDOW, WINDOWS};
use super::ring::{PRODUCER_MAX, Window, capacity_for, needed};
use crate::wire::Rule;
use crate::wire::syscall::{Fd, Mapping};
use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, flock, fstat, ftruncate, mknodat, open,
    unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Pid, getpid};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

const DIRECTORY: &str = "/dev/shm";
const PREFIX: &str = "softverbs.";
const LOCK: &str = ".lock";

/// When a process started; `None` when there is none, or it is a corpse.
fn started(pid: u32) -> Option<u64> {
    let path = format!("/proc/{pid}/stat");
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let fd = Fd::own(open(path, flags, Mode::empty()).ok()?).ok()?;
    let mut buffer = [0u8; 1024];
    let len = rustix::io::read(&fd, &mut buffer).ok()?;
    // The name may hold anything; what follows its last parenthesis starts with field 3.
    let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
    let mut fields = text[text.rfind(')')? + 1..].split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Whether a member's process is there.
fn is_alive(member: &Member) -> bool {
    let since = started(member.pid.load(Ordering::Relaxed));
    since == Some(member.started.load(Ordering::Relaxed))
}

mod sweep;

/// Where the files of a switch are.
#[derive(Clone, Debug)]
pub(super) struct Paths(String);

impl Paths {
    fn new(switch: &str) -> Result<Self, Errno> {
        if switch.is_empty() || switch.contains('/') || switch.len() > 100 {
            return Err(Errno::INVAL);
        }
        Ok(Self(format!("{DIRECTORY}/{PREFIX}{switch}")))
    }

    /// The shared memory.
    pub(super) fn memory(&self) -> &str {
        &self.0
    }

    fn lock(&self) -> String {
        format!("{}{LOCK}", self.0)
    }

    /// The pipe that wakes a queue's consumer.
    pub(super) fn pipe(&self, queue: u32) -> String {
        format!("{}.{queue}", self.0)
    }
}

fn remove(path: &str) {
    let _ = unlinkat(CWD, path, AtFlags::empty());
}

/// The right to change what is shared.
struct Lock(Fd);

impl Lock {
    fn take(paths: &Paths) -> Result<Self, Errno> {
        loop {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
            let fd = Fd::own(open(paths.lock(), flags, Mode::RUSR | Mode::WUSR)?)?;
            flock(&fd, FlockOperation::LockExclusive)?;
            // The last to leave removes the file: then this is not the one that others take.
            if fstat(&fd)?.st_nlink > 0 {
                return Ok(Self(fd));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // By name, for a forked child may have a copy of the descriptor.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// The pipe to a queue of that generation.
type Pipe = (u32, Fd);

/// One process's membership with one interface.
pub(super) struct Membership {
    paths: Paths,
    file: Fd,
    shared: Mapping,
    windows: Box<[OnceLock<Window>]>,
    /// Pipes to sleeping consumers, with the generation of the queue.
    pipes: Box<[Mutex<Option<Pipe>>]>,
    id: u32,
    port: usize,
    process: Pid,
}

/// A queue of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueId {
    /// Its number.
    pub(super) number: u32,
    /// Counts the owners of that number.
    pub(super) generation: u32,
}

impl Membership {
    /// Joins the switch, making it if nobody is there.
    pub(super) fn join(switch: &str, address: [u8; 6]) -> Result<Self, Errno> {
        let paths = Paths::new(switch)?;
        sweep::sweep(&paths);
        let _lock = Lock::take(&paths)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = Fd::own(open(paths.memory(), flags, Mode::RUSR | Mode::WUSR)?)?;
        if fstat(&file)?.st_size != FILE as i64 {
            ftruncate(&file, 0)?;
            ftruncate(&file, FILE as u64)?;
        }
        let shared = Mapping::new(file.raw(), 0, WINDOWS, true)?;
        let mut member = Self {
            paths,
            file,
            shared,
            windows: (0..QUEUES).map(|_| OnceLock::new()).collect(),
            pipes: (0..QUEUES).map(|_| Mutex::new(None)).collect(),
            id: 0,
            port: 0,
            process: getpid(),
        };
        if member.shared().magic.load(Ordering::Acquire) == MAGIC {
            member.reap();
        }
        if !member.is_inhabited() {
            // Whatever the dead left, and whatever it was before.
            ftruncate(&member.file, 0)?;
            ftruncate(&member.file, FILE as u64)?;
            member.shared().magic.store(MAGIC, Ordering::Release);
        }
        member.enter(address)?;
        // What everybody reads for each frame, and this process's own table.
        let _ = member.shared.populate(4096 * 4, true);
        Ok(member)
    }

    fn is_inhabited(&self) -> bool {
        let shared = self.shared();
        shared.magic.load(Ordering::Acquire) == MAGIC
            && shared
                .members
                .iter()
                .any(|m| m.id.load(Ordering::Acquire) != 0)
    }

    fn enter(&mut self, address: [u8; 6]) -> Result<(), Errno> {
        let shared = self.shared();
        let wanted = address_word(address);
        let port = self
            .port_of(wanted)
            .or_else(|| self.port_of(0))
            .ok_or(Errno::NOMEM)?;
        let place = shared
            .members
            .iter()
            .find(|m| m.id.load(Ordering::Acquire) == 0)
            .ok_or(Errno::NOMEM)?;
        let pid = self.process.as_raw_nonzero().get() as u32;
        let mut id = shared.last_member.load(Ordering::Relaxed);
        loop {
            id = id % PRODUCER_MAX + 1;
            if !self.is_member(id) {
                break;
            }
        }
        shared.last_member.store(id, Ordering::Relaxed);
        place.pid.store(pid, Ordering::Relaxed);
        place
            .started
            .store(started(pid).ok_or(Errno::SRCH)?, Ordering::Relaxed);
        place.port.store(port as u32, Ordering::Relaxed);
        place.id.store(id, Ordering::Release);
        shared.addresses[port].store(wanted, Ordering::Release);
        (self.id, self.port) = (id, port);
        Ok(())
    }

    /// What all see.
    #[inline]
    pub(super) fn shared(&self) -> &Shared {
        // SAFETY: page aligned, of at least that size, and alive as long as self; all fields
        // that anybody writes are atomics, for which any bits do.
        unsafe { &*self.shared.start().cast::<Shared>() }
    }

    /// Files of the switch.
    pub(super) fn paths(&self) -> &Paths {
        &self.paths
    }

    /// The shared memory's descriptor.
    pub(super) fn file(&self) -> &Fd {
        &self.file
    }

    /// Our producer number.
    #[inline]
    pub(super) fn id(&self) -> u32 {
        self.id
    }

    /// Our port.
    #[inline]
    pub(super) fn port(&self) -> usize {
        self.port
    }

    /// Whether this is the process that joined, not a forked child of it.
    pub(super) fn is_ours(&self) -> bool {
        getpid() == self.process
    }

    /// Port of an address.
    #[inline]
    pub(super) fn port_of(&self, address: u64) -> Option<usize> {
        let addresses = &self.shared().addresses;
        (0..PORTS).find(|&port| addresses[port].load(Ordering::Acquire) == address)
    }

    /// Whether a member of that number is there.
    pub(super) fn is_member(&self, id: u32) -> bool {
        let members = &self.shared().members;
        members.iter().any(|m| m.id.load(Ordering::Acquire) == id)
    }

    /// Processes of the other members.
    pub(super) fn others(&self) -> Vec<Pid> {
        let shared = self.shared();
        let mut pids: Vec<Pid> = shared
            .members
            .iter()
            .filter(|m| m.id.load(Ordering::Acquire) != 0)
            .filter_map(|m| Pid::from_raw(m.pid.load(Ordering::Relaxed) as i32))
            .filter(|&pid| pid != self.process)
            .collect();
        pids.sort_unstable_by_key(|pid| pid.as_raw_nonzero());
        pids.dedup();
        pids
    }

    /// A queue's window.
    #[inline]
    pub(super) fn window(&self, queue: u32) -> Option<&Window> {
        let place = self.windows.get(queue as usize)?;
        match place.get() {
            Some(window) => Some(window),
            None => self.map_window(place, queue),
        }
    }

    #[cold]
    fn map_window<'a>(&self, place: &'a OnceLock<Window>, queue: u32) -> Option<&'a Window> {
        let offset = WINDOWS + queue as usize * WINDOW;
        let map = Mapping::new(self.file.raw(), offset, WINDOW, true).ok()?;
        let window = Window::new(map);
        window.populate();
        Some(place.get_or_init(|| window))
    }

    /// Makes an empty queue for at least `depth` frames of at most `frame` bytes.
    pub(super) fn open_queue(&self, depth: usize, frame: usize) -> Result<QueueId, Errno> {
        let capacity = capacity_for(depth, frame);
        if needed(capacity) > WINDOW / 2 {
            return Err(Errno::NOMEM);
        }
        let _lock = Lock::take(&self.paths)?;
        self.reap();
        for number in 0..QUEUES as u32 {
            let state = &self.shared().queues[number as usize];
            if state.owner.load(Ordering::Acquire) != 0 {
                continue;
            }
            let window = self.window(number).ok_or(Errno::NOMEM)?;
            // A producer that lives may still write what it claimed under the last owner.
            if window.claims().iter().any(|&id| self.is_member(id)) {
                continue;
            }
            let generation = state.generation.load(Ordering::Relaxed).wrapping_add(1);
            state.generation.store(generation, Ordering::Relaxed);
            window.reset(generation, capacity, depth);
            window.populate();
            let pipe = self.paths.pipe(number);
            remove(&pipe);
            mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
            state.owner.store(self.id, Ordering::Release);
            return Ok(QueueId { number, generation });
        }
        Err(Errno::NOMEM)
    }

    /// Removes a queue and its rules. Under the lock; each step may be the last.
    fn remove_queue(&self, number: u32) {
        let shared = self.shared();
        for table in &shared.tables {
            if table.version.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut rules = table.get();
            let before = rules.entries().len();
            rules.retain(|entry| entry.queue != number);
            if rules.entries().len() != before {
                table.put(&rules);
            }
        }
        if let Some(window) = self.window(number) {
            window.close();
        }
        remove(&self.paths.pipe(number));
        shared.queues[number as usize]
            .owner
            .store(0, Ordering::Release);
    }

    /// Removes a queue of ours.
    pub(super) fn close_queue(&self, queue: QueueId) {
        if !self.is_ours() {
            return;
        }
        let Ok(_lock) = Lock::take(&self.paths) else {
            return;
        };
        let state = &self.shared().queues[queue.number as usize];
        if state.owner.load(Ordering::Acquire) == self.id
            && state.generation.load(Ordering::Relaxed) == queue.generation
        {
            self.remove_queue(queue.number);
        }
    }

    /// Adds a rule to our port; its name.
    pub(super) fn attach(&self, queue: u32, rule: &Rule) -> Result<u64, Errno> {
        let _lock = Lock::take(&self.paths)?;
        let shared = self.shared();
        let id = shared.last_rule.fetch_add(1, Ordering::Relaxed) + 1;
        let state = shared.queues.get(queue as usize).ok_or(Errno::INVAL)?;
        let generation = state.generation.load(Ordering::Relaxed);
        let table = &shared.tables[self.port];
        let mut rules = table.get();
        rules
            .insert(id, queue, generation, rule)
            .map_err(|_| Errno::NOMEM)?;
        table.put(&rules);
        Ok(id)
    }

    /// Removes a rule of our port.
    pub(super) fn detach(&self, id: u64) {
        let Ok(_lock) = Lock::take(&self.paths) else {
            return;
        };
        let table = &self.shared().tables[self.port];
        let mut rules = table.get();
        if rules.remove(id) {
            table.put(&rules);
        }
    }

    /// Removes a member with all it had. Under the lock.
    fn remove_member(&self, index: usize) {
        let shared = self.shared();
        let member = &shared.members[index];
        let id = member.id.load(Ordering::Acquire);
        for number in 0..QUEUES as u32 {
            if shared.queues[number as usize].owner.load(Ordering::Acquire) == id {
                self.remove_queue(number);
            }
        }
        let port = member.port.load(Ordering::Relaxed);
        let shares = |(other, m): (usize, &Member)| {
            other != index
                && m.id.load(Ordering::Acquire) != 0
                && m.port.load(Ordering::Relaxed) == port
        };
        if !shared.members.iter().enumerate().any(shares) {
            shared.addresses[port as usize % PORTS].store(0, Ordering::Release);
        }
        member.id.store(0, Ordering::Release);
    }

    /// Removes the dead. Under the lock.
    fn reap(&self) {
        for (index, member) in self.shared().members.iter().enumerate() {
            if member.id.load(Ordering::Acquire) != 0 && !is_alive(member) {
                self.remove_member(index);
            }
        }
    }

    /// Removes the dead, and has our sleepers look whether one of them died over a frame.
    pub(super) fn bury(&self) {
        if let Ok(_lock) = Lock::take(&self.paths) {
            self.reap();
        }
        for (number, state) in (0..).zip(&self.shared().queues) {
            if state.owner.load(Ordering::Acquire) == self.id
                && let Some(window) = self.window(number)
                && window.header().armed.0.swap(0, Ordering::SeqCst) != 0
            {
                self.wake(number, state.generation.load(Ordering::Relaxed));
            }
        }
    }

    /// Wakes the consumer of a queue, which is asleep.
    #[cold]
    pub(super) fn wake(&self, queue: u32, generation: u32) {
        let Some(pipe) = self.pipes.get(queue as usize) else {
            return;
        };
        let mut pipe = pipe.lock();
        if pipe.as_ref().is_none_or(|(known, _)| *known != generation) {
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            *pipe = open(self.paths.pipe(queue), flags, Mode::empty())
                .and_then(Fd::own)
                .ok()
                .map(|fd| (generation, fd));
        }
        if let Some((_, fd)) = pipe.as_ref() {
            let _ = rustix::io::write(fd, &[1]);
        }
    }
}

/// An address as the ports have it.
#[inline]
pub(super) fn address_word(address: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = address;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

impl Drop for Membership {
    fn drop(&mut self) {
        if self.id == 0 || !self.is_ours() {
            return;
        }
        let Ok(_lock) = Lock::take(&self.paths) else {
            return;
        };
        for index in 0..MEMBERS {
            if self.shared().members[index].id.load(Ordering::Acquire) == self.id {
                self.remove_member(index);
            }
        }
        self.reap();
        if !self.is_inhabited() {
            remove(self.paths.memory());
            remove(&self.paths.lock());
        }
    }
}
