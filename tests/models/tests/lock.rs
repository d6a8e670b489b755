//! Every order in which few threads can pass the lock, up to a bound on preemptions.

use engine::config::ThreadMode;
use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use models::ring::{Lock, mode, set_mode, switches, visit};

/// loom complains when two are at it at once.
type Value = Arc<Lock<UnsafeCell<u32>>>;

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(check);
}

fn value() -> Value {
    Arc::new(Lock::new(UnsafeCell::new(0)))
}

/// Waits for the lock.
fn add(value: &Value) {
    let guard = value.lock().expect("no handler");
    // SAFETY: what is to be shown: loom sees every access.
    guard.with_mut(|v| unsafe { *v += 1 });
}

/// Takes it if it is free.
fn try_add(value: &Value) -> u32 {
    let guard = value.try_lock();
    guard.map_or(0, |guard| {
        // SAFETY: as in `add`.
        guard.with_mut(|v| unsafe { *v += 1 });
        1
    })
}

fn total(value: &Value) -> u32 {
    let guard = value.lock().expect("no handler");
    // SAFETY: as in `add`.
    guard.with(|v| unsafe { *v })
}

#[test]
fn spin_excludes() {
    model(|| {
        set_mode(ThreadMode::Spin);
        let value = value();
        let other = Arc::clone(&value);
        let thread = thread::spawn(move || {
            add(&other);
            try_add(&other)
        });
        add(&value);
        let tried = thread.join().unwrap();
        assert_eq!(total(&value), 2 + tried);
    });
}

/// The second thread takes the bias away while the first is inside, or about to be.
#[test]
fn single_gives_way_to_a_second_thread() {
    model(|| {
        set_mode(ThreadMode::Single);
        let value = value();
        add(&value);
        let other = Arc::clone(&value);
        let thread = thread::spawn(move || add(&other));
        add(&value);
        thread.join().unwrap();
        assert_eq!(total(&value), 3);
        assert_eq!((switches(), mode()), (1, ThreadMode::Spin));
    });
}

/// Both are the first.
#[test]
fn single_with_two_first_threads() {
    model(|| {
        set_mode(ThreadMode::Single);
        let value = value();
        let other = Arc::clone(&value);
        let thread = thread::spawn(move || try_add(&other));
        let mine = try_add(&value);
        let tried = thread.join().unwrap();
        assert_eq!(total(&value), mine + tried);
    });
}

/// The control thread comes and goes; the one application thread keeps its bias.
#[test]
fn a_visit_excludes_and_ends() {
    model(|| {
        set_mode(ThreadMode::Single);
        let value = value();
        add(&value);
        let other = Arc::clone(&value);
        let control = thread::spawn(move || {
            let _stay = visit();
            add(&other);
        });
        add(&value);
        control.join().unwrap();
        assert_eq!(total(&value), 3);
        assert_eq!((switches(), mode()), (0, ThreadMode::Single));
    });
}
