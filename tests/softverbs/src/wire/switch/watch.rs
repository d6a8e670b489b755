//! Learns that another process of the switch has died, and has its things removed.
//!
//! Source: pidfd_open(2), inotify(7). A joiner changes the file's attributes after it has
//! entered itself: that tells the others to look whom they have to watch.

use super::members::Membership;
use crate::wire::syscall::Fd;
use crate::wire::worker::Worker;
use rustix::fs::{Mode, fchmod, inotify};
use rustix::io::{Errno, read};
use rustix::process::{PidfdFlags, pidfd_open};
use std::os::fd::RawFd;
use std::sync::Arc;

/// Starts the thread, and tells the others that there is someone new.
pub(super) fn start(member: Arc<Membership>) -> Result<Worker, Errno> {
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let changes = Fd::own(inotify::init(flags)?)?;
    inotify::add_watch(
        &changes,
        member.paths().memory(),
        inotify::WatchFlags::ATTRIB,
    )?;
    fchmod(member.file(), Mode::RUSR | Mode::WUSR)?;
    Worker::spawn("softverbs-peers", move |stop| {
        let mut buffer = [0u8; 4096];
        loop {
            let others: Vec<Fd> = member
                .others()
                .into_iter()
                .filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
                .filter_map(|fd| Fd::own(fd).ok())
                .collect();
            if others.len() < member.others().len() {
                // One of them is gone already.
                member.bury();
            }
            let descriptors: Vec<RawFd> = std::iter::once(changes.raw())
                .chain(others.iter().map(Fd::raw))
                .collect();
            let Some(ready) = stop.wait(&descriptors) else {
                return;
            };
            while read(&changes, &mut buffer).is_ok() {}
            if ready[1..].contains(&true) {
                member.bury();
            }
        }
    })
}
