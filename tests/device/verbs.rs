//! What only the verbs device has: capabilities, queue pairs, flow rules.

use crate::link::{
    ADDRESSES, GROUP, Kind, Link, NAMES, QUIET, flow, frame, open, send, take_within,
};
use engine::device::{Flow, QueueOptions, Verbs, VerbsOptions};
use engine::error::{Errno, Reason};
use std::collections::BTreeSet;

fn options(verbs: VerbsOptions) -> QueueOptions {
    QueueOptions {
        verbs,
        ..QueueOptions::default()
    }
}

pub(crate) fn plain() -> QueueOptions {
    options(VerbsOptions {
        receives: Some(64),
        sends: 64,
        send_batch: 8,
        ..VerbsOptions::default()
    })
}

/// The device refuses for the reason that is named in the environment.
pub(crate) fn refusal() {
    let wanted = std::env::var("DEVICE_REASON").expect("set by the test");
    let reason = open(&Verbs, 0, plain())
        .map(|mut opened| opened.queue.steer(&[flow(5000), flow(5001), flow(5002)]))
        .and_then(|steered| steered)
        .expect_err("it must refuse");
    assert_eq!(format!("{reason:?}"), wanted);
}

/// Several queues of an interface, one after the other and together.
pub(crate) fn shares_the_device() {
    let first = open(&Verbs, 1, plain()).expect("the device opens");
    let before = descriptors_open();
    let second = open(&Verbs, 1, plain()).expect("the device opens");
    assert_eq!(second.device, format!("softverbs_{}", NAMES[1]));
    assert_eq!(
        first.queue.event_fd(),
        second.queue.event_fd(),
        "one context"
    );
    drop(first);
    drop(second);
    let third = open(&Verbs, 1, plain()).expect("the device opens anew");
    let after = descriptors_open();
    assert!(
        after.len() <= before.len(),
        "left behind: {before:?} {after:?}"
    );
    drop(third);
}

/// A send queue that is full says so, loses nothing, and takes frames again.
pub(crate) fn full_send_queue() {
    let mut link = Link::open(
        Kind::Verbs,
        options(VerbsOptions {
            receives: Some(4096),
            sends: 16,
            send_batch: 8,
            ..VerbsOptions::default()
        }),
    );
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    let mut accepted = 0u32;
    let mut refused = 0;
    while accepted < 1000 {
        let frame = frame(ADDRESSES[1], [5000; 2], &accepted.to_be_bytes());
        match link.sender.transmit.send(&frame) {
            Ok(()) => accepted += 1,
            Err(Errno::AGAIN) => refused += 1,
            Err(other) => panic!("{other}"),
        }
        assert!(refused < 100_000_000);
    }
    for number in 0..accepted {
        assert_eq!(link.take(), number.to_be_bytes());
    }
    let long = vec![0; 4096];
    assert_eq!(link.sender.transmit.send(&long), Err(Errno::MSGSIZE));
}

/// Rules that several flows have in common go with the last.
pub(crate) fn rules_come_and_go() {
    let mut link = Link::open(Kind::Verbs, plain());
    let flows: Vec<Flow> = (0..50).map(|n| flow(5000 + n)).collect();
    for step in [1, 7, 50, 7, 1, 0, 50] {
        link.queue().steer(&flows[..step]).expect("room for them");
        for (n, port) in (5000..5050).enumerate() {
            link.send(port, &[n as u8]);
        }
        let mut came = BTreeSet::new();
        while let Some(bytes) = take_within(link.queue(), QUIET) {
            assert!(came.insert(usize::from(bytes[0])), "twice");
        }
        assert_eq!(came, (0..step).collect());
    }
    let card = flow(4791);
    assert_eq!(link.queue().steer(&[card]), Err(Reason::RocePort));
    link.send(5049, b"still");
    assert_eq!(link.take(), b"still", "the rules of before stay");
}

/// The device has room for four rules only.
pub(crate) fn rolls_back() {
    let mut link = Link::open(Kind::Verbs, plain());
    let flows: Vec<Flow> = (0..6).map(|n| flow(5000 + n)).collect();
    link.queue().steer(&flows[..2]).expect("room for two");
    assert_eq!(link.queue().steer(&flows), Err(Reason::NoFlowRules));
    for port in 5000..5006 {
        link.send(port, &port.to_be_bytes());
    }
    assert_eq!(link.take(), 5000u16.to_be_bytes());
    assert_eq!(link.take(), 5001u16.to_be_bytes());
    link.expect_nothing();
    link.queue()
        .steer(&flows[2..4])
        .expect("two more, then two less");
    link.queue()
        .steer(&flows[..4])
        .expect("what failed has left nothing");
}

/// VMA_ETH_MC_L2_ONLY_RULES.
pub(crate) fn by_mac_alone() {
    let mut link = Link::open(
        Kind::Verbs,
        options(VerbsOptions {
            receives: Some(64),
            multicast_by_mac: true,
            ..VerbsOptions::default()
        }),
    );
    let group = |port| Flow {
        destination: GROUP,
        ..flow(port)
    };
    link.queue()
        .steer(&[group(5000), group(5001)])
        .expect("one rule");
    send(&link.sender, &frame(GROUP, [5002; 2], b"any port"));
    assert_eq!(link.take(), b"any port");
    link.queue().steer(&[group(5001)]).expect("the same rule");
    send(&link.sender, &frame(GROUP, [5000; 2], b"still"));
    assert_eq!(link.take(), b"still");
    link.queue().steer(&[]).expect("none");
    send(&link.sender, &frame(GROUP, [5001; 2], b"gone"));
    link.expect_nothing();
}

/// The card's time, of the moment at which the frame came and not at which it was taken.
pub(crate) fn stamps() {
    let mut link = Link::open(Kind::Verbs, plain());
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    link.send(5000, b"now");
    let arrived = engine::clock::realtime();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let stamp = loop {
        if let Some(frame) = link.queue().next() {
            break frame.timestamp;
        }
    };
    let late = engine::clock::realtime() - stamp;
    let by_card = std::env::var("DEVICE_STAMPS").as_deref() == Ok("card");
    if by_card {
        assert!(
            stamp <= arrived + 100_000_000,
            "stamped by the card, {late} ns ago"
        );
    } else {
        assert!(
            late < 200_000_000,
            "stamped when it was taken, {late} ns ago"
        );
    }
}

/// Descriptors of the engine and of the device's objects; what the software wire keeps for
/// itself has other numbers.
pub(crate) fn descriptors_open() -> Vec<i32> {
    let dir = std::fs::read_dir("/proc/self/fd").expect("proc is mounted");
    dir.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 512)
        .collect()
}

/// Bytes of mappings that a fork does not copy (`dc`: MADV_DONTFORK).
fn out_of_children() -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("proc is mounted");
    let mut bytes = 0;
    let mut size = 0;
    for line in maps.lines() {
        if let Some(text) = line.strip_prefix("Size:") {
            let number = text.trim().trim_end_matches(" kB").parse::<usize>();
            size = number.expect("proc(5)") << 10;
        }
        if line.starts_with("VmFlags:") && line.contains(" dc") {
            bytes += size;
        }
    }
    bytes
}

/// The engine's descriptors are out of the program's way, its memory out of the children's.
pub(crate) fn descriptors() {
    let opened = open(&Verbs, 0, plain()).expect("the device opens");
    let sleep = opened.queue.sleep_fd().expect("it can be slept on");
    let event = opened.queue.event_fd().expect("it has events");
    for fd in [sleep, event] {
        assert!(fd > 512, "{fd}");
        assert!(engine::sys::fd::is_internal(fd));
    }
    let kept_out = out_of_children();
    assert!(kept_out > 128 << 10, "64 buffers of each side: {kept_out}");
    drop(opened);
    assert!(!engine::sys::fd::is_internal(sleep), "given back");
    assert!(out_of_children() + (128 << 10) < kept_out);
}

/// Sends a few frames of both kinds, for the trace.
pub(crate) fn traced() {
    let mut link = Link::open(
        Kind::Verbs,
        options(VerbsOptions {
            receives: Some(64),
            receive_batch: 8,
            sends: 32,
            send_batch: 4,
            inline: 128,
            moderation: Some((7, 9)),
            ..VerbsOptions::default()
        }),
    );
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    for number in 0..16u32 {
        let length = if number % 2 == 0 { 10 } else { 500 };
        link.send(5000, &vec![number as u8; length]);
    }
    for number in 0..16u32 {
        assert_eq!(link.take()[0], number as u8);
    }
}

/// Sends and receives between two calls that a trace shows.
pub(crate) fn no_system_call() {
    let mut link = Link::open(Kind::Verbs, plain());
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    // Both kinds: inside the request, and by way of a buffer.
    let frames = [10, 500].map(|length| frame(ADDRESSES[1], [5000; 2], &vec![7; length]));
    let mut turn = || {
        for frame in &frames {
            while link.sender.transmit.send(frame).is_err() {}
            let queue = link.queue();
            while queue.next().is_none() {}
            queue.release();
        }
    };
    (0..200).for_each(|_| turn());
    std::thread::yield_now();
    (0..5000).for_each(|_| turn());
    std::thread::yield_now();
}
