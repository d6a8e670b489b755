//! A set that another program is about to have as well.

use super::*;

impl Epoll {
    /// Entries get their own data back. That arms edges again, so those that have been reported
    /// are reported once more, to nobody.
    pub fn hand_over(&self, epfd: RawFd) {
        let Some(members) = self.members.lock() else {
            return;
        };
        if self.handed.swap(true, Ordering::Relaxed) {
            return;
        }
        // What entries of others have to report would be lost.
        let alone = !self.foreign.load(Ordering::Relaxed);
        let mut due = SmallVec::<[u32; 8]>::new();
        if alone {
            take_reports(epfd, &members, &mut |data| {
                if data & COOKIE_MASK == COOKIE {
                    due.push(data as u32);
                }
            });
        }
        for member in &members.list {
            member.give_back(epfd);
        }
        if !alone {
            return;
        }
        take_reports(epfd, &members, &mut |_| {});
        for member in members.list.iter().filter(|m| m.armed) {
            let news =
                || due.contains(&member.id) || member.seen.is_none_or(|s| s != member.edges());
            if member.events & EPOLLONESHOT != 0 || member.events & EPOLLET != 0 && news() {
                member.give_back(epfd);
            }
        }
    }
}

/// What the kernel reports now, once; edges and one-shot entries are done with it.
fn take_reports(epfd: RawFd, members: &Members, visit: &mut dyn FnMut(u64)) {
    let none = libc::epoll_event { events: 0, u64: 0 };
    // One more for a kick.
    let mut out = vec![none; members.list.len() + 1];
    let found = event::epoll_wait(epfd, &mut out, Some(0)).unwrap_or(0);
    for event in &out[..found] {
        visit(event.u64);
    }
}

impl Member {
    /// As the program put it in.
    fn give_back(&self, epfd: RawFd) {
        let kept = if self.armed {
            self.events
        } else {
            self.events & (EPOLLONESHOT | EPOLLET)
        };
        let own = libc::epoll_event {
            events: kept,
            u64: self.data,
        };
        let at = std::ptr::from_ref(&own) as usize;
        if self.events & EPOLLEXCLUSIVE == 0 {
            let _ = event::epoll_ctl(epfd, libc::EPOLL_CTL_MOD, self.fd, at);
        } else {
            let _ = event::epoll_ctl(epfd, libc::EPOLL_CTL_DEL, self.fd, 0);
            let _ = event::epoll_ctl(epfd, libc::EPOLL_CTL_ADD, self.fd, at);
        }
    }
}
