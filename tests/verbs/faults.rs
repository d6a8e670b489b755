//! What the device reports, and what becomes of its sockets.

use crate::rig::*;
use engine::error::Reason;
use rustix::process::Signal;
use std::time::{Duration, Instant};
use tests::check::{DEFAULTS, SLEEP, SPIN};
use tests::preload::{Mode, Program, Running};
use tests::topology::Lab;
use tests::victim::{self, Variant};

/// A subscriber under the library, and the file that makes its card fail.
struct Subject {
    lab: Lab,
    control: Scratch,
    running: Running,
}

impl Subject {
    fn start(mode: Mode, args: &[&str]) -> Option<Self> {
        let lab = Lab::open()?;
        let control = Scratch::new("fault-control");
        let path = control.path();
        let running = subscriber(&lab, mode, &[("SOFTVERBS_CONTROL", &path)], args);
        Some(Self {
            lab,
            control,
            running,
        })
    }

    #[track_caller]
    fn wait_for_kernel(&mut self, reason: Reason) {
        wait_until(&mut self.running, reason.text(), |s| {
            s.sockets
                .iter()
                .all(|s| !s.accelerated && s.reason == Some(reason))
        });
    }

    #[track_caller]
    fn wait_for_verbs(&mut self) {
        wait_until(&mut self.running, "on verbs", on_verbs);
    }

    fn publish(&self, numbers: std::ops::Range<u32>) {
        publish(&self.lab, numbers);
        // Read before the next thing happens: numbers are told apart by when they came.
        std::thread::sleep(Duration::from_millis(100));
    }

    #[track_caller]
    fn says_once(&mut self, line: &str) {
        let said = self.running.stderr();
        assert_eq!(said.matches(line).count(), 1, "{line:?} in\n{said}");
    }
}

/// The link goes, the kernel has the socket; the link comes, and so does the socket.
#[test]
fn port_down_and_up() {
    for mode in [DEFAULTS, SLEEP, SPIN] {
        let Some(mut subject) = Subject::start(mode, &[]) else {
            return;
        };
        subject.wait_for_verbs();
        for round in 0..2 {
            let first = round * 300;
            subject.publish(first..first + 100);
            subject.control.add("event=port_down");
            subject.wait_for_kernel(Reason::NoLink);
            // On a card nothing would come; here the kernel still has its wire.
            subject.publish(first + 100..first + 200);
            subject.control.add("event=port_up");
            subject.wait_for_verbs();
            subject.publish(first + 200..first + 300);
        }
        let last = counters(&subject.running);
        assert!(last.sockets[0].rx.packets >= 400 && last.sockets[0].rx_os.packets >= 200);
        let said = subject.running.stderr();
        for line in ["the port has no link;", "the port has its link back;"] {
            assert_eq!(said.matches(line).count(), 2, "{line:?} in\n{said}");
        }
        expect_all("subscriber", &subject.running.kill().stdout, 0..600);
    }
}

/// A queue that has failed is left, and the interface opened again after a while.
#[test]
fn a_failed_queue_is_replaced() {
    for (event, line) in [
        ("event=qp_fatal", "veth0: the queue pair is in error;"),
        ("event=cq_error", "veth0: the completion queue has overrun;"),
        // IBV_WC_GENERAL_ERR: no event, the completion itself tells.
        ("error=1:21", "veth0: the queue pair is in error;"),
    ] {
        let Some(mut subject) = Subject::start(DEFAULTS, &[]) else {
            return;
        };
        subject.wait_for_verbs();
        subject.publish(0..100);
        subject.control.add(event);
        std::thread::sleep(Duration::from_millis(50));
        if event.starts_with("error") {
            // The frame of this completion is the card's loss.
            publish(&subject.lab, 1000..1001);
        }
        subject.wait_for_kernel(Reason::DeviceFailed);
        subject.publish(1100..1200);
        subject.wait_for_verbs();
        subject.publish(1200..1300);
        subject.says_once(line);
        let last = counters(&subject.running);
        let open = last.rings.iter().filter(|r| r.rx_slots != 0).count();
        assert!(last.rings.len() <= 2 && open >= 1, "{event}");
        let output = subject.running.kill().stdout;
        expect_all(event, &output, 0..100);
        expect_all(event, &output, 1100..1300);
    }
}

/// A device that is gone for good: the kernel goes on, and nobody tries for ever.
#[test]
fn a_device_that_is_gone_leaves_the_kernel() {
    let Some(mut subject) = Subject::start(SPIN, &[]) else {
        return;
    };
    subject.wait_for_verbs();
    subject.publish(0..100);
    subject.control.add("event=device_fatal");
    subject.wait_for_kernel(Reason::DeviceFailed);
    subject.says_once("veth0: the device is gone;");
    subject.publish(100..200);
    expect_all("subscriber", &subject.running.kill().stdout, 0..200);
}

/// What was received before the fault is read after it, and before what the kernel got.
#[test]
fn what_was_received_stays() {
    for event in ["event=port_down", "event=qp_fatal", "event=device_fatal"] {
        let Some(mut subject) = Subject::start(DEFAULTS, &["held"]) else {
            return;
        };
        subject.wait_for_verbs();
        subject.publish(0..200);
        subject.control.add(event);
        wait_until(&mut subject.running, "on the kernel", |s| {
            s.sockets.iter().all(|s| !s.accelerated)
        });
        publish(&subject.lab, 200..300);
        subject.running.signal(Signal::USR1);
        std::thread::sleep(Duration::from_millis(300));
        expect_all(event, &subject.running.kill().stdout, 0..300);
    }
}

/// Events that say nothing of a queue, of every number that Linux's headers have: nothing moves,
/// nothing is lost.
#[test]
fn events_that_concern_nobody() {
    let Some(mut subject) = Subject::start(DEFAULTS, &[]) else {
        return;
    };
    subject.wait_for_verbs();
    let before = counters(&subject.running).sockets[0].life.handovers;
    // COMM_EST, SQ_DRAINED, PATH_MIG, PATH_MIG_ERR, LID to SM_CHANGE, the SRQ's, QP_LAST_WQE_REACHED,
    // CLIENT_REREGISTER, GID_CHANGE.
    let harmless = [4, 5, 6, 7, 11, 12, 13, 14, 15, 16, 17, 18];
    let mut next = 0;
    for event in harmless {
        subject.control.add(&format!("event={event}"));
        subject.publish(next..next + 20);
        next += 20;
    }
    let last = counters(&subject.running);
    assert!(on_verbs(&last));
    assert_eq!(last.sockets[0].life.handovers, before);
    assert_eq!(last.sockets[0].rx.packets, u64::from(next), "by the ring");
    expect_all("subscriber", &subject.running.kill().stdout, 0..next);
}

/// A ring that has failed costs nothing once its place is taken.
#[test]
fn a_failed_ring_gives_its_memory_back() {
    let Some(lab) = Lab::open() else { return };
    let (control, trace) = (Scratch::new("memory-control"), Scratch::new("memory-trace"));
    let variables = [
        ("SOFTVERBS_CONTROL", control.path()),
        ("SOFTVERBS_TRACE", trace.path()),
    ];
    let env: Vec<_> = variables.iter().map(|(n, v)| (*n, v.as_str())).collect();
    let mut running = subscriber(&lab, DEFAULTS, &env, &[]);
    wait_until(&mut running, "on verbs", on_verbs);
    publish(&lab, 0..100);
    std::thread::sleep(Duration::from_millis(100));
    control.add("event=qp_fatal");
    wait_until(&mut running, "on the kernel", |s| !on_verbs(s));
    wait_until(&mut running, "on verbs", on_verbs);
    let count = |call: &str| {
        let text = trace.text();
        let calls = text.lines().map(|l| l.split([' ', '(']).next());
        calls.filter(|c| *c == Some(call)).count()
    };
    // A second for whoever may still look there.
    let deadline = Instant::now() + Duration::from_secs(6);
    while count("dereg_mr") == 0 {
        let registered = "the old memory is still registered";
        assert!(Instant::now() < deadline, "{registered}:\n{}", trace.text());
        std::thread::sleep(Duration::from_millis(50));
    }
    for (made, gone) in [("reg_mr", "dereg_mr"), ("create_qp", "destroy_qp")] {
        assert_eq!(count(made) - count(gone), 1, "{}", trace.text());
    }
    publish(&lab, 100..200);
    std::thread::sleep(Duration::from_millis(100));
    expect_all("subscriber", &running.kill().stdout, 0..200);
}

/// A send that completes in error stops the queue pair. The card has lost that one; the next go
/// by the kernel, long before any of them asks for its completion.
#[test]
fn a_send_in_error_costs_one_datagram() {
    // IBV_WC_LOC_QP_OP_ERR, LOC_PROT_ERR, WR_FLUSH_ERR, RETRY_EXC_ERR, GENERAL_ERR.
    for status in [2, 4, 5, 12, 21] {
        let fault = format!("tx.error=150:{status}");
        let Some(finished) = exchange(&[("SOFTVERBS_FAULTS", &fault)], 300) else {
            return;
        };
        let said = &finished.stderr;
        assert!(
            finished.stdout.starts_with("1 0 "),
            "{fault}: {}{said}",
            finished.stdout
        );
        let line = "veth0: the queue pair is in error; its sockets go to the kernel";
        assert_eq!(said.matches(line).count(), 1, "{fault}: {said}");
    }
}

/// A send that waits for room lets handlers run, wherever in its wait the signal comes.
#[test]
fn a_send_that_waits_runs_handlers() {
    let Some(lab) = Lab::open() else { return };
    let control = Scratch::new("waits-control");
    let program = Program::new(victim::compile("send_waits", Variant::Plain), &[])
        .on(&lab.near)
        .mode(DEFAULTS)
        .device(over_packet())
        .env("SOFTVERBS_CONTROL", &control.path())
        .limit(Duration::from_secs(20));
    let finished = program.run().success("send_waits");
    let expected = "sendto(fd, \"waits\", 5, 0, SA(to)) = 5\nran 1\n\
         sendto(fd, \"waits\", 5, 0, SA(to)) = -1 EINTR\n";
    assert!(finished.stdout.starts_with(expected), "{}", finished.stdout);
}
