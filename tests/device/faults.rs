//! What goes wrong with a card or on the way to it.

use crate::link::{
    ADDRESSES, Kind, Link, PATIENCE, QUIET, flow, frame, open, readable, take_within,
};
use crate::verbs::{descriptors_open, plain};
use engine::device::{Fault, Queue, Verbs};
use engine::error::{Errno, Reason};
use std::io::Write as _;
use std::time::{Duration, Instant};
use tests::netns;

/// The next report of a queue, which its descriptor announces.
fn next_fault(queue: &mut dyn Queue) -> Fault {
    let fd = queue.event_fd().expect("it has events");
    assert!(readable(fd, PATIENCE), "nothing is announced");
    queue.take_fault().expect("something was announced")
}

/// A port that loses its link and gets it back, a device that is taken away: every queue of
/// the device is told, and what had come before is still handed out.
pub(crate) fn port_and_device() {
    let mut link = Link::open(Kind::Verbs, plain());
    let mut other = open(&Verbs, 1, plain()).expect("the device opens");
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    assert_eq!(link.queue().take_fault(), None);
    let fd = link.queue().event_fd().expect("it has events");
    assert!(!readable(fd, Duration::ZERO));
    ip("link set vdev1 down");
    assert_eq!(next_fault(link.queue()), Fault::PortDown);
    assert_eq!(other.queue.take_fault(), Some(Fault::PortDown));
    assert_eq!(link.queue().take_fault(), None);
    assert!(!readable(fd, Duration::ZERO), "all is told");
    ip("link set vdev1 up");
    assert_eq!(next_fault(link.queue()), Fault::PortUp);
    assert_eq!(other.queue.take_fault(), Some(Fault::PortUp));
    carrier_is_settled(&mut *link.sender.queue);
    link.send(5000, b"one");
    link.send(5000, b"two");
    assert_eq!(link.take(), b"one");
    ip("link del vdev1");
    let mut told = Vec::new();
    while told.last() != Some(&Fault::Gone) {
        told.push(next_fault(link.queue()));
        told.extend(std::iter::from_fn(|| link.queue().take_fault()));
    }
    assert!(told.len() <= 2 && told[0] != Fault::PortUp, "{told:?}");
    assert!(Fault::Gone.is_fatal());
    // It was taken from the card together with the first, or it lies there still.
    assert_eq!(link.take(), b"two");
}

/// The other end of a veth pair lost its carrier too. The kernel's link watch tells that once a
/// second, and nothing of a loss that is over by then.
fn carrier_is_settled(queue: &mut dyn Queue) {
    let fd = queue.event_fd().expect("it has events");
    let mut last = Fault::PortUp;
    while last != Fault::PortUp || readable(fd, Duration::from_millis(1200)) {
        last = std::iter::from_fn(|| queue.take_fault())
            .last()
            .unwrap_or_else(|| next_fault(queue));
    }
}

fn ip(words: &str) {
    let words: Vec<_> = words.split_whitespace().collect();
    netns::ip(&words).expect("the namespace is ours");
}

/// A port without link when it is opened.
pub(crate) fn no_link_at_first() {
    ip("link set vdev0 down");
    let mut link = Link::open(Kind::Verbs, plain());
    assert_eq!(next_fault(link.queue()), Fault::PortDown);
    ip("link set vdev0 up");
    assert_eq!(next_fault(link.queue()), Fault::PortUp);
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    link.send(5000, b"up");
    assert_eq!(link.take(), b"up");
}

/// Tells the library what is to go wrong from now on.
fn order(text: &str) {
    let path = std::env::var("SOFTVERBS_CONTROL").expect("set by the test");
    let mut file = std::fs::File::options()
        .append(true)
        .open(path)
        .expect("the file is there");
    file.write_all(format!("{text}\n").as_bytes())
        .expect("a file can be written");
    // It is watched, not asked.
    std::thread::sleep(Duration::from_millis(200));
}

/// A receive that completes in error: the frames before it are handed out, nothing after it.
pub(crate) fn receive_error() {
    let mut link = Link::open(Kind::Verbs, plain());
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    link.send(5000, b"zero");
    assert_eq!(link.take(), b"zero");
    order("vdev1/error=3:4");
    for payload in [b"one", b"two", b"bad", b"off"] {
        link.send(5000, payload);
    }
    assert_eq!(link.take(), b"one");
    assert_eq!(link.take(), b"two");
    link.expect_nothing();
    assert_eq!(next_fault(link.queue()), Fault::QueueError);
    assert_eq!(link.queue().take_fault(), None, "told once");
    link.send(5000, b"late");
    link.expect_nothing();
    // A queue opened anew works.
    let mut anew = Link::open(Kind::Verbs, plain());
    drop(link);
    anew.queue().steer(&[flow(5000)]).expect("room for a flow");
    anew.send(5000, b"anew");
    assert_eq!(anew.take(), b"anew");
}

/// A send that completes in error: sends are refused from there on.
pub(crate) fn send_error() {
    let mut link = Link::open(Kind::Verbs, plain());
    link.queue().steer(&[flow(5000)]).expect("room for a flow");
    order("vdev0/tx.error=5:4");
    let deadline = Instant::now() + PATIENCE;
    let error = loop {
        let frame = frame(ADDRESSES[1], [5000; 2], b"frame");
        match link.sender.transmit.send(&frame) {
            Ok(()) | Err(Errno::AGAIN) => assert!(Instant::now() < deadline),
            Err(other) => break other,
        }
    };
    assert_eq!(error, Errno(libc::ENETDOWN));
    assert_eq!(next_fault(&mut *link.sender.queue), Fault::QueueError);
    assert_eq!(link.queue().take_fault(), None, "the other device is well");
    // Those before it have arrived.
    for _ in 0..4 {
        assert_eq!(link.take(), b"frame");
    }
}

/// What the device reports of itself.
pub(crate) fn fatal_events() {
    let events = [
        ("qp_fatal", Fault::QueueError),
        ("cq_error", Fault::Overrun),
        ("device_fatal", Fault::Gone),
    ];
    for (event, fault) in events {
        let mut link = Link::open(Kind::Verbs, plain());
        link.queue().steer(&[flow(5000)]).expect("room for a flow");
        link.send(5000, b"before");
        link.send(5000, b"with it");
        assert_eq!(link.take(), b"before");
        order(&format!("vdev1/event={event}"));
        let told = next_fault(link.queue());
        assert_eq!(told, fault, "{event}");
        assert!(told.is_fatal());
        // Taken together with the first, or not.
        if let Some(bytes) = take_within(link.queue(), QUIET) {
            assert_eq!(bytes, b"with it");
        }
        assert_eq!(take_within(link.queue(), QUIET), None);
        // Not twice in another guise for the same reason, and never a hang.
        let more: Vec<_> = std::iter::from_fn(|| link.queue().take_fault()).collect();
        assert!(more.len() <= 3, "{more:?}");
        drop(link);
        let mut anew = Link::open(Kind::Verbs, plain());
        anew.queue().steer(&[flow(5000)]).expect("room for a flow");
        anew.send(5000, b"anew");
        assert_eq!(anew.take(), b"anew", "after {event}");
    }
}

/// Every call on the way may fail: the reason is named, nothing is left behind, and the
/// next attempt succeeds.
pub(crate) fn refused_calls() {
    // Whatever is opened once and kept is opened now.
    drop(open(&Verbs, 1, plain()).expect("the device opens"));
    let before = descriptors_open();
    let failures = [
        ("open_device:1", libc::ENODEV, Reason::NoRdmaDevice),
        ("open_device:1", libc::EMFILE, Reason::NoResources),
        ("query_port:1", libc::EINVAL, Reason::NoRdmaDevice),
        ("alloc_pd:1", libc::ENOMEM, Reason::NoResources),
        ("reg_mr:*", libc::ENOMEM, Reason::LockedMemory),
        ("create_comp_channel:1", libc::EMFILE, Reason::NoResources),
        ("create_cq:*", libc::ENOMEM, Reason::NoQueuePairs),
        ("create_qp:*", libc::ENOMEM, Reason::NoQueuePairs),
        ("create_qp:1", libc::EPERM, Reason::NoPermission),
        ("create_qp:*", libc::EINVAL, Reason::NoRawPacket),
        ("modify_qp:1", libc::EIO, Reason::NoQueuePairs),
        ("modify_qp:3", libc::EIO, Reason::NoQueuePairs),
        ("create_flow:1", libc::EPERM, Reason::NoPermission),
        ("create_flow:1", libc::ENOMEM, Reason::NoFlowRules),
        ("create_flow:1", libc::EOPNOTSUPP, Reason::NoFlowSteering),
    ];
    for (call, errno, reason) in failures {
        order(&format!("fail={call}:{errno}"));
        let refused = open(&Verbs, 1, plain())
            .map(|mut opened| opened.queue.steer(&[flow(5000)]))
            .and_then(|steered| steered);
        assert_eq!(refused, Err(reason), "{call}");
        let name = call.split(':').next().unwrap_or_default();
        order(&format!("fail={name}:0:{errno}"));
        assert_eq!(descriptors_open(), before, "{call} leaves something behind");
        drop(open(&Verbs, 1, plain()).expect("the device opens again"));
    }
}
