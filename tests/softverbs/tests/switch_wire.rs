//! The wire through shared memory: between processes, without the kernel, whoever dies.
//! Needs root: namespaces, and packet sockets for what goes to the kernel.

mod support;

use softverbs::wire::{EthernetMatch, Masked, SendError, Wire, WireQueue, open_switch};
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};
use support::{Link, PATIENCE, datagram, nobody, payload, rule};

/// A switch of the test's own.
fn fresh() -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let n = SERIAL.fetch_add(1, Ordering::Relaxed);
    format!("svwire-{}-{n}", std::process::id())
}

/// Host `b` as a process that sends, host `a` as one that receives.
fn both(link: &Link, switch: &str) -> (Arc<dyn Wire>, Arc<dyn Wire>) {
    let a = open_switch(switch, &link.interface_a(), nobody()).expect("wire");
    let b = open_switch(switch, &link.interface_b(), nobody()).expect("wire");
    (a, b)
}

fn next(queue: &dyn WireQueue) -> Option<Vec<u8>> {
    let mut got = None;
    queue.receive(&mut |frame, _| {
        got = Some(payload(frame).to_vec());
        true
    });
    got
}

fn kernel(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut buffer = [0; 2048];
    socket.recv(&mut buffer).ok().map(|n| buffer[..n].to_vec())
}

fn files(switch: &str) -> usize {
    let prefix = format!("softverbs.{switch}");
    let all = std::fs::read_dir("/dev/shm").expect("shared memory");
    all.flatten()
        .filter(|f| f.file_name().to_string_lossy().starts_with(&prefix))
        .count()
}

#[test]
fn rules_decide_and_the_rest_goes_to_the_kernel() {
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let here = link.socket_a(5000);
    let queue = a.open_queue(64).expect("queue");
    let send = |text: &[u8]| b.send(&datagram(5000, text)).expect("send");
    send(b"no rule");
    assert_eq!(kernel(&here).as_deref(), Some(&b"no rule"[..]));
    assert_eq!(next(&*queue), None);

    let sharing = a.attach(&*queue, &rule(5000, 1, true)).expect("rule");
    send(b"both");
    assert_eq!(next(&*queue).as_deref(), Some(&b"both"[..]));
    assert_eq!(kernel(&here).as_deref(), Some(&b"both"[..]));

    a.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    a.detach(sharing);
    send(b"mine");
    assert_eq!(next(&*queue).as_deref(), Some(&b"mine"[..]));
    assert_eq!(kernel(&here), None);

    // No process has opened that address: the link carries it.
    let mut strange = datagram(5000, b"bridged");
    strange[..6].copy_from_slice(&[0xff; 6]);
    drop((queue, a));
    b.send(&strange).expect("send");
    assert_eq!(kernel(&here).as_deref(), Some(&b"bridged"[..]));
    drop(b);
    assert_eq!(files(&switch), 0);
}

#[test]
fn two_processes_of_one_host_share_its_card() {
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let twin = open_switch(&switch, &link.interface_a(), nobody()).expect("wire");
    let queues = [&a, &twin].map(|w| w.open_queue(64).expect("queue"));
    a.attach(&*queues[0], &rule(5000, 0, false)).expect("rule");
    twin.attach(&*queues[1], &rule(5000, 0, false))
        .expect("rule");
    b.send(&datagram(5000, b"copies")).expect("send");
    for queue in &queues {
        assert_eq!(next(&**queue).as_deref(), Some(&b"copies"[..]));
    }
}

#[test]
fn many_rules_are_found_and_a_wild_one_keeps_its_rank() {
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let queues: Vec<_> = (0..8).map(|_| a.open_queue(64).expect("queue")).collect();
    for port in 0..800u16 {
        let queue = &queues[usize::from(port) % 7];
        a.attach(&**queue, &rule(10_000 + port, 1, false))
            .expect("rule");
    }
    let send = |port: u16| {
        b.send(&datagram(10_000 + port, &port.to_ne_bytes()))
            .expect("send")
    };
    let heard = || -> Vec<usize> { (0..8).filter(|&q| next(&*queues[q]).is_some()).collect() };
    for port in (0..800).step_by(37) {
        send(port);
        assert_eq!(heard(), [usize::from(port) % 7]);
    }
    // For any port, looked at first, and shared.
    let mut any = rule(0, 0, true);
    any.ports = None;
    a.attach(&*queues[7], &any).expect("rule");
    send(400);
    assert_eq!(heard(), [400 % 7, 7]);
}

#[test]
fn multicast_goes_to_every_other_port_and_once_to_the_kernel() {
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let here = link.socket_a(5000);
    let own = b.open_queue(64).expect("queue");
    let queue = a.open_queue(64).expect("queue");
    let mut group = rule(5000, 0, false);
    group.ethernet = Some(EthernetMatch {
        destination: Masked {
            value: [1, 0, 0x5e, 1, 2, 3],
            mask: [0xff; 6],
        },
        ..EthernetMatch::default()
    });
    group.ipv4 = None;
    let mut frame = datagram(5000, b"group");
    frame[..6].copy_from_slice(&[1, 0, 0x5e, 1, 2, 3]);
    a.attach(&*queue, &group).expect("rule");
    b.attach(&*own, &group).expect("rule");
    b.send(&frame).expect("send");
    assert_eq!(next(&*queue).as_deref(), Some(&b"group"[..]));
    // Not back to the sender's host, and not to a kernel whose card took it.
    assert_eq!(next(&*own), None);
    assert_eq!(kernel(&here), None);
}

#[test]
fn a_full_queue_loses_and_counts() {
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let queue = a.open_queue(16).expect("queue");
    a.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    // More than once around, with frames of every size.
    for turn in 0..200u32 {
        for n in 0..20u32 {
            let mut data = vec![n as u8; ((turn * 20 + n) * 7 % 1400) as usize];
            data.extend((turn * 20 + n).to_ne_bytes());
            b.send(&datagram(5000, &data)).expect("send");
        }
        assert!(queue.pending());
        for n in 0..16u32 {
            let got = next(&*queue).expect("a frame");
            assert_eq!(got[got.len() - 4..], (turn * 20 + n).to_ne_bytes());
            assert!(got[..got.len() - 4].iter().all(|&b| b == n as u8));
        }
        assert!(next(&*queue).is_none() && !queue.pending());
        assert_eq!(queue.lost(), u64::from(turn + 1) * 4);
    }
    // Refused frames stay.
    b.send(&datagram(5000, b"stay")).expect("send");
    assert!(queue.receive(&mut |_, _| false));
    assert_eq!(next(&*queue).as_deref(), Some(&b"stay"[..]));
}

#[test]
fn frames_are_stamped_when_asked() {
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let queue = a.open_queue(16).expect("queue");
    a.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    queue.stamp(true);
    let now = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since.expect("after 1970").as_nanos() as u64
    };
    let before = now();
    b.send(&datagram(5000, b"x")).expect("send");
    let after = now();
    let mut stamp = 0;
    queue.receive(&mut |_, meta| {
        stamp = meta.timestamp_ns;
        true
    });
    // The conversion is good to some microseconds.
    assert!((before - 20_000..after + 20_000).contains(&stamp));
}

#[test]
fn an_armed_queue_is_woken_once() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let queue = a.open_queue(16).expect("queue");
    a.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    let readable = |ms: i64| {
        // SAFETY: the queue keeps it open.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(queue.event_fd()) };
        let wait = Timespec {
            tv_sec: 0,
            tv_nsec: ms * 1_000_000,
        };
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&wait)).expect("poll") == 1
    };
    b.send(&datagram(5000, b"unarmed")).expect("send");
    assert!(!readable(10));
    for _ in 0..3 {
        queue.arm();
        assert!(queue.pending() || !readable(5));
        b.send(&datagram(5000, b"armed")).expect("send");
        b.send(&datagram(5000, b"and more")).expect("send");
        assert!(readable(900));
        queue.acknowledge();
        assert!(!readable(0));
        while next(&*queue).is_some() {}
    }
}

#[test]
fn the_carrier_counts() {
    let (link, switch) = (Link::new(), fresh());
    let (_a, b) = both(&link, &switch);
    link.ip(&format!("-n {} link set b0 down", link.b));
    let until = Instant::now() + PATIENCE;
    while b.link_up() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    let sent = b.send(&datagram(5000, b"x"));
    assert_eq!(sent, Err(SendError::LinkDown));
}

/// Starts this binary again in a role, and waits until it says that it is ready.
fn process(role: &str, link: &Link, switch: &str) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("own path"))
        .args(["--exact", "role", "--nocapture"])
        .env("SVWIRE_ROLE", role)
        .env("SVWIRE_NS", if role == "die" { &link.b } else { &link.a })
        .env("SVWIRE_SWITCH", switch)
        .stdout(Stdio::piped())
        .spawn()
        .expect("child");
    let lines = BufReader::new(child.stdout.take().expect("pipe")).lines();
    assert!(lines.map_while(Result::ok).any(|l| l.contains("ready")));
    child
}

/// What [`process`] runs; else there is nothing to do.
#[test]
fn role() {
    let Ok(role) = std::env::var("SVWIRE_ROLE") else {
        return;
    };
    support::enter(&std::env::var("SVWIRE_NS").expect("namespace"));
    let switch = std::env::var("SVWIRE_SWITCH").expect("switch");
    let here = support::interface(if role == "die" { "b0" } else { "a0" });
    if role == "churn" {
        println!("ready");
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let wire = open_switch(&switch, &here, nobody()).expect("wire");
            let queue = wire.open_queue(64).expect("queue");
            for priority in 0..20 {
                let rule = rule(5000, priority % 8, priority % 2 == 0);
                wire.attach(&*queue, &rule).expect("rule");
            }
        }
        return;
    }
    let wire = open_switch(&switch, &here, nobody()).expect("wire");
    if role == "die" {
        println!("ready");
        wire.send(&datagram(5000, &[7; 8])).expect("send");
        send_and_die(&*wire);
    }
    let queue = wire.open_queue(64).expect("queue");
    wire.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    println!("ready");
    std::thread::sleep(PATIENCE);
}

#[test]
fn a_killed_receiver_gives_its_flow_back_to_the_kernel() {
    let (link, switch) = (Link::new(), fresh());
    let here = link.socket_a(5000);
    let b = open_switch(&switch, &link.interface_b(), nobody()).expect("wire");
    for _ in 0..3 {
        let mut child = process("receive", &link, &switch);
        b.send(&datagram(5000, b"taken")).expect("send");
        assert_eq!(kernel(&here), None);
        child.kill().expect("kill");
        // Not waited for: a corpse counts as dead.
        let until = Instant::now() + PATIENCE;
        while kernel(&here).is_none() {
            assert!(Instant::now() < until, "the dead process keeps its flow");
            b.send(&datagram(5000, b"back")).expect("send");
        }
        child.wait().expect("wait");
        while kernel(&here).is_some() {}
    }
    drop(b);
    assert_eq!(files(&switch), 0);
}

/// A sender that dies within a frame, certainly: the end of what it sends is not readable.
fn send_and_die(wire: &dyn Wire) -> ! {
    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect};
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let start = unsafe {
        mmap_anonymous(std::ptr::null_mut(), 8192, protection, MapFlags::PRIVATE).expect("pages")
    };
    let frame = datagram(5000, &[1; 1000]);
    let at = 4096 - 300;
    let place = start.cast::<u8>().wrapping_add(at);
    // SAFETY: within the two pages.
    unsafe { std::ptr::copy_nonoverlapping(frame.as_ptr(), place, frame.len()) };
    // SAFETY: the second page, which only the send below looks at.
    unsafe {
        mprotect(start.wrapping_byte_add(4096), 4096, MprotectFlags::empty()).expect("a page")
    };
    // SAFETY: mapped, but not readable to its end: the copying ends the process.
    let torn = unsafe { std::slice::from_raw_parts(place, frame.len()) };
    let _ = wire.send(torn);
    unreachable!("the frame was readable");
}

#[test]
fn a_sender_that_dies_within_a_frame_holds_nobody_up() {
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let queue = a.open_queue(64).expect("queue");
    a.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    for n in 0..40u8 {
        let mut child = process("die", &link, &switch);
        b.send(&datagram(5000, &[n; 20])).expect("send");
        let status = child.wait().expect("wait");
        assert!(!status.success());
        b.send(&datagram(5000, &[n; 50])).expect("send");
        for wanted in [vec![7; 8], vec![n; 20], vec![n; 50]] {
            // The first two in either order.
            let until = Instant::now() + PATIENCE;
            let got = loop {
                assert!(Instant::now() < until, "the queue is stuck");
                if let Some(got) = next(&*queue) {
                    break got;
                }
            };
            assert_eq!(got.len() == 50, wanted.len() == 50);
        }
        assert_eq!(next(&*queue), None);
    }
}

/// Asleep, with a frame of the living behind one of the dead: it is told.
#[test]
fn a_death_within_a_frame_wakes_the_sleeper() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let queue = a.open_queue(64).expect("queue");
    a.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    let mut child = process("die", &link, &switch);
    let until = Instant::now() + PATIENCE;
    while next(&*queue).is_none() {
        assert!(Instant::now() < until, "the good frame never came");
    }
    b.send(&datagram(5000, b"behind")).expect("send");
    // SAFETY: the queue keeps it open.
    let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(queue.event_fd()) };
    let wait = Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    // As one sleeps: arm, look again, wait. That there is no end of it but by the frame, and
    // no waiting in vain, is what is tested.
    let got = loop {
        if let Some(got) = next(&*queue) {
            break got;
        }
        queue.arm();
        if !queue.pending() {
            let woken = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&wait));
            assert_eq!(woken.expect("poll"), 1);
            queue.acknowledge();
        }
    };
    assert_eq!(got, b"behind");
    child.wait().expect("wait");
}

/// Processes are killed at any moment of joining, opening, attaching and sending: the others
/// go on, and what the dead had is given anew.
#[test]
fn killed_at_any_moment_nobody_is_held_up() {
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let here = link.socket_a(5000);
    for round in 0..60u64 {
        let mut child = process("churn", &link, &switch);
        std::thread::sleep(Duration::from_micros(100 + 397 * round));
        child.kill().expect("kill");
        child.wait().expect("wait");
        // The control plane is free, and there are queues.
        let queue = a.open_queue(64).expect("queue");
        let id = a.attach(&*queue, &rule(6000, 0, false)).expect("rule");
        b.send(&datagram(6000, b"mine")).expect("send");
        assert_eq!(next(&*queue).as_deref(), Some(&b"mine"[..]));
        a.detach(id);
    }
    // The rules of the dead are gone.
    let until = Instant::now() + PATIENCE;
    while kernel(&here).is_none() {
        assert!(Instant::now() < until, "a dead process keeps its flow");
        b.send(&datagram(5000, b"back")).expect("send");
    }
    drop((a, b));
    assert_eq!(files(&switch), 0);
}

/// The last one was killed: the next switch that is made, of whatever name, clears up.
#[test]
fn what_the_last_one_leaves_is_swept_up() {
    let (link, switch) = (Link::new(), fresh());
    let mut child = process("receive", &link, &switch);
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert!(files(&switch) >= 3);
    let other = fresh();
    let wire = open_switch(&other, &link.interface_a(), nobody()).expect("wire");
    assert_eq!(files(&switch), 0);
    drop(wire);
    assert_eq!(files(&other), 0);
}

/// Several threads send at once, none's frames are lost or out of order.
#[test]
fn producers_do_not_disturb_each_other() {
    const EACH: u64 = 50_000;
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let queue = a.open_queue(256).expect("queue");
    a.attach(&*queue, &rule(5000, 0, false)).expect("rule");
    let senders: Vec<_> = (0..3u64)
        .map(|who| {
            let wire = Arc::clone(&b);
            std::thread::spawn(move || {
                let mut data = vec![0; 16 + 90 * who as usize];
                for n in 0..EACH {
                    data[..8].copy_from_slice(&who.to_ne_bytes());
                    data[8..16].copy_from_slice(&n.to_ne_bytes());
                    wire.send(&datagram(5000, &data)).expect("send");
                }
            })
        })
        .collect();
    let mut next = [0u64; 3];
    let mut heard = 0;
    let until = Instant::now() + PATIENCE;
    let mut done = false;
    while !done && Instant::now() < until {
        done = senders.iter().all(std::thread::JoinHandle::is_finished);
        while queue.receive(&mut |frame, _| {
            let word = |at: usize| {
                let data = &payload(frame)[at..at + 8];
                u64::from_ne_bytes(data.try_into().expect("a word"))
            };
            let who = word(0) as usize;
            assert!(word(8) >= next[who]);
            next[who] = word(8) + 1;
            heard += 1;
            true
        }) {}
    }
    for sender in senders {
        sender.join().expect("sender");
    }
    assert_eq!(heard + queue.lost(), 3 * EACH);
}

/// A rule comes and goes under full load: each frame is the queue's or the kernel's.
#[test]
fn a_rule_comes_and_goes_without_loss_or_double() {
    const FRAMES: usize = 100_000;
    let (link, switch) = (Link::new(), fresh());
    let (a, b) = both(&link, &switch);
    let here = link.socket_a(5000);
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&here, 256 << 20).expect("buffer");
    let queue = a.open_queue(4096).expect("queue");
    let sender = std::thread::spawn(move || {
        for n in 0..FRAMES as u32 {
            while b.send(&datagram(5000, &n.to_ne_bytes())) == Err(SendError::Full) {}
        }
    });
    let number = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("a number")) as usize;
    let mut seen = vec![0u8; FRAMES];
    let mut by_queue = 0;
    let mut changes = 0;
    let mut id = None;
    let mut finished = false;
    while !finished {
        finished = sender.is_finished() && changes >= 100;
        id = match id.take() {
            Some(id) => {
                a.detach(id);
                None
            }
            None => Some(a.attach(&*queue, &rule(5000, 0, false)).expect("rule")),
        };
        changes += 1;
        while queue.receive(&mut |frame, _| {
            seen[number(payload(frame))] += 1;
            by_queue += 1;
            true
        }) {}
    }
    sender.join().expect("sender");
    let mut buffer = [0; 64];
    let mut by_kernel = 0;
    while let Ok(n) = here.recv(&mut buffer) {
        seen[number(&buffer[..n])] += 1;
        by_kernel += 1;
    }
    eprintln!("{changes} changes, {by_queue} by the queue, {by_kernel} by the kernel");
    assert!(by_queue > 1000 && by_kernel > 1000);
    assert_eq!(queue.lost(), 0);
    assert_eq!(seen.iter().position(|&n| n != 1), None);
}
