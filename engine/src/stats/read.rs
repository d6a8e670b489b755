//! The reader's side, for other processes: plain copies of a process's statistics.
//!
//! Nothing is mapped: a file that somebody cuts short would be SIGBUS, so it is copied
//! with pread(2). Nothing in the file is trusted; a hostile one gives wrong numbers or
//! an error. Must never write to the file.

use super::layout::{
    Area, Header, IomuxBlock, LIVE, Line, MAGIC, MAX_SOCKETS, Plan, RingBlock, SocketBlock, VERSION,
};
use super::table::{
    IomuxEventsValues, ProcessTotalsValues, RingRxValues, RingTxValues, RingUpkeepValues,
    SocketLifeValues, SocketQueueValues, SocketRxOsValues, SocketRxValues, SocketTxOsValues,
    SocketTxValues,
};
use super::{IomuxKind, file_path, start_ticks};
use crate::error::{Errno, Reason};
use crate::sys::shm::File;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddr};
use core::sync::atomic::Ordering::Relaxed;

/// Copies taken in the hope of one that no setter was at work on.
const TRIES: usize = 64;
/// After so many a setter has lost its core: it gets time.
const HASTY: usize = 16;

/// Why there are no statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// No process has this pid.
    NoSuchProcess(u32),
    /// The process lives, but has no file.
    NoStatistics(u32, String),
    /// The file is not ours to read.
    Permission(u32),
    /// Made by another build.
    OtherLayout {
        /// Process.
        pid: u32,
        /// Its version of the layout.
        found: u32,
    },
    /// The process of the file is gone.
    Finished(u32),
    /// The file is no statistics file.
    Damaged(u32, &'static str),
    /// The system refused.
    System(u32, Errno),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchProcess(pid) => write!(f, "there is no process {pid}"),
            Self::NoStatistics(pid, directory) => write!(
                f,
                "process {pid} has no statistics in {directory}: \
                 it does not run under libshim, or has opened no UDP socket yet"
            ),
            Self::Permission(pid) => write!(
                f,
                "no permission to read the statistics of process {pid}: \
                 only its user and root may"
            ),
            Self::OtherLayout { pid, found } if *found == VERSION => write!(
                f,
                "the libshim in process {pid} counts other things than this program: \
                 use the shim-stats of the same build"
            ),
            Self::OtherLayout { pid, found } => write!(
                f,
                "the libshim in process {pid} writes statistics of version {found}, \
                 this program reads version {VERSION}: use the shim-stats of the same build"
            ),
            Self::Finished(pid) => write!(f, "the process {pid} of the statistics has finished"),
            Self::Damaged(pid, what) => {
                write!(f, "the statistics file of process {pid} is damaged: {what}")
            }
            Self::System(pid, errno) => {
                write!(f, "cannot read the statistics of process {pid}: {errno}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// Everything at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Process.
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// When its statistics began, in nanoseconds since 1970.
    pub since: u64,
    /// The process has ended; these are its last values.
    pub ended: bool,
    /// Open UDP sockets, by descriptor.
    pub sockets: Vec<SocketSnapshot>,
    /// Rings.
    pub rings: Vec<RingSnapshot>,
    /// poll, select, epoll objects that were used.
    pub iomuxes: Vec<IomuxSnapshot>,
    /// Totals.
    pub process: ProcessTotalsValues,
}

impl Snapshot {
    /// The same with what was counted since `earlier`; what was not there then is
    /// counted from zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut delta = self.clone();
        for now in &mut delta.sockets {
            let same =
                |old: &&SocketSnapshot| (old.slot, old.generation) == (now.slot, now.generation);
            if let Some(old) = earlier.sockets.iter().find(same) {
                now.rx = now.rx.since(&old.rx);
                now.queue = now.queue.since(&old.queue);
                now.rx_os = now.rx_os.since(&old.rx_os);
                now.tx = now.tx.since(&old.tx);
                now.tx_os = now.tx_os.since(&old.tx_os);
                now.life = now.life.since(&old.life);
            }
        }
        for now in &mut delta.rings {
            let same =
                |old: &&RingSnapshot| (old.slot, old.generation) == (now.slot, now.generation);
            if let Some(old) = earlier.rings.iter().find(same) {
                now.rx = now.rx.since(&old.rx);
                now.upkeep = now.upkeep.since(&old.upkeep);
                now.tx = now.tx.since(&old.tx);
            }
        }
        for now in &mut delta.iomuxes {
            let same =
                |old: &&IomuxSnapshot| (old.slot, old.generation) == (now.slot, now.generation);
            if let Some(old) = earlier.iomuxes.iter().find(same) {
                now.events = now.events.since(&old.events);
            }
        }
        delta.process = delta.process.since(&earlier.process);
        delta
    }
}

/// One UDP socket.
#[derive(Clone, Debug, Default)]
pub struct SocketSnapshot {
    /// Descriptor.
    pub fd: i32,
    /// Tells it from an earlier socket in the same block.
    pub generation: u32,
    /// Number of the block.
    pub slot: usize,
    /// AF_INET or AF_INET6.
    pub family: u32,
    /// The engine serves it, or sends for it at least.
    pub accelerated: bool,
    /// Why not; of an accelerated one why the kernel receives.
    pub reason: Option<Reason>,
    /// Local address.
    pub local: Option<SocketAddr>,
    /// Connected peer.
    pub peer: Option<SocketAddr>,
    /// Without O_NONBLOCK.
    pub blocking: bool,
    /// IP_MULTICAST_LOOP.
    pub mc_loop: bool,
    /// Number of joined groups.
    pub group_count: u32,
    /// The first of them, with interface index.
    pub groups: Vec<(Ipv4Addr, u32)>,
    /// Inode of the kernel's socket.
    pub inode: u64,
    /// From the engine.
    pub rx: SocketRxValues,
    /// Receive queue.
    pub queue: SocketQueueValues,
    /// From the kernel.
    pub rx_os: SocketRxOsValues,
    /// By the engine.
    pub tx: SocketTxValues,
    /// By the kernel.
    pub tx_os: SocketTxOsValues,
    /// Rare events.
    pub life: SocketLifeValues,
}

/// One ring.
#[derive(Clone, Debug, Default)]
pub struct RingSnapshot {
    /// Number of the block.
    pub slot: usize,
    /// Tells it from an earlier ring in the same block.
    pub generation: u32,
    /// Interface.
    pub interface: String,
    /// Interface index.
    pub ifindex: u32,
    /// Backend.
    pub backend: String,
    /// The device behind the interface by its own name; empty: it has none.
    pub device: String,
    /// Whose ring it is: of the interface, an address, a socket, a thread or a core.
    pub key: String,
    /// Receive slots; 0: it only sends.
    pub rx_slots: u32,
    /// Transmit slots.
    pub tx_slots: u32,
    /// Receive.
    pub rx: RingRxValues,
    /// Keeping it alive.
    pub upkeep: RingUpkeepValues,
    /// Transmit.
    pub tx: RingTxValues,
}

/// One poll object.
#[derive(Clone, Debug)]
pub struct IomuxSnapshot {
    /// Number of the block.
    pub slot: usize,
    /// Tells it from an earlier object in the same block.
    pub generation: u32,
    /// What it is.
    pub kind: IomuxKind,
    /// Epoll descriptor.
    pub epfd: Option<i32>,
    /// Counters.
    pub events: IomuxEventsValues,
}

/// An opened statistics file.
#[derive(Debug)]
pub struct Reader {
    pid: u32,
    file: File,
    plan: Plan,
    ticks: u64,
}

impl Reader {
    /// Opens the statistics of a running process.
    ///
    /// # Errors
    /// [`ReadError`], each with its cause.
    pub fn open(directory: &str, pid: u32) -> Result<Self, ReadError> {
        let damaged = |what| ReadError::Damaged(pid, what);
        let path = file_path(directory, pid).ok_or(damaged("the path holds a zero byte"))?;
        let file = File::open(&path).map_err(|errno| match errno {
            Errno(libc::ENOENT | libc::ENOTDIR) if start_ticks(pid).is_none() => {
                ReadError::NoSuchProcess(pid)
            }
            Errno(libc::ENOENT | libc::ENOTDIR) => {
                ReadError::NoStatistics(pid, directory.to_owned())
            }
            Errno(libc::EACCES | libc::EPERM) => ReadError::Permission(pid),
            Errno(libc::ELOOP) => damaged("it is a symbolic link"),
            Errno::INVAL => damaged("it is not a regular file"),
            errno => ReadError::System(pid, errno),
        })?;
        let mut bytes = [0; size_of::<Header>()];
        let len = file
            .read_at(&mut bytes, 0)
            .map_err(|e| ReadError::System(pid, e))?;
        let lines = Line::copy(&bytes[..len]);
        let header = Area::header_of(&lines).ok_or(damaged("it is too short"))?;
        if header.magic.load(Relaxed) != MAGIC {
            return Err(damaged("it does not begin as one"));
        }
        if header.pid.load(Relaxed) != pid {
            return Err(damaged("it belongs to another process"));
        }
        let ticks = header.start_ticks.load(Relaxed);
        if header.alive.load(Relaxed) == 0 || !lives(pid, ticks) {
            return Err(ReadError::Finished(pid));
        }
        let found = header.version.load(Relaxed);
        let plan = Plan::described_by(header).ok_or(ReadError::OtherLayout { pid, found })?;
        debug_assert!(plan.total() <= Plan::new(MAX_SOCKETS).total());
        Ok(Self {
            pid,
            file,
            plan,
            ticks,
        })
    }

    /// Whose statistics these are.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Copies everything. Where the process has ended these are its last values.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] if the file was cut short, [`ReadError::System`].
    pub fn snapshot(&self) -> Result<Snapshot, ReadError> {
        // Asked before the copy, so that `ended` never comes with values that are not
        // the last ones.
        let ended = self.ended();
        // A socket's state in the second copy is whole if its sequence number is even
        // and the same in the copies before and after.
        let mut copies = [self.copy()?, self.copy()?, self.copy()?];
        for attempt in 0..TRIES {
            if settled(&self.area(&copies[0]), &self.area(&copies[2])) {
                break;
            }
            if attempt >= HASTY {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            copies.rotate_left(1);
            copies[2] = self.copy()?;
        }
        Ok(self.snapshot_of(&self.area(&copies[1]), ended))
    }

    /// The whole file; a shorter one is an error.
    fn copy(&self) -> Result<Box<[Line]>, ReadError> {
        let mut bytes = vec![0; self.plan.total()];
        let len = self
            .file
            .read_at(&mut bytes, 0)
            .map_err(|e| ReadError::System(self.pid, e))?;
        if len < bytes.len() {
            return Err(ReadError::Damaged(self.pid, "it is too short"));
        }
        Ok(Line::copy(&bytes))
    }

    fn area<'a>(&self, copy: &'a [Line]) -> Area<'a> {
        Area::of_copy(copy, self.plan).expect("copied with the plan's length")
    }

    /// The file is unlinked at exit and replaced by exec; a killed process leaves it.
    fn ended(&self) -> bool {
        self.file.stat().is_ok_and(|stat| stat.st_nlink == 0) || !lives(self.pid, self.ticks)
    }

    fn snapshot_of(&self, area: &Area<'_>, ended: bool) -> Snapshot {
        let mut sockets: Vec<_> = area.sockets.iter().enumerate().filter_map(socket).collect();
        sockets.sort_by_key(|socket| socket.fd);
        Snapshot {
            pid: self.pid,
            program: area.header.program.get(),
            since: area.header.since.load(Relaxed),
            ended: ended || area.header.alive.load(Relaxed) == 0,
            sockets,
            rings: area.rings.iter().enumerate().filter_map(ring).collect(),
            iomuxes: area.iomuxes.iter().enumerate().filter_map(iomux).collect(),
            process: area.process.totals.values(),
        }
    }
}

/// The process with this pid is still the one that started at `ticks` (0: unknown).
fn lives(pid: u32, ticks: u64) -> bool {
    start_ticks(pid).is_some_and(|now| ticks == 0 || now == ticks)
}

fn settled(before: &Area<'_>, after: &Area<'_>) -> bool {
    before
        .sockets
        .iter()
        .zip(after.sockets)
        .all(|(before, after)| {
            let sequence = before.state.sequence.load(Relaxed);
            sequence.is_multiple_of(2) && sequence == after.state.sequence.load(Relaxed)
        })
}

fn socket((slot, block): (usize, &SocketBlock)) -> Option<SocketSnapshot> {
    let state = &block.state;
    if state.in_use.load(Relaxed) != LIVE {
        return None;
    }
    Some(SocketSnapshot {
        fd: state.fd.load(Relaxed) as i32,
        generation: state.generation.load(Relaxed),
        slot,
        family: state.family.load(Relaxed),
        accelerated: state.accelerated.load(Relaxed) == 1,
        reason: Reason::from_code(state.reason.load(Relaxed)),
        local: state.local.get(),
        peer: state.peer.get(),
        blocking: state.blocking.load(Relaxed) != 0,
        mc_loop: state.mc_loop.load(Relaxed) != 0,
        group_count: state.group_count.load(Relaxed),
        groups: state.groups().collect(),
        inode: state.inode.load(Relaxed),
        rx: block.rx.values(),
        queue: block.queue.values(),
        rx_os: block.rx_os.values(),
        tx: block.tx.values(),
        tx_os: block.tx_os.values(),
        life: block.life.values(),
    })
}

fn ring((slot, block): (usize, &RingBlock)) -> Option<RingSnapshot> {
    let state = &block.state;
    (state.in_use.load(Relaxed) == LIVE).then(|| RingSnapshot {
        slot,
        generation: state.generation.load(Relaxed),
        interface: state.interface.get(),
        ifindex: state.ifindex.load(Relaxed),
        backend: state.backend.get(),
        device: state.device.get(),
        key: state.key.get(),
        rx_slots: state.rx_slots.load(Relaxed),
        tx_slots: state.tx_slots.load(Relaxed),
        rx: block.rx.values(),
        upkeep: block.upkeep.values(),
        tx: block.tx.values(),
    })
}

fn iomux((slot, block): (usize, &IomuxBlock)) -> Option<IomuxSnapshot> {
    let state = &block.state;
    if state.in_use.load(Relaxed) != LIVE {
        return None;
    }
    let (kind, epfd) = match state.kind.load(Relaxed) {
        0 => (IomuxKind::Poll, None),
        1 => (IomuxKind::Select, None),
        2 => (IomuxKind::Epoll, Some(state.epfd.load(Relaxed) as i32)),
        _ => return None,
    };
    let generation = state.generation.load(Relaxed);
    Some(IomuxSnapshot {
        slot,
        generation,
        kind,
        epfd,
        events: block.events.values(),
    })
}

#[cfg(test)]
mod tests;
