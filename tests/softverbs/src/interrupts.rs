//! The thread that plays the card's interrupt: it waits on the event descriptors of wire queues
//! and puts events into completion channels. It is started with the first channel, and again in
//! a child that makes its own.
//!
//! The set of watched queues is a leaf lock: nothing else is locked while it is held.

use crate::cq::CompletionQueue;
use crate::descriptor::Descriptor;
use crate::wire::WireQueue;
use parking_lot::Mutex;
use rustix::event::epoll;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

#[derive(Clone)]
struct Watch {
    queue: Arc<dyn WireQueue>,
    cq: &'static CompletionQueue,
}

struct Watcher {
    /// The process whose thread it is.
    process: u32,
    epoll: Arc<Descriptor>,
    watches: Arc<Mutex<HashMap<u64, Watch>>>,
    next: u64,
}

static WATCHER: Mutex<Option<Watcher>> = Mutex::new(None);

/// Starts the thread, if this process has none.
///
/// # Errors
/// Those of epoll_create1(2) and of starting a thread.
pub(crate) fn start() -> Result<(), Errno> {
    let mut watcher = WATCHER.lock();
    let process = std::process::id();
    if watcher.as_ref().is_some_and(|w| w.process == process) {
        return Ok(());
    }
    let epoll = Arc::new(Descriptor::aside(epoll::create(
        epoll::CreateFlags::CLOEXEC,
    )?));
    let watches = Arc::new(Mutex::new(HashMap::new()));
    let (waited, seen) = (Arc::clone(&epoll), Arc::clone(&watches));
    without_signals(|| {
        std::thread::Builder::new()
            .name("softverbs-irq".to_owned())
            .spawn(move || serve(&waited, &seen))
            .map_err(|_| Errno::AGAIN)
    })?;
    *watcher = Some(Watcher {
        process,
        epoll,
        watches,
        next: 0,
    });
    Ok(())
}

/// Runs `body` with all signals blocked: the thread it starts is to take none of the program's.
pub(crate) fn without_signals<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: a set of bits, for which zero is a value.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { core::mem::zeroed() };
    // SAFETY: the pointer is valid for the call.
    unsafe { libc::sigfillset(&raw mut all) };
    // SAFETY: both pointers are valid for the call.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, &raw mut before) };
    let result = body();
    // SAFETY: the pointer is valid for the call; null asks for nothing back.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, core::ptr::null_mut()) };
    result
}

/// Watches a queue for a completion queue. The name returned is for [`unwatch`].
///
/// # Errors
/// Those of epoll_ctl(2).
pub(crate) fn watch(queue: Arc<dyn WireQueue>, cq: &'static CompletionQueue) -> Result<u64, Errno> {
    start()?;
    let mut watcher = WATCHER.lock();
    let watcher = watcher.as_mut().ok_or(Errno::AGAIN)?;
    watcher.next += 1;
    let name = watcher.next;
    // SAFETY: the queue owns the descriptor and is kept in the table below.
    let fd = unsafe { BorrowedFd::borrow_raw(queue.event_fd()) };
    let data = epoll::EventData::new_u64(name);
    epoll::add(&*watcher.epoll, fd, data, epoll::EventFlags::IN)?;
    watcher.watches.lock().insert(name, Watch { queue, cq });
    Ok(name)
}

/// Ends that. The completion queue gets no event of the queue any more.
pub(crate) fn unwatch(name: u64) {
    let mut watcher = WATCHER.lock();
    let Some(watcher) = watcher.as_mut() else {
        return;
    };
    let Some(watch) = watcher.watches.lock().remove(&name) else {
        return;
    };
    // SAFETY: the queue owns the descriptor and lives until the end of this function.
    let fd = unsafe { BorrowedFd::borrow_raw(watch.queue.event_fd()) };
    let _ = epoll::delete(&*watcher.epoll, fd);
}

fn serve(epoll: &Descriptor, watches: &Mutex<HashMap<u64, Watch>>) {
    let mut events = Vec::with_capacity(32);
    loop {
        events.clear();
        match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => crate::strict::give_up(format_args!("epoll_wait: {errno}")),
        }
        for event in &events {
            let event: &epoll::Event = event;
            let watch = watches.lock().get(&event.data.u64()).cloned();
            if let Some(watch) = watch {
                watch.queue.acknowledge();
                watch.cq.interrupt();
            }
        }
    }
}
