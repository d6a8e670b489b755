//! Faults on demand: what a card or its link can do wrong, asked for by a test.
//!
//! `SOFTVERBS_FAULTS` says them for the whole life of the process; `SOFTVERBS_CONTROL` names a file
//! that is watched: each line appended to it takes effect at once, in every process that
//! watches it. Both hold items, separated by commas or blanks:
//!
//! | Item | Meaning |
//! |---|---|
//! | `drop=N`, `tx.drop=N` | every Nth received, or sent, frame is lost; 0: no more |
//! | `corrupt=N`, `tx.corrupt=N` | in every Nth a bit is flipped |
//! | `delay=N:US` | every Nth received frame comes US microseconds late |
//! | `reorder=N` | every Nth received frame comes after the one behind it (or 10 ms late) |
//! | `seed=S` | which bits, and where the counting of every Nth starts |
//! | `error=N:STATUS`, `tx.error=N:STATUS` | the Nth frame from now completes with that status (a number of `enum ibv_wc_status`), once |
//! | `fail=CALL:N:ERRNO` | the Nth call from now fails, once; `*` for N: every one, until `fail=CALL:0:ERRNO`. CALL as in the trace, with or without `ibv_` |
//! | `event=KIND`, `event=KIND@N` | an asynchronous event, at once or after N more sends: `port_down` (and no carrier until `port_up`), `port_up`, `device_fatal`, `qp_fatal`, `cq_error`, or a number of `enum ibv_event_type` |
//! | `INTERFACE/ITEM` | the item, for that interface's devices only |
//!
//! A line of the control file that was taken is a line `fault LINE` in the trace.

mod control;
mod spec;
mod wire;

use crate::settings;
use crate::wire::{Incidents, Interface, Wire};
use parking_lot::Mutex;
use rustix::io::Errno;
use spec::{Action, Item};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, Weak};
use wire::{FaultyWire, Port};

/// A call that is to fail.
struct Failure {
    call: String,
    /// Calls until then; none: every one.
    left: Option<u64>,
    errno: Errno,
}

/// What is in force in this process.
struct Plan {
    failures: Vec<Failure>,
    ports: Vec<Weak<Port>>,
    /// Items for ports that are yet to be opened.
    standing: Vec<Item>,
}

static PLAN: Mutex<Plan> = Mutex::new(Plan {
    failures: Vec::new(),
    ports: Vec::new(),
    standing: Vec::new(),
});

/// Whether any call is to fail: looked at by each.
static CALLS_FAIL: AtomicBool = AtomicBool::new(false);

/// Whether faults can come at all.
fn possible() -> bool {
    let settings = settings::get();
    settings.faults.is_some() || settings.control.is_some()
}

/// Reads the variables, the first time.
fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        if let Some(text) = &settings::get().faults {
            for item in spec::parse(text) {
                match item {
                    Ok(item) => apply(item),
                    Err(text) => {
                        crate::strict::give_up(format_args!("SOFTVERBS_FAULTS: {text}: what?"))
                    }
                }
            }
        }
        if let Some(path) = &settings::get().control {
            control::watch(path);
        }
    });
}

/// Whether a call is to fail, and how.
#[inline]
pub(crate) fn call(name: &str) -> Option<Errno> {
    if !possible() {
        return None;
    }
    start();
    if !CALLS_FAIL.load(Ordering::Relaxed) {
        return None;
    }
    let mut plan = PLAN.lock();
    let at = plan.failures.iter().position(|f| f.call == name)?;
    let failure = &mut plan.failures[at];
    let errno = failure.errno;
    if let Some(left) = &mut failure.left {
        *left -= 1;
        if *left > 0 {
            return None;
        }
        plan.failures.remove(at);
        CALLS_FAIL.store(!plan.failures.is_empty(), Ordering::Relaxed);
    }
    Some(errno)
}

/// Puts the faults between a wire and its device.
pub(crate) fn between(
    interface: &Interface,
    incidents: Arc<dyn Incidents>,
    wire: Arc<dyn Wire>,
) -> Arc<dyn Wire> {
    if !possible() {
        return wire;
    }
    start();
    let port = Arc::new(Port::new(&interface.name, incidents));
    let mut plan = PLAN.lock();
    plan.ports.retain(|port| port.strong_count() != 0);
    plan.ports.push(Arc::downgrade(&port));
    let standing: Vec<Item> = plan
        .standing
        .iter()
        .filter(|item| item.is_for(port.name()))
        .cloned()
        .collect();
    drop(plan);
    for item in &standing {
        port.apply(&item.action);
    }
    Arc::new(FaultyWire::new(wire, port))
}

/// Puts an item in force.
fn apply(item: Item) {
    let mut plan = PLAN.lock();
    if let Action::Fail { call, nth, errno } = &item.action {
        plan.failures.retain(|f| f.call != *call);
        if *nth != Some(0) {
            plan.failures.push(Failure {
                call: call.clone(),
                left: *nth,
                errno: *errno,
            });
        }
        CALLS_FAIL.store(!plan.failures.is_empty(), Ordering::Relaxed);
        return;
    }
    let ports: Vec<Arc<Port>> = plan
        .ports
        .iter()
        .filter_map(Weak::upgrade)
        .filter(|port| item.is_for(port.name()))
        .collect();
    // An event that happens now is not for those who come later.
    if !item.is_momentary() {
        plan.standing.push(item.clone());
    }
    drop(plan);
    for port in ports {
        port.apply(&item.action);
    }
}
