//! One call of the epoll_wait family on a set.

use super::*;

/// One epoll_wait.
pub(super) struct EpollSet<'a> {
    pub(super) epoll: &'a Epoll,
    pub(super) epfd: RawFd,
    pub(super) out: &'a mut [libc::epoll_event],
    pub(super) filled: usize,
    pub(super) engine: usize,
    /// The engine kept its events back, for the kernel's to come first.
    pub(super) passed: bool,
}

impl EpollSet<'_> {
    fn has_news(&self) -> bool {
        self.epoll.quiet_at.load(Ordering::Relaxed) != self.epoll.core.kernel_news()
    }

    /// A one-shot entry was reported: the kernel's side must not report it again.
    fn disarm_kernel(&self, member: &Member) {
        let off = libc::epoll_event {
            events: EPOLLONESHOT,
            u64: COOKIE | u64::from(member.id),
        };
        let at = std::ptr::from_ref(&off) as usize;
        let _ = event::epoll_ctl(self.epfd, libc::EPOLL_CTL_MOD, member.fd, at);
    }

    /// Reports what the engine has, each entry once in a round, into the free part of
    /// the array. False: the array was full before every entry had its turn.
    fn collect(&mut self) -> bool {
        let Some(mut members) = self.epoll.members.lock() else {
            return true;
        };
        if self.filled == 0 {
            members.round += 1;
        }
        let round = members.round;
        let Members { list, turn, .. } = &mut *members;
        // In order, so that a pass over all entries has an end.
        let start = (*turn).min(list.len());
        let (before, from) = list.split_at_mut(start);
        for (at, member) in from.iter_mut().enumerate() {
            if self.filled == self.out.len() {
                *turn = start + at;
                return *turn == 0;
            }
            self.report(member, round);
        }
        for (at, member) in before.iter_mut().enumerate() {
            if self.filled == self.out.len() {
                *turn = at;
                return at == 0;
            }
            self.report(member, round);
        }
        *turn = 0;
        true
    }

    /// Reports an entry if the engine has something for it that is not reported yet.
    #[inline(always)]
    fn report(&mut self, member: &mut Member, round: u64) {
        if member.reported == round {
            return;
        }
        let bits = member.due_bits();
        if bits == 0 {
            return;
        }
        if member.report(round) {
            self.disarm_kernel(member);
        }
        self.out[self.filled] = libc::epoll_event {
            events: bits,
            u64: member.data,
        };
        self.filled += 1;
        self.engine += 1;
    }

    /// Asks the kernel for as many as there is room for, and gives its events back their
    /// own data; those of the engine's entries get the engine's bits as well.
    fn append_kernel(&mut self) -> Result<(), Errno> {
        let first = self.filled;
        let news = self.epoll.core.kernel_news();
        let found = event::epoll_wait(self.epfd, &mut self.out[first..], Some(0))?;
        if found == 0 {
            // Also where the engine has something each time: until there is news, no call asks again.
            self.epoll.quiet_at.store(news, Ordering::Relaxed);
        }
        let Some(mut members) = self.epoll.members.lock() else {
            return Ok(());
        };
        if first == 0 {
            members.round += 1;
        }
        let round = members.round;
        for i in first..first + found {
            let mut event = self.out[i];
            let data = event.u64;
            if data & COOKIE_MASK == COOKIE {
                let id = data as u32;
                let Members { list, orphans, .. } = &mut *members;
                if let Some(member) = list.iter_mut().find(|m| m.id == id) {
                    if !member.armed || member.reported == round {
                        continue;
                    }
                    let bits = event.events;
                    if bits & (EPOLLIN | EPOLLRDNORM | libc::EPOLLERR as u32) != 0
                        && let Object::Udp(socket) = &member.object
                    {
                        socket.hint_kernel();
                    }
                    event = libc::epoll_event {
                        events: bits | member.engine_bits(),
                        u64: member.data,
                    };
                    member.report(round);
                } else if let Some((_, own)) = orphans.iter().find(|o| o.0 == id) {
                    event.u64 = *own;
                } else {
                    continue; // removed meanwhile
                }
            }
            self.out[self.filled] = event;
            self.filled += 1;
        }
        Ok(())
    }
}

impl Set for EpollSet<'_> {
    const SEES_SIGNALS: bool = false;

    fn ring_mask(&self) -> u64 {
        self.epoll.ring_mask(0)
    }

    #[inline]
    fn engine_ready(&mut self) -> usize {
        self.filled = 0;
        self.engine = 0;
        let foreign = self.has_foreign();
        let kernel_due = self.epoll.core.skip_due(foreign)
            || !foreign && self.has_news()
            || self.epoll.writable.load(Ordering::Relaxed);
        let engine_turn = self.epoll.engine_turn.load(Ordering::Relaxed);
        self.passed = kernel_due && !engine_turn;
        if self.passed {
            // This time the kernel's come first, lest a full array starve them.
            return 0;
        }
        let all = self.collect();
        if engine_turn {
            self.epoll.engine_turn.store(!all, Ordering::Relaxed);
        }
        if kernel_due && self.filled > 0 && self.filled < self.out.len() {
            // An error here is the next call's: there is something to report.
            let _ = self.append_kernel();
        }
        self.filled
    }

    fn kernel_ready(&mut self) -> Result<usize, Errno> {
        self.filled = 0;
        self.engine = 0;
        self.append_kernel()?;
        if self.filled == self.out.len() {
            self.epoll.engine_turn.store(true, Ordering::Relaxed);
        }
        self.collect();
        Ok(self.filled)
    }

    fn sleep_on(&mut self, set: &mut SleepSet) {
        set.push(libc::pollfd {
            fd: self.epfd,
            events: libc::POLLIN,
            revents: 0,
        });
    }

    fn each_socket(&mut self, visit: &mut dyn FnMut(&Arc<UdpSocket>)) {
        self.epoll.each_socket(0, visit);
    }

    fn watch(&mut self, event: &Arc<Event>, on: bool) {
        self.epoll.watch(event, on);
    }

    fn has_foreign(&self) -> bool {
        self.epoll.foreign.load(Ordering::Relaxed) || self.epoll.untold.load(Ordering::Relaxed)
    }

    fn kernel_first(&mut self) -> bool {
        false
    }

    fn kernel_due(&mut self, waits: bool) -> bool {
        let paused = !waits && self.epoll.calls.paused(crate::sys::event::ticks());
        self.passed || paused || self.has_foreign() || self.has_news()
    }

    fn was_quiet(&mut self, news: u64) {
        self.epoll.quiet_at.store(news, Ordering::Relaxed);
        self.epoll.calls.went_on();
    }
}
