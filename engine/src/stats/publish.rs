//! The writer's side: the file of this process, and who gets which block.
//!
//! Handing out and taking back blocks is lock-free, so that a fork in another thread
//! leaves nothing locked. Blocks beyond the table are private memory, used again when
//! they are released. Must never write a file of another process: a forked child calls
//! [`Publisher::forget_in_child`] before anything else.

use super::layout::{
    Area, CLAIMED, FREE, IomuxBlock, LIVE, Line, Plan, ProcessBlock, RingBlock, SocketBlock,
};
use super::{IomuxKind, file_path, start_ticks};
use crate::error::{Errno, Reason};
use crate::sys::shm::{File, Mapping};
use core::ffi::CStr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use crossbeam::queue::SegQueue;
use rustix::fs::FileType;
use std::ffi::CString;

/// Statistics of this process. Dropping it leaves memory and file as they are: blocks
/// live as long as the process.
#[derive(Debug)]
pub struct Publisher {
    pid: u32,
    area: Area<'static>,
    file: Option<Published>,
    spare: &'static Spare,
}

/// Blocks for what finds no room in the file.
#[derive(Debug)]
struct Spare {
    sockets: Pool<SocketBlock>,
    rings: Pool<RingBlock>,
    iomuxes: Pool<IomuxBlock>,
}

/// Released blocks that are not in the file, and how many of those in it are free: a full
/// table is not searched.
#[derive(Debug)]
struct Pool<T: 'static> {
    free: SegQueue<&'static T>,
    listed: AtomicUsize,
}

impl<T> Pool<T> {
    fn new(listed: usize) -> Self {
        Self {
            free: SegQueue::new(),
            listed: AtomicUsize::new(listed),
        }
    }
}

/// What all handed-out blocks have in common.
trait Block: Default + Send + Sync + 'static {
    fn in_use(&self) -> &AtomicU32;
    fn generation(&self) -> &AtomicU32;
    fn clear(&self);

    /// Takes the block if it is free; pairs with the release in [`Block::release`].
    fn claim(&self) -> bool {
        if self.in_use().load(Relaxed) != FREE {
            return false;
        }
        if self
            .in_use()
            .compare_exchange(FREE, CLAIMED, Acquire, Relaxed)
            .is_err()
        {
            return false;
        }
        self.clear();
        self.generation().fetch_add(1, Relaxed);
        true
    }

    /// Shows the block to readers.
    fn show(&self) {
        self.in_use().store(LIVE, Release);
    }

    fn release(&self) {
        self.in_use().store(FREE, Release);
    }
}

impl Block for SocketBlock {
    fn in_use(&self) -> &AtomicU32 {
        &self.state.in_use
    }
    fn generation(&self) -> &AtomicU32 {
        &self.state.generation
    }
    fn clear(&self) {
        self.rx.clear();
        self.queue.clear();
        self.rx_os.clear();
        self.tx.clear();
        self.tx_os.clear();
        self.life.clear();
        self.update(|state| {
            for cell in [
                &state.family,
                &state.accelerated,
                &state.mc_loop,
                &state.group_count,
            ] {
                cell.store(0, Relaxed);
            }
            state.blocking.store(1, Relaxed);
            state.reason.store(Reason::NotBound.code(), Relaxed);
            state.inode.store(0, Relaxed);
            state.local.set(None);
            state.peer.set(None);
        });
    }
}

impl Block for RingBlock {
    fn in_use(&self) -> &AtomicU32 {
        &self.state.in_use
    }
    fn generation(&self) -> &AtomicU32 {
        &self.state.generation
    }
    fn clear(&self) {
        self.rx.clear();
        self.upkeep.clear();
        self.tx.clear();
        self.describe("", 0, "", "", 0, 0);
    }
}

impl Block for IomuxBlock {
    fn in_use(&self) -> &AtomicU32 {
        &self.state.in_use
    }
    fn generation(&self) -> &AtomicU32 {
        &self.state.generation
    }
    fn clear(&self) {
        self.events.clear();
    }
}

fn allocate<T: Block>(table: &'static [T], pool: &Pool<T>) -> (&'static T, bool) {
    if pool.listed.load(Relaxed) != 0
        && let Some(block) = table.iter().find(|block| block.claim())
    {
        pool.listed.fetch_sub(1, Relaxed);
        return (block, true);
    }
    let released = pool.free.pop().filter(|block| block.claim());
    let block = released.unwrap_or_else(|| {
        let block: &'static T = Box::leak(Box::default());
        block.claim();
        block
    });
    (block, false)
}

fn release<T: Block>(block: &'static T, table: &'static [T], pool: &Pool<T>) {
    block.release();
    if table.as_ptr_range().contains(&core::ptr::from_ref(block)) {
        pool.listed.fetch_add(1, Relaxed);
    } else {
        pool.free.push(block);
    }
}

impl Publisher {
    /// Makes the statistics of the calling process, whose pid is given. Where the file
    /// cannot be had, or `directory` is empty, they are private memory and a warning
    /// says so.
    #[must_use]
    pub fn create(
        directory: &str,
        pid: u32,
        program: &str,
        sockets: usize,
    ) -> (Self, Option<String>) {
        let plan = Plan::new(sockets);
        let opened = if directory.is_empty() {
            Err("VMA_STATS_SHMEM_DIR is empty".to_owned())
        } else {
            Published::open(directory, pid, plan)
                .map_err(|errno| format!("no statistics file in {directory}: {errno}"))
        };
        let (area, file, warning) = match opened {
            Ok((area, file)) => (area, Some(file), None),
            Err(why) => {
                let lines = Box::leak(Line::zeroed(plan.total()));
                let area = Area::of_copy(lines, plan).expect("allocated with the plan's length");
                (
                    area,
                    None,
                    Some(format!("{why}; shim-stats cannot see this process")),
                )
            }
        };
        plan.describe(area.header);
        area.header.begin(pid, start_ticks(pid), program);
        let spare = Box::leak(Box::new(Spare {
            sockets: Pool::new(area.sockets.len()),
            rings: Pool::new(area.rings.len()),
            iomuxes: Pool::new(area.iomuxes.len() - 2),
        }));
        (
            Self {
                pid,
                area,
                file,
                spare,
            },
            warning,
        )
    }

    /// A block for a new UDP socket, all counters zero; the reason is
    /// [`Reason::NotBound`].
    #[must_use]
    pub fn socket(&self, fd: i32) -> &'static SocketBlock {
        let (block, listed) = allocate(self.area.sockets, &self.spare.sockets);
        block.update(|state| state.fd.store(fd as u32, Relaxed));
        block.show();
        let totals = &self.area.process.totals;
        totals.sockets_opened.add(1);
        if !listed {
            totals.sockets_unlisted.add(1);
        }
        block
    }

    /// Takes a block back. A thread that still counts in it does no harm beyond a
    /// wrong number in the block's next use.
    pub fn release_socket(&self, block: &'static SocketBlock) {
        release(block, self.area.sockets, &self.spare.sockets);
    }

    /// A block for a ring, for good; say what it is with [`RingBlock::describe`], then
    /// show it.
    #[must_use]
    pub fn ring(&self) -> &'static RingBlock {
        allocate(self.area.rings, &self.spare.rings).0
    }

    /// Readers see the ring.
    pub fn show_ring(&self, block: &'static RingBlock) {
        block.show();
    }

    /// The ring is closed: readers see it no more. Its counters begin at zero again.
    pub fn hide_ring(&self, block: &'static RingBlock) {
        block.state.in_use.store(CLAIMED, Release);
        block.rx.clear();
        block.upkeep.clear();
        block.tx.clear();
        block.generation().fetch_add(1, Relaxed);
    }

    /// Takes a block back.
    pub fn release_ring(&self, block: &'static RingBlock) {
        release(block, self.area.rings, &self.spare.rings);
    }

    /// The block of poll, of select (one each for all threads) or of an epoll object.
    #[must_use]
    pub fn iomux(&self, kind: IomuxKind, epfd: i32) -> &'static IomuxBlock {
        let (singles, epolls) = self.area.iomuxes.split_at(2);
        let block = match kind {
            IomuxKind::Poll => &singles[0],
            IomuxKind::Select => &singles[1],
            IomuxKind::Epoll => allocate(epolls, &self.spare.iomuxes).0,
        };
        let epfd = if kind == IomuxKind::Epoll { epfd } else { -1 };
        block.state.kind.store(kind as u32, Relaxed);
        block.state.epfd.store(epfd as u32, Relaxed);
        block.show();
        block
    }

    /// Takes an epoll object's block back; those of poll and select stay.
    pub fn release_iomux(&self, block: &'static IomuxBlock) {
        if block.state.kind.load(Relaxed) == IomuxKind::Epoll as u32 {
            release(block, &self.area.iomuxes[2..], &self.spare.iomuxes);
        }
    }

    /// The process's counters.
    #[must_use]
    pub fn process(&self) -> &'static ProcessBlock {
        self.area.process
    }

    /// Whether other processes can read along.
    #[must_use]
    pub fn is_published(&self) -> bool {
        self.file
            .as_ref()
            .is_some_and(|file| file.ours.load(Relaxed))
    }

    /// Removes the file at the end of the process; blocks stay valid. Does nothing in
    /// another process than the one that made the file, also after vfork.
    pub fn remove(&self) {
        if rustix::process::getpid().as_raw_nonzero().get() as u32 != self.pid {
            return;
        }
        if let Some(file) = &self.file
            && file.ours.swap(false, Relaxed)
        {
            self.area.header.alive.store(0, Release);
            file.unlink();
        }
    }

    /// After fork, in the child: all blocks become private copies at the same
    /// addresses and the parent's file is left alone. Does nothing in the process that
    /// made the file. Not for a vfork child, which shares the parent's memory and would
    /// detach the parent. The child may then make a publisher of its own.
    ///
    /// # Errors
    /// mmap(2)'s: the child then still counts in the parent's file.
    pub fn forget_in_child(&self) -> Result<(), Errno> {
        if rustix::process::getpid().as_raw_nonzero().get() as u32 == self.pid {
            return Ok(());
        }
        match &self.file {
            Some(file) if file.ours.swap(false, Relaxed) => file.mapping.detach(),
            _ => Ok(()),
        }
    }
}

/// The file of this process.
#[derive(Debug)]
struct Published {
    mapping: Mapping,
    path: CString,
    /// Device and inode: what lies under the path later may be another file.
    identity: (u64, u64),
    /// Cleared once the file is removed or left to the parent.
    ours: AtomicBool,
}

impl Published {
    fn open(directory: &str, pid: u32, plan: Plan) -> Result<(Area<'static>, Self), Errno> {
        let path = file_path(directory, pid).ok_or(Errno::INVAL)?;
        let file = match File::create(&path, plan.total()) {
            Err(Errno(libc::EEXIST)) => {
                remove_stale(&path)?;
                File::create(&path, plan.total())
            }
            other => other,
        }?;
        let mapped = file.stat().and_then(|stat| {
            let mapping = Mapping::shared(&file, plan.total())?;
            let area = Area::of_mapping(&mapping, plan).ok_or(Errno::INVAL)?;
            Ok((area, mapping, identity(&stat)))
        });
        match mapped {
            Ok((area, mapping, identity)) => Ok((
                area,
                Self {
                    mapping,
                    path,
                    identity,
                    ours: AtomicBool::new(true),
                },
            )),
            Err(errno) => {
                let _ = rustix::fs::unlink(path.as_c_str());
                Err(errno)
            }
        }
    }

    fn unlink(&self) {
        let there = rustix::fs::lstat(self.path.as_c_str());
        if there.is_ok_and(|stat| identity(&stat) == self.identity) {
            let _ = rustix::fs::unlink(self.path.as_c_str());
        }
    }
}

#[allow(
    clippy::unnecessary_cast,
    reason = "the fields' types differ between machines"
)]
fn identity(stat: &rustix::fs::Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// Removes what lies where our file belongs. A file with our pid is that of a dead
/// process, or of this one before exec; it must be a plain file of our own, anything
/// else was put there by somebody.
fn remove_stale(path: &CStr) -> Result<(), Errno> {
    let stat = rustix::fs::lstat(path)?;
    let plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !plain || stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(Errno(libc::EEXIST));
    }
    Ok(rustix::fs::unlink(path)?)
}

#[cfg(test)]
pub(super) mod tests;
