//! poll(2) and ppoll(2) over a set in which at least one descriptor is the engine's.

use super::wait::{How, Set, SleepSet, wait};
use super::{Lookup, Object, Timeout};
use crate::error::Errno;
use crate::socket::{Core, UdpSocket};
use crate::stats::layout::IomuxBlock;
use crate::sys::defer;
use crate::sys::event::{self, Event};
use crate::sys::leave::Kept;
use smallvec::SmallVec;
use std::sync::Arc;

const READABLE: i16 = libc::POLLIN | libc::POLLRDNORM;

/// poll and ppoll. `mask` is the caller's signal set (kernel's 64-bit form), if it gave one.
///
/// # Errors
/// As poll(2).
pub fn poll(
    fds: &mut [libc::pollfd],
    lookup: Lookup<'_>,
    timeout: Timeout,
    mask: Option<u64>,
) -> Result<usize, Errno> {
    poll_counted(fds, lookup, timeout, mask, |core| core.poll_stats())
}

pub(super) fn poll_counted(
    fds: &mut [libc::pollfd],
    lookup: Lookup<'_>,
    timeout: Timeout,
    mask: Option<u64>,
    stats: impl FnOnce(&Core) -> &'static IomuxBlock,
) -> Result<usize, Errno> {
    let mut kept = Kept::new(Members::new());
    let mut members = kept.arm_if(timeout != Some(0));
    for (at, entry) in fds.iter_mut().enumerate() {
        entry.revents = 0;
        if let Some(object) = lookup(entry.fd) {
            if crate::socket::in_forked_child() {
                object.settle();
            }
            members.push((at, object));
        }
    }
    let mut core = None;
    for (_, member) in &*members {
        member.each_socket(0, &mut |s| core = Some(s.core()));
    }
    let Some(core) = core else {
        let _open = defer::open();
        return event::ppoll(fds, timeout, mask);
    };
    let events = &stats(core).events;
    let mut set = PollSet {
        core,
        fds,
        members: &members,
        engine: false,
    };
    let result = wait(core, &mut set, How { timeout, mask });
    match result {
        Ok(0) => events.timeouts.add(1),
        Ok(n) => {
            let ours = set
                .members
                .iter()
                .filter(|(at, _)| set.fds[*at].revents != 0)
                .count();
            events.offload_ready.add(ours as u64);
            events.os_ready.add(n.saturating_sub(ours) as u64);
            if set.engine {
                events.poll_hit.add(1)
            } else {
                events.poll_miss.add(1)
            }
        }
        Err(_) => events.errors.add(1),
    }
    result
}

/// Index and object of the entries that are the engine's.
type Members = SmallVec<[(usize, Object); 16]>;

struct PollSet<'a> {
    core: &'static Core,
    fds: &'a mut [libc::pollfd],
    members: &'a [(usize, Object)],
    /// The engine had something.
    engine: bool,
}

impl PollSet<'_> {
    fn merge(&mut self) {
        for (at, member) in self.members {
            if member.readable(0) {
                let entry = &mut self.fds[*at];
                let bits = READABLE & entry.events;
                entry.revents |= bits;
                self.engine |= bits != 0;
            }
        }
    }

    /// Somebody has to be asked who is not the engine: about writing, or what was told.
    fn wants_kernel(&self) -> bool {
        let writes = |f: &libc::pollfd| f.events & !(READABLE | libc::POLLPRI) != 0;
        self.fds.iter().any(writes) || {
            let mut told = false;
            self.each(&mut |socket| told |= socket.kernel_told());
            told
        }
    }

    fn each(&self, visit: &mut dyn FnMut(&Arc<UdpSocket>)) {
        for (_, member) in self.members {
            member.each_socket(0, visit);
        }
    }

    fn count(&self) -> usize {
        self.fds.iter().filter(|f| f.revents != 0).count()
    }
}

impl Set for PollSet<'_> {
    const SEES_SIGNALS: bool = true;

    fn ring_mask(&self) -> u64 {
        self.members
            .iter()
            .fold(0, |mask, (_, m)| mask | m.ring_mask(0))
    }

    fn engine_ready(&mut self) -> usize {
        self.merge();
        if self.engine { self.count() } else { 0 }
    }

    fn kernel_ready(&mut self) -> Result<usize, Errno> {
        self.each_socket(&mut |socket| socket.begin_look());
        // The kernel writes every revents, the engine's part comes after.
        event::ppoll(self.fds, Some(0), None)?;
        for (at, member) in self.members {
            if self.fds[*at].revents & (READABLE | libc::POLLERR) != 0
                && let Object::Udp(socket) = member
            {
                socket.hint_kernel();
            }
        }
        self.merge();
        Ok(self.count())
    }

    fn sleep_on(&mut self, set: &mut SleepSet) {
        set.extend(self.fds.iter().map(|f| libc::pollfd { revents: 0, ..*f }));
    }

    fn each_socket(&mut self, visit: &mut dyn FnMut(&Arc<UdpSocket>)) {
        self.each(visit);
    }

    fn watch(&mut self, event: &Arc<Event>, on: bool) {
        for (_, member) in self.members {
            if let Object::Epoll(epoll) = member {
                epoll.watch(event, on);
            }
        }
    }

    fn has_foreign(&self) -> bool {
        self.members.len() < self.fds.len() || self.members.iter().any(|(_, m)| m.untold(0))
    }

    fn kernel_first(&mut self) -> bool {
        self.wants_kernel() || self.core.skip_due(self.has_foreign())
    }

    fn kernel_due(&mut self, waits: bool) -> bool {
        let mut due = self.wants_kernel() || self.has_foreign();
        self.each_socket(&mut |socket| {
            due |= if waits {
                socket.kernel_told()
            } else {
                socket.look_due()
            };
        });
        due
    }

    fn was_quiet(&mut self, _: u64) {
        self.each_socket(&mut |socket| socket.looked());
    }
}
