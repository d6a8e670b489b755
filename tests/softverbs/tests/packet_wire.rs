//! The wire over a veth: what the queue gets, the kernel does not, and nothing is lost between.
//! Needs root: namespaces, packet sockets and programs.

mod support;

use softverbs::wire::{Checksums, Incident, WireQueue, open_packet};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use support::{Link, PATIENCE, Raised, nobody, payload, rule};

/// Next frame's payload, waiting a little.
fn next(queue: &dyn WireQueue) -> Option<Vec<u8>> {
    let until = Instant::now() + Duration::from_millis(300);
    let mut got = None;
    while got.is_none() && Instant::now() < until {
        queue.receive(&mut |frame, meta| {
            assert_eq!(meta.checksums, Checksums::Good);
            got = Some(payload(frame).to_vec());
            true
        });
    }
    got
}

fn kernel(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut buffer = [0; 2048];
    socket.recv(&mut buffer).ok().map(|n| buffer[..n].to_vec())
}

#[test]
fn an_ordinary_rule_keeps_the_frame_from_the_kernel() {
    let link = Link::new();
    let wire = open_packet(&link.interface_a(), nobody()).expect("wire");
    let queue = wire.open_queue(64).expect("queue");
    let (there, here) = (link.socket_b(4000), link.socket_a(5000));
    let send = |text: &[u8]| there.send_to(text, "10.77.0.1:5000").expect("send");
    send(b"one");
    assert_eq!(kernel(&here).as_deref(), Some(&b"one"[..]));
    assert_eq!(next(&*queue), None);

    let id = wire.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    send(b"two");
    assert_eq!(next(&*queue).as_deref(), Some(&b"two"[..]));
    assert_eq!(kernel(&here), None);

    wire.detach(id);
    send(b"three");
    assert_eq!(kernel(&here).as_deref(), Some(&b"three"[..]));
    assert_eq!(next(&*queue), None);
}

#[test]
fn a_sharing_rule_lets_the_kernel_have_it_too() {
    let link = Link::new();
    let wire = open_packet(&link.interface_a(), nobody()).expect("wire");
    let queue = wire.open_queue(64).expect("queue");
    let (there, here) = (link.socket_b(4000), link.socket_a(5000));
    let send = |text: &[u8]| there.send_to(text, "10.77.0.1:5000").expect("send");
    wire.attach(&*queue, &rule(5000, 1, true)).expect("rule");
    send(b"both");
    assert_eq!(next(&*queue).as_deref(), Some(&b"both"[..]));
    assert_eq!(kernel(&here).as_deref(), Some(&b"both"[..]));

    // An ordinary rule of a smaller number comes first, and ends it.
    let first = wire.open_queue(64).expect("queue");
    let id = wire.attach(&*first, &rule(5000, 0, false)).expect("rule");
    send(b"first");
    assert_eq!(next(&*first).as_deref(), Some(&b"first"[..]));
    assert_eq!(next(&*queue), None);
    assert_eq!(kernel(&here), None);

    // Of the same number it comes second: both get it.
    wire.detach(id);
    wire.attach(&*first, &rule(5000, 1, false)).expect("rule");
    send(b"second");
    assert_eq!(next(&*first).as_deref(), Some(&b"second"[..]));
    assert_eq!(next(&*queue).as_deref(), Some(&b"second"[..]));
    assert_eq!(kernel(&here), None);
}

#[test]
fn wires_of_one_interface_are_one_card() {
    let link = Link::new();
    let interface = link.interface_a();
    let wires = [(); 3].map(|()| open_packet(&interface, nobody()).expect("wire"));
    let queues = wires.each_ref().map(|w| w.open_queue(64).expect("queue"));
    let there = link.socket_b(4000);
    let send = |text: &[u8]| there.send_to(text, "10.77.0.1:5000").expect("send");
    let same = rule(5000, 0, false);
    wires[1].attach(&*queues[1], &same).expect("rule");
    wires[2].attach(&*queues[2], &same).expect("rule");
    // Overlaps without being the same, and came later.
    let mut wider = same;
    wider.ethernet = None;
    wires[0].attach(&*queues[0], &wider).expect("rule");
    send(b"copies");
    assert_eq!(next(&*queues[1]).as_deref(), Some(&b"copies"[..]));
    assert_eq!(next(&*queues[2]).as_deref(), Some(&b"copies"[..]));
    assert_eq!(next(&*queues[0]), None);
    // The first instance, which served all, goes: the next takes its place.
    let [_, q1, _] = queues;
    let [w0, w1, w2] = wires;
    drop((w0, w2));
    send(b"again");
    assert_eq!(next(&*q1).as_deref(), Some(&b"again"[..]));
    drop(w1);
}

/// Runs as a process of its own when told so; else there is nothing to do.
#[test]
fn role_of_a_process_that_dies() {
    let Ok(ns) = std::env::var("SVWIRE_ROLE_NS") else {
        return;
    };
    support::enter(&ns);
    let wire = open_packet(&support::interface("a0"), nobody()).expect("wire");
    let queue = wire.open_queue(64).expect("queue");
    wire.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    println!("ready");
    std::thread::sleep(PATIENCE);
}

#[test]
fn a_killed_process_leaves_nothing_behind() {
    use std::io::{BufRead as _, BufReader};
    let link = Link::new();
    let (there, here) = (link.socket_b(4000), link.socket_a(5000));
    // With a survivor whose program goes on, and without one.
    for survivor in [true, false] {
        let mut child = Command::new(std::env::current_exe().expect("own path"))
            .args(["--exact", "role_of_a_process_that_dies", "--nocapture"])
            .env("SVWIRE_ROLE_NS", &link.a)
            .stdout(Stdio::piped())
            .spawn()
            .expect("child");
        let lines = BufReader::new(child.stdout.take().expect("pipe")).lines();
        assert!(lines.map_while(Result::ok).any(|l| l.contains("ready")));
        let wire = survivor.then(|| {
            let wire = open_packet(&link.interface_a(), nobody()).expect("wire");
            let queue = wire.open_queue(64).expect("queue");
            wire.attach(&*queue, &rule(5001, 0, false)).expect("rule");
            (queue, wire)
        });
        there.send_to(b"kept", "10.77.0.1:5000").expect("send");
        assert_eq!(kernel(&here), None);
        child.kill().expect("kill");
        child.wait().expect("wait");
        there.send_to(b"back", "10.77.0.1:5000").expect("send");
        assert_eq!(kernel(&here).as_deref(), Some(&b"back"[..]));
        drop(wire);
    }
}

/// Every number goes to the kernel or to the queue, once, while a rule comes and goes.
#[test]
fn a_rule_comes_and_goes_without_loss_or_double() {
    const FRAMES: usize = 200_000;
    let link = Link::new();
    let wire = open_packet(&link.interface_a(), nobody()).expect("wire");
    let queue: Arc<dyn WireQueue> = Arc::from(wire.open_queue(32768).expect("queue"));
    let (there, here) = (link.socket_b(4000), link.socket_a(5000));
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&here, 256 << 20).expect("buffer");
    let sender = std::thread::spawn(move || {
        there.connect("10.77.0.1:5000").expect("connect");
        for n in 0..FRAMES as u32 {
            there.send(&n.to_ne_bytes()).expect("send");
        }
    });
    let number = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("a number")) as usize;
    let mut seen = vec![0u8; FRAMES];
    let mut by_queue = 0usize;
    let mut changes = 0;
    let mut id = None;
    let mut drain = |seen: &mut Vec<u8>| {
        while queue.receive(&mut |frame, _| {
            seen[number(payload(frame))] += 1;
            by_queue += 1;
            true
        }) {}
    };
    while !sender.is_finished() || changes < 100 {
        id = match id.take() {
            Some(id) => {
                wire.detach(id);
                None
            }
            None => Some(wire.attach(&*queue, &rule(5000, 0, false)).expect("rule")),
        };
        changes += 1;
        drain(&mut seen);
    }
    sender.join().expect("sender");
    drain(&mut seen);
    let mut buffer = [0; 64];
    let mut by_kernel = 0;
    while let Ok(n) = here.recv(&mut buffer) {
        seen[number(&buffer[..n])] += 1;
        by_kernel += 1;
    }
    eprintln!("{changes} changes, {by_queue} by the queue, {by_kernel} by the kernel");
    assert_eq!(queue.lost(), 0);
    assert!(by_queue > 1000 && by_kernel > 1000 && changes >= 100);
    assert_eq!(seen.iter().position(|&n| n != 1), None);
}

#[test]
fn an_armed_queue_becomes_readable_once() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let link = Link::new();
    let wire = open_packet(&link.interface_a(), nobody()).expect("wire");
    let queue = wire.open_queue(64).expect("queue");
    wire.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    let there = link.socket_b(4000);
    let readable = |ms: i64| {
        // SAFETY: the queue keeps it open.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(queue.event_fd()) };
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: ms * 1_000_000,
        };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&wait)).expect("poll") == 1
    };
    there.send_to(b"unarmed", "10.77.0.1:5000").expect("send");
    assert!(!readable(50));
    assert!(next(&*queue).is_some());
    for _ in 0..3 {
        queue.arm();
        assert!(!readable(20));
        there.send_to(b"armed", "10.77.0.1:5000").expect("send");
        assert!(readable(900));
        queue.acknowledge();
        assert!(!readable(0));
        assert!(next(&*queue).is_some());
        there.send_to(b"unarmed", "10.77.0.1:5000").expect("send");
        assert!(!readable(20));
        assert!(next(&*queue).is_some());
    }
}

#[test]
fn super_frames_fragments_and_strangers() {
    let link = Link::new();
    let wire = open_packet(&link.interface_a(), nobody()).expect("wire");
    let queue = wire.open_queue(64).expect("queue");
    wire.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    let (there, here) = (link.socket_b(4000), link.socket_a(5000));
    // One call, four datagrams: they arrive as one super-frame on a veth.
    let segment = 500u16;
    set_segment(&there, i32::from(segment));
    let data: Vec<u8> = (0..1700u32).map(|i| (i / 7) as u8).collect();
    there.send_to(&data, "10.77.0.1:5000").expect("send");
    let mut whole = Vec::new();
    for len in [500, 500, 500, 200] {
        let part = next(&*queue).expect("a datagram");
        assert_eq!(part.len(), len);
        whole.extend(part);
    }
    assert_eq!(whole, data);
    // A fragmented datagram is the kernel's, whole.
    set_segment(&there, 0);
    there.send_to(&[7; 4000], "10.77.0.1:5000").expect("send");
    let mut buffer = vec![0; 8000];
    assert_eq!(here.recv(&mut buffer).expect("the whole datagram"), 4000);
    assert_eq!(next(&*queue), None);
}

fn set_segment(socket: &UdpSocket, size: i32) {
    use std::os::fd::AsRawFd as _;
    // SAFETY: a live int for UDP_SEGMENT.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const size).cast(),
            4,
        )
    };
    assert_eq!(rc, 0);
}

#[test]
fn time_stamps_are_of_the_clock_everybody_reads() {
    let link = Link::new();
    let wire = open_packet(&link.interface_a(), nobody()).expect("wire");
    let queue = wire.open_queue(64).expect("queue");
    wire.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    let now = || {
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .expect("after 1970")
            .as_nanos() as u64
    };
    let before = now();
    link.socket_b(4000)
        .send_to(b"x", "10.77.0.1:5000")
        .expect("send");
    let mut stamp = 0;
    let until = Instant::now() + PATIENCE;
    while stamp == 0 && Instant::now() < until {
        queue.receive(&mut |_, meta| {
            stamp = meta.timestamp_ns;
            true
        });
    }
    assert!((before..=now()).contains(&stamp));
}

#[test]
fn frames_go_out_and_the_carrier_is_watched() {
    let link = Link::new();
    let raised = Arc::new(Raised::default());
    let wire = open_packet(&link.interface_a(), raised.clone()).expect("wire");
    let there = link.socket_b(6000);
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([
        0x45, 0, 0, 31, 0, 0, 0x40, 0, 64, 17, 0x26, 0x33, 10, 77, 0, 1, 10, 77, 0, 2,
    ]);
    let sum = {
        let total: u32 = frame[14..34]
            .chunks(2)
            .enumerate()
            .filter(|&(i, _)| i != 5)
            .map(|(_, p)| u32::from(u16::from_be_bytes([p[0], p[1]])))
            .sum();
        !((total & 0xffff) + (total >> 16)) as u16
    };
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([0x13, 0x88, 0x17, 0x70, 0, 11, 0, 0]);
    frame.extend(b"abc");
    wire.send(&frame).expect("sent");
    assert_eq!(kernel(&there).as_deref(), Some(&b"abc"[..]));
    assert!(wire.link_up());

    let expect = |incident: Incident| {
        let until = Instant::now() + PATIENCE;
        while raised.0.lock().expect("lock").last() != Some(&incident) {
            assert!(Instant::now() < until, "{incident:?} never came");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    link.ip(&format!("-n {} link set b0 down", link.b));
    expect(Incident::PortDown);
    assert!(!wire.link_up() && wire.send(&frame).is_err());
    link.ip(&format!("-n {} link set b0 up", link.b));
    expect(Incident::PortActive);
    assert!(wire.link_up());
    link.ip(&format!("-n {} link del a0", link.a));
    expect(Incident::DeviceFatal);
}
