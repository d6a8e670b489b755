//! What every device does, whatever it is made of.

pub(crate) use crate::link::Kind;
use crate::link::{
    ADDRESSES, GROUP, Link, PATIENCE, QUIET, flow, frame, payload, readable, send, take_within,
};
use engine::clock;
use engine::device::{Flow, QueueOptions, VerbsOptions};
use std::net::SocketAddrV4;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

type Part = fn(Kind);

/// The suite.
pub(crate) const PARTS: &[(&str, Part)] = &[
    ("brings what is steered and nothing else", steering),
    ("a frame stays until it is released", in_place),
    ("frames keep their bytes and their order", order),
    ("any length up to the MTU", lengths),
    ("a burst above the ring", burst),
    ("several threads send", threads),
    ("a sleeper is woken", sleep),
    ("one sender only", peer),
    ("groups", multicast),
    ("sharing comes and goes", sharing),
    ("a queue can be opened again, and twice", again),
];

/// A ring that a test can fill.
fn small() -> QueueOptions {
    QueueOptions {
        slots: 2048,
        verbs: VerbsOptions {
            receives: Some(256),
            receive_batch: 16,
            sends: 64,
            send_batch: 8,
            ..VerbsOptions::default()
        },
        ..QueueOptions::default()
    }
}

fn steering(kind: Kind) {
    let mut link = Link::open(kind, small());
    link.send(5000, b"too early");
    link.expect_nothing();
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    link.send(5001, b"another port");
    link.send(5000, b"first");
    assert_eq!(link.take(), b"first");
    link.queue()
        .steer(&[flow(5000), flow(5001)])
        .expect("room for two");
    link.send(5001, b"second");
    assert_eq!(link.take(), b"second");
    link.send(5000, b"third");
    assert_eq!(link.take(), b"third");
    link.queue().steer(&[flow(5001)]).expect("less than before");
    link.send(5000, b"gone");
    link.send(5001, b"fourth");
    assert_eq!(link.take(), b"fourth");
    link.queue().steer(&[]).expect("nothing is always possible");
    link.send(5001, b"too late");
    link.expect_nothing();
}

fn in_place(kind: Kind) {
    let mut link = Link::open(kind, small());
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    let before = clock::realtime();
    link.send(5000, b"one");
    link.send(5000, b"two");
    assert!(wait_ready(&mut link));
    let queue = link.queue();
    for _ in 0..3 {
        let frame = queue.next().expect("it was there a moment ago");
        assert_eq!(payload(frame.data), b"one");
        assert_eq!(frame.segment, 0);
        // The memory device counts frames instead of reading a clock.
        let slack = 1_000_000_000;
        assert!(frame.timestamp + slack > before, "a time of this epoch");
        assert!(frame.timestamp < clock::realtime() + slack);
    }
    queue.release();
    assert_eq!(link.take(), b"two");
    assert!(link.queue().next().is_none());
}

/// Until a frame can be seen.
fn wait_ready(link: &mut Link) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if link.queue().next().is_some() {
            return true;
        }
    }
    false
}

fn order(kind: Kind) {
    let mut link = Link::open(kind, small());
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    // Several times round every ring, in bursts that each can hold.
    for burst in 0..100u32 {
        let numbers = burst * 32..(burst + 1) * 32;
        for number in numbers.clone() {
            link.send(5000, &number.to_be_bytes().repeat(1 + number as usize % 60));
        }
        for number in numbers {
            let expected = number.to_be_bytes().repeat(1 + number as usize % 60);
            assert_eq!(link.take(), expected, "frame {number}");
        }
    }
    assert_eq!(link.queue().take_drops(), 0);
}

fn lengths(kind: Kind) {
    let mut link = Link::open(kind, small());
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    // Around what fits inside a request, and the ends.
    for length in [0, 1, 17, 18, 161, 162, 163, 512, 1471, 1472] {
        let bytes: Vec<u8> = (0..length).map(|i| i as u8).collect();
        link.send(5000, &bytes);
        assert_eq!(link.take(), bytes, "{length} bytes");
    }
}

fn burst(kind: Kind) {
    let mut link = Link::open(kind, small());
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    let _ = link.queue().take_drops();
    let sent = 4 * link.receiver().slots;
    for number in 0..sent {
        link.send(5000, &number.to_be_bytes());
    }
    let mut received = 0;
    let mut last = None;
    while let Some(bytes) = take_within(link.queue(), QUIET) {
        let number = u32::from_be_bytes(bytes.try_into().expect("four bytes"));
        assert!(last < Some(number), "in order: {last:?} {number}");
        last = Some(number);
        received += 1;
    }
    assert!(received > 0 && received <= sent);
    let lost = link.queue().take_drops();
    if kind != Kind::Verbs {
        // A card counts for the port as a whole, where it counts at all.
        assert_eq!(u64::from(received) + lost, u64::from(sent));
    }
    // It goes on.
    link.send(5000, b"after");
    assert_eq!(link.take(), b"after");
}

fn threads(kind: Kind) {
    const EACH: u32 = 1000;
    const AT_ONCE: u32 = 64;
    let mut link = Link::open(kind, small());
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    // No more on the way than any ring holds.
    let (sent, received) = (AtomicU32::new(0), AtomicU32::new(0));
    let Link { sender, far } = &mut link;
    let transmit = &sender.transmit;
    let queue = far.as_mut().map_or(&mut sender.queue, |far| &mut far.queue);
    let mut came = [0u32; 4];
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let (sent, received) = (&sent, &received);
            scope.spawn(move || {
                for number in 0..EACH {
                    let place = sent.fetch_add(1, Ordering::SeqCst);
                    let deadline = Instant::now() + PATIENCE;
                    let behind = || place - received.load(Ordering::SeqCst).min(place);
                    while behind() >= AT_ONCE {
                        assert!(Instant::now() < deadline, "stuck");
                        std::thread::yield_now();
                    }
                    let bytes = [thread.to_be_bytes(), number.to_be_bytes()].concat();
                    let frame = frame(ADDRESSES[1], [5000; 2], &bytes);
                    while transmit.send(&frame).is_err() {
                        assert!(Instant::now() < deadline, "full for good");
                        std::thread::yield_now();
                    }
                }
            });
        }
        for _ in 0..4 * EACH {
            let bytes = take_within(&mut **queue, PATIENCE).expect("a frame comes");
            received.fetch_add(1, Ordering::SeqCst);
            let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
            let count = &mut came[word(0) as usize];
            assert_eq!(word(4), *count, "each thread's own order");
            *count += 1;
        }
    });
    assert_eq!(came, [EACH; 4]);
}

fn sleep(kind: Kind) {
    let mut link = Link::open(kind, small());
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    let Some(fd) = link.queue().sleep_fd() else {
        assert_eq!(kind, Kind::Memory, "the others can be slept on");
        return;
    };
    for round in 0..20u8 {
        assert!(link.queue().arm(), "nothing waits");
        assert!(!readable(fd, Duration::ZERO), "round {round}");
        link.send(5000, &[round]);
        assert!(readable(fd, PATIENCE), "round {round}");
        assert_eq!(link.take(), [round]);
        if round % 2 == 0 {
            // A frame that came before is seen by arming, not by sleeping.
            link.send(5000, b"before");
            assert!(wait_ready(&mut link));
            assert!(!link.queue().arm());
            assert_eq!(link.take(), b"before");
        }
    }
    // Another sleeper while one sleeps already.
    assert!(link.queue().arm());
    assert!(link.queue().arm());
    link.send(5000, b"both");
    assert!(readable(fd, PATIENCE));
    assert_eq!(link.take(), b"both");
}

fn peer(kind: Kind) {
    if kind != Kind::Verbs {
        return; // these go by port alone
    }
    let mut link = Link::open(kind, small());
    let only = Flow {
        peer: Some(SocketAddrV4::new(ADDRESSES[0], 6000)),
        ..flow(5000)
    };
    link.queue().steer(&[only]).expect("room for a flow");
    send(
        &link.sender,
        &frame(ADDRESSES[1], [6001, 5000], b"stranger"),
    );
    send(&link.sender, &frame(ADDRESSES[1], [6000, 5000], b"peer"));
    assert_eq!(link.take(), b"peer");
    link.expect_nothing();
}

fn multicast(kind: Kind) {
    if kind == Kind::Memory {
        return;
    }
    let mut link = Link::open(kind, small());
    let group = Flow {
        destination: GROUP,
        ..flow(5000)
    };
    link.queue().steer(&[group]).expect("room for a flow");
    send(&link.sender, &frame(GROUP, [5000; 2], b"to the group"));
    assert_eq!(link.take(), b"to the group");
    if kind == Kind::Verbs {
        link.send(5000, b"to the host");
        let other = "239.79.1.3".parse().expect("an address");
        send(&link.sender, &frame(other, [5000; 2], b"to another group"));
        link.expect_nothing();
    }
}

/// A flow that is shared and not shared in turn loses nothing and brings nothing twice.
fn sharing(kind: Kind) {
    let mut link = Link::open(kind, small());
    let flows = [false, true].map(|shared| Flow {
        shared,
        ..flow(5000)
    });
    link.queue().steer(&flows[..1]).expect("room for a flow");
    for number in 0..2000u32 {
        link.send(5000, &number.to_be_bytes());
        // With the frame on its way or not yet taken.
        let turn = usize::from(number % 3 == 0);
        link.queue()
            .steer(&flows[turn..=turn])
            .expect("it was there before");
        assert_eq!(link.take(), number.to_be_bytes());
    }
    link.expect_nothing();
}

fn again(kind: Kind) {
    for round in 0..3u8 {
        let mut link = Link::open(kind, small());
        link.queue().steer(&[flow(5000)]).expect("room for a flow");
        link.send(5000, &[round]);
        assert_eq!(link.take(), [round]);
        link.send(5000, b"left behind");
    }
    if kind == Kind::Memory {
        return;
    }
    let mut one = Link::open(kind, small());
    let mut two = Link::open(kind, small());
    for link in [&mut one, &mut two] {
        link.queue().steer(&[flow(5000)]).expect("room for a flow");
    }
    one.send(5000, b"to both");
    assert_eq!(one.take(), b"to both");
    assert_eq!(two.take(), b"to both");
    drop(one);
    two.send(5000, b"to the one that is left");
    assert_eq!(two.take(), b"to the one that is left");
}
