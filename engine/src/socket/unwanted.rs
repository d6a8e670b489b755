//! Unicast that a device took from the kernel and no socket here wants: a rule by destination
//! also brings what other senders than the peer of a connected socket send. The kernel gets it
//! back and answers, as it does to datagrams for nobody.

use super::fork::in_forked_child;
use crate::clock;
use crate::sys::inject::Injector;
use crate::wire::UdpFrame;
use once_cell::sync::OnceCell;
use std::sync::atomic::{AtomicU64, Ordering};

static INJECTOR: OnceCell<Option<Injector>> = OnceCell::new();
/// When the present stretch of time began, ns.
static SINCE: AtomicU64 = AtomicU64::new(0);
/// How many there have been since.
static COUNT: AtomicU64 = AtomicU64::new(0);

const MILLISECOND: u64 = 1_000_000;
/// Linux answers a thousand a second at most (net.ipv4.icmp_msgs_per_sec), fifty at a time; the rest
/// needs no call.
const MOST: u64 = 50;

/// Gives one to the kernel, unless there have been too many of late.
#[cold]
pub(super) fn give_back(udp: &UdpFrame<'_>) {
    // The parent's injector was closed at the fork; its number may be anything here.
    if in_forked_child() {
        return;
    }
    let now = clock::monotonic();
    let since = SINCE.load(Ordering::Relaxed);
    if now.saturating_sub(since) > MOST * MILLISECOND {
        SINCE.store(now, Ordering::Relaxed);
        COUNT.store(0, Ordering::Relaxed);
    }
    if COUNT.fetch_add(1, Ordering::Relaxed) >= MOST {
        return;
    }
    if let Some(injector) = INJECTOR.get_or_init(|| Injector::open().ok()) {
        // What cannot be had back is lost, as it would be on a crowded host.
        let _ = injector.put((udp.src, udp.dst), udp.ttl, udp.tos, udp.payload);
    }
}
