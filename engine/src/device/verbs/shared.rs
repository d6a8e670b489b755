//! A device that is open: what the queues on it have in common.
//!
//! Owns the context, the domain and the reports. Asynchronous events come for the device
//! as a whole; whoever reads them tells every queue that they concern. Rank: the list of
//! queues and a queue's reports are leaves.

use super::probe;
use crate::device::Fault;
use crate::error::{Errno, Reason};
use crate::sys::fd;
use crate::sys::mutex::Mutex;
use crate::sys::verbs::{AsyncEvent, DeviceLimits, DeviceList, DeviceName, Domain, EventWatch};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Reports kept for a queue; a port that flaps says nothing new after these.
const MOST_REPORTS: usize = 16;

/// Open devices of this process.
static OPEN: Mutex<Vec<Weak<Device>>> = Mutex::new(Vec::new());

/// A device that is open.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) name: DeviceName,
    pub(super) domain: Arc<Domain>,
    pub(super) limits: DeviceLimits,
    pub(super) watch: Arc<EventWatch>,
    queues: Mutex<Vec<Arc<Reports>>>,
    /// It is being taken away; the next queue needs it opened anew.
    gone: AtomicBool,
    /// `out_of_buffer` of the port as read last, plus one; 0: not yet.
    lost: AtomicU64,
    /// A forked child must not use its parent's.
    forks: u32,
}

/// What one queue has to report, and by which identities events name it.
#[derive(Debug)]
pub(super) struct Reports {
    pub(super) port: u8,
    pub(super) pair: usize,
    pub(super) completions: [usize; 2],
    waiting: Mutex<VecDeque<Fault>>,
}

impl Reports {
    pub(super) fn new(port: u8, pair: usize, completions: [usize; 2]) -> Arc<Self> {
        Arc::new(Self {
            port,
            pair,
            completions,
            waiting: Mutex::new(VecDeque::new()),
        })
    }

    /// Adds a report; one that repeats the last says nothing new.
    pub(super) fn push(&self, fault: Fault) {
        let mut waiting = self.waiting.lock();
        if waiting.back() == Some(&fault) {
            return;
        }
        if waiting.len() == MOST_REPORTS {
            waiting.pop_front();
        }
        waiting.push_back(fault);
    }

    pub(super) fn pop(&self) -> Option<Fault> {
        self.waiting.lock().pop_front()
    }

    /// What an event means for this queue.
    fn fault(&self, event: AsyncEvent) -> Option<Fault> {
        match event {
            AsyncEvent::CompletionQueue(id) if self.completions.contains(&id) => {
                Some(Fault::Overrun)
            }
            AsyncEvent::QueuePair(id) if id == self.pair => Some(Fault::QueueError),
            AsyncEvent::PortActive(port) if port == self.port => Some(Fault::PortUp),
            AsyncEvent::PortError(port) if port == self.port => Some(Fault::PortDown),
            AsyncEvent::DeviceFatal => Some(Fault::Gone),
            _ => None,
        }
    }
}

/// A queue pair's place among those that its device tells of events; left on drop.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) device: Arc<Device>,
    pub(super) reports: Arc<Reports>,
}

impl Member {
    /// From now on events reach these reports.
    pub(super) fn join(device: &Arc<Device>, reports: Arc<Reports>) -> Arc<Self> {
        device.queues.lock().push(Arc::clone(&reports));
        Arc::new(Self {
            device: Arc::clone(device),
            reports,
        })
    }

    /// A fault that was noticed here.
    #[cold]
    pub(super) fn report(&self, fault: Fault) {
        self.reports.push(fault);
        self.device.watch.raise();
    }

    /// What has happened, oldest first.
    pub(super) fn take_fault(&self) -> Option<Fault> {
        self.device.follow();
        self.reports.pop()
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let mut queues = self.device.queues.lock();
        queues.retain(|r| !Arc::ptr_eq(r, &self.reports));
    }
}

impl Device {
    /// The device at a place of the list, opened unless it is.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn open(
        list: &DeviceList,
        index: usize,
        name: &DeviceName,
    ) -> Result<Arc<Self>, Reason> {
        let mut open = OPEN.lock();
        open.retain(|d| d.strong_count() > 0);
        let known = open.iter().filter_map(Weak::upgrade).find(|d| {
            d.name.name == name.name && d.forks == fd::forks() && !d.gone.load(Ordering::Relaxed)
        });
        if let Some(device) = known {
            return Ok(device);
        }
        let make = || -> Result<Self, Errno> {
            let context = list.open(index)?;
            Ok(Self {
                name: name.clone(),
                limits: context.limits()?,
                watch: Arc::new(EventWatch::new(context.async_fd())?),
                domain: Domain::new(&context)?,
                queues: Mutex::new(Vec::new()),
                gone: AtomicBool::new(false),
                lost: AtomicU64::new(0),
                forks: fd::forks(),
            })
        };
        let device = Arc::new(make().map_err(probe::open_reason)?);
        open.push(Arc::downgrade(&device));
        Ok(device)
    }

    /// Reads the events that wait and tells the queues.
    pub(super) fn follow(&self) {
        self.watch.clear();
        let queues = self.queues.lock();
        while let Some(event) = self.domain.context().next_event() {
            if event == AsyncEvent::DeviceFatal {
                self.gone.store(true, Ordering::Relaxed);
            }
            for reports in queues.iter() {
                if let Some(fault) = reports.fault(event) {
                    reports.push(fault);
                }
            }
        }
    }

    /// Frames that a port had no buffer for since the last call, for whichever queue asks
    /// first: the card does not count by queue.
    pub(super) fn take_lost(&self, port: u8) -> u64 {
        let Some(now) = probe::counter(&self.name.path, port, "out_of_buffer") else {
            return 0;
        };
        match self.lost.swap(now + 1, Ordering::Relaxed) {
            0 => 0,
            before => (now + 1).saturating_sub(before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_reach_the_queues_that_they_concern() {
        let reports = Reports::new(2, 0x10, [0x20, 0x30]);
        let faults = [
            (AsyncEvent::QueuePair(0x10), Some(Fault::QueueError)),
            (AsyncEvent::QueuePair(0x11), None),
            (AsyncEvent::CompletionQueue(0x30), Some(Fault::Overrun)),
            (AsyncEvent::CompletionQueue(0x10), None),
            (AsyncEvent::PortError(2), Some(Fault::PortDown)),
            (AsyncEvent::PortError(1), None),
            (AsyncEvent::PortActive(2), Some(Fault::PortUp)),
            (AsyncEvent::DeviceFatal, Some(Fault::Gone)),
            (AsyncEvent::Other, None),
        ];
        for (event, fault) in faults {
            assert_eq!(reports.fault(event), fault, "{event:?}");
        }
    }

    #[test]
    fn reports_keep_their_order_and_do_not_pile_up() {
        let reports = Reports::new(1, 0, [0, 0]);
        reports.push(Fault::PortDown);
        reports.push(Fault::PortDown);
        reports.push(Fault::PortUp);
        assert_eq!(reports.pop(), Some(Fault::PortDown));
        assert_eq!(reports.pop(), Some(Fault::PortUp));
        assert_eq!(reports.pop(), None);
        for _ in 0..100 {
            reports.push(Fault::PortDown);
            reports.push(Fault::PortUp);
        }
        let all: Vec<_> = std::iter::from_fn(|| reports.pop()).collect();
        assert_eq!(all.len(), MOST_REPORTS);
        assert_eq!(all.last(), Some(&Fault::PortUp), "the last word counts");
    }
}
