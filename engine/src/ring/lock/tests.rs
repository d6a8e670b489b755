use super::*;
use std::sync::Arc;

fn hammer(threads: usize, rounds: u64) -> u64 {
    let lock = Arc::new(Lock::new(0u64));
    let workers: Vec<_> = (0..threads)
        .map(|i| {
            let lock = Arc::clone(&lock);
            std::thread::spawn(move || {
                for round in 0..rounds {
                    // Some by trying, some by waiting.
                    if (round + i as u64).is_multiple_of(3) {
                        loop {
                            if let Some(mut g) = lock.try_lock() {
                                *g += 1;
                                break;
                            }
                            std::thread::yield_now();
                        }
                    } else {
                        *lock.lock().expect("not a signal handler") += 1;
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    *lock.lock().unwrap()
}

/// One test, for the mode is process-wide.
#[test]
fn every_mode_excludes_and_single_gives_way_to_a_second_thread() {
    for wanted in [ThreadMode::Spin, ThreadMode::Mutex, ThreadMode::Yield] {
        set_mode(wanted);
        assert_eq!(hammer(4, 20_000), 80_000, "{wanted:?}");
    }
    for _ in 0..50 {
        set_mode(ThreadMode::Single);
        BIASED_TO.store(0, Ordering::SeqCst);
        let before = switches();
        assert_eq!(hammer(3, 2_000), 6_000);
        assert_eq!(switches(), before + 1);
    }
    set_mode(ThreadMode::Spin);
    let lock = Lock::new(());
    let held = lock.lock();
    assert!(held.is_some());
    assert!(
        lock.lock().is_none(),
        "a handler on the holder's thread must not wait"
    );
    assert!(lock.try_lock().is_none());
    drop(held);
    // A handler on the holder's thread while the control thread comes, and after it left.
    set_mode(ThreadMode::Single);
    BIASED_TO.store(0, Ordering::SeqCst);
    let held = lock.lock();
    let stay = visit();
    assert!(lock.lock().is_none(), "held by bias");
    drop(held);
    let held = lock.lock();
    assert!(held.is_some());
    drop(stay);
    assert!(lock.lock().is_none(), "held by the owner word");
    drop(held);
    assert!(lock.lock().is_some());
    set_mode(ThreadMode::Spin);
}
