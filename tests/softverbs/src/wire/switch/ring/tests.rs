use super::*;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::collections::VecDeque;
use std::os::fd::AsRawFd as _;

/// A ring of few cells in memory of its own.
fn ring(capacity: u64, depth: usize) -> Window {
    let file = memfd_create("softverbs-test", MemfdFlags::CLOEXEC).expect("a file");
    ftruncate(&file, WINDOW as u64).expect("sparse");
    let map = Mapping::new(file.as_raw_fd(), 0, WINDOW, true).expect("a mapping");
    let window = Window::new(map);
    window.reset(1, capacity, depth);
    window
}

fn take(window: &Window) -> Option<Vec<u8>> {
    loop {
        match window.pull(window.head()) {
            Pulled::Frame { frame, next, .. } => {
                let copy = frame.to_vec();
                window.release(next);
                return Some(copy);
            }
            Pulled::Filler(next) => window.release(next),
            Pulled::Empty => return None,
        }
    }
}

fn frame(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (n * 31 + i) as u8).collect()
}

/// A claim whose owner goes no further; `tail` moved or not.
fn die(window: &Window, producer: u32, len: usize, tail_moved: bool) {
    let header = window.header();
    let tail = Mark::unpack(header.tail.0.load(Ordering::Relaxed));
    let claim = Claim {
        position: tail.position,
        filler: false,
        count: cells(len),
        producer,
    };
    assert!(window.try_claim(window.capacity(), claim).0);
    if tail_moved {
        let next = tail.behind(claim.count, false);
        header.tail.0.store(next.pack(), Ordering::Relaxed);
    }
}

#[test]
fn the_dead_are_named_and_stepped_over() {
    for tail_moved in [true, false] {
        let window = ring(64, 8);
        assert_eq!(window.push(1, 3, &frame(0, 100), 0), Pushed::Done(false));
        die(&window, 7, 200, tail_moved);
        assert_eq!(window.push(1, 3, &frame(1, 100), 0), Pushed::Done(false));
        assert_eq!(window.claims(), [7]);
        assert_eq!(take(&window), Some(frame(0, 100)));
        assert_eq!(take(&window), None);
        assert!(window.is_claimed(window.head()));
        let (who, next) = window.claimant(window.head()).expect("someone");
        assert_eq!(who, 7);
        window.release(next);
        assert_eq!(take(&window), Some(frame(1, 100)));
        assert!(window.claimant(window.head()).is_none() && window.claims().is_empty());
    }
}

#[test]
fn an_old_owner_gets_nothing_in() {
    let window = ring(64, 8);
    assert_eq!(window.push(1, 3, &frame(0, 100), 0), Pushed::Done(false));
    window.close();
    assert_eq!(window.push(1, 3, &frame(1, 100), 0), Pushed::Gone);
    window.reset(2, 32, 8);
    assert_eq!(take(&window), None, "nothing of the last owner's is left");
    assert_eq!(window.push(1, 3, &frame(1, 100), 0), Pushed::Gone);
    assert_eq!(window.push(2, 3, &frame(2, 100), 0), Pushed::Done(false));
    assert_eq!(take(&window), Some(frame(2, 100)));
}

#[test]
fn a_frame_wakes_once() {
    let window = ring(64, 8);
    window.header().armed.0.store(1, Ordering::Relaxed);
    assert_eq!(window.push(1, 3, &frame(0, 60), 0), Pushed::Done(true));
    assert_eq!(window.push(1, 3, &frame(0, 60), 0), Pushed::Done(false));
}

/// Data that look like the mark of the next position are not taken for one.
#[test]
fn old_bytes_are_no_frame() {
    let window = ring(16, 16);
    // All cells have held bytes of frames, none of which is a mark by accident.
    for n in 0..1000 {
        let data = (n as u64).to_ne_bytes().repeat(1 + n % 40);
        assert_eq!(window.push(1, 3, &data, 0), Pushed::Done(false));
        assert_eq!(take(&window), Some(data));
        assert_eq!(take(&window), None);
    }
}

proptest! {
    /// Frames come out as they went in; a frame is refused only when so many wait as may, or the
    /// cells are used up.
    #[test]
    fn the_ring_is_a_queue(
        capacity in 4..8u32,
        depth in 1..20usize,
        steps in proptest::collection::vec(proptest::option::of(0..240usize), 1..300),
    ) {
        let capacity = 1u64 << capacity;
        let window = ring(capacity, depth);
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        let mut lost = 0;
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Some(len) => {
                    let data = frame(n, len);
                    let used: u64 = model.iter().map(|f| cells(f.len())).sum();
                    match window.push(1, 5, &data, n as u32) {
                        Pushed::Done(asleep) => {
                            prop_assert!(!asleep && model.len() < depth);
                            prop_assert!(used + cells(len) <= capacity);
                            model.push_back(data);
                        }
                        Pushed::Full => {
                            lost += 1;
                            // A filler takes less than the frame that it makes way for; one before
                            // it may still be there.
                            let room = used + 2 * (cells(len) - 1) + cells(240) <= capacity;
                            prop_assert!(model.len() == depth || !room);
                        }
                        Pushed::Gone => prop_assert!(false),
                    }
                }
                None => prop_assert_eq!(take(&window), model.pop_front()),
            }
            prop_assert_eq!(window.header().lost.0.load(Ordering::Relaxed), lost);
        }
        while let Some(expected) = model.pop_front() {
            prop_assert_eq!(take(&window), Some(expected));
        }
        prop_assert_eq!(take(&window), None);
    }
}
