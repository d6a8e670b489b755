//! Rings by VMA_RING_ALLOCATION_LOGIC_*: as many as there should be, and every datagram
//! once and in order, whichever ring brings it.

use engine::error::Reason;
use tests::backend::Backend;
use tests::check::difference;
use tests::peer::Peer;
use tests::preload::{Mode, Program};
use tests::stats::{Snapshot, summary};
use tests::topology::Lab;
use tests::victim::{self, Variant};

const LOGICS: &str = "VMA_RING_ALLOCATION_LOGIC_RX";
const LOGICS_TX: &str = "VMA_RING_ALLOCATION_LOGIC_TX";

type Vars = &'static [(&'static str, &'static str)];

const DEFAULT: Vars = &[];
const BY_ADDRESS: Vars = &[(LOGICS, "1"), (LOGICS_TX, "1")];
const BY_SOCKET: Vars = &[(LOGICS, "10"), (LOGICS_TX, "10")];
const BY_THREAD: Vars = &[(LOGICS, "20"), (LOGICS_TX, "20")];
const BY_THREAD_SLEEPING: Vars = &[
    (LOGICS, "20"),
    (LOGICS_TX, "20"),
    ("VMA_RX_POLL", "0"),
    ("VMA_SELECT_POLL", "0"),
];
const BY_CORE: Vars = &[(LOGICS, "30"), (LOGICS_TX, "30")];
const PINNED: Vars = &[(LOGICS, "31"), (LOGICS_TX, "31")];
const SEND_BY_THREAD: Vars = &[(LOGICS_TX, "20")];
const LIMITED: Vars = &[
    (LOGICS, "20"),
    (LOGICS_TX, "20"),
    ("VMA_RING_LIMIT_PER_INTERFACE", "2"),
];

/// Runs the victim natively and under the library; what it reported of itself at last.
fn run(scenario: &'static str, vars: Vars) -> Option<Snapshot> {
    run_reports(scenario, vars)?.pop()
}

fn run_reports(scenario: &'static str, vars: Vars) -> Option<Vec<Snapshot>> {
    let once = |mode: Mode| {
        let lab = Lab::open()?;
        let peer = Peer::start(&lab, mode != Mode::Native);
        let program = Program::new(victim::compile("rings", Variant::Plain), &[scenario])
            .on(&lab.near)
            .mode(mode)
            .env("PEER", &peer.address())
            .limit(std::time::Duration::from_secs(60));
        Some((program.run(), peer.reports()))
    };
    let (native, _) = once(Mode::Native)?;
    assert!(
        native.stdout.ends_with("done\n"),
        "{scenario}: {}",
        native.stdout
    );
    let (shimmed, reports) = once(Mode::Shim(vars))?;
    let reports: Result<Vec<_>, _> = reports.into_iter().collect();
    let reports = reports.expect("statistics of a live process");
    let report = reports.last().expect("the victim reports");
    assert!(
        native.stdout == shimmed.stdout,
        "{scenario} {vars:?}:\n{}{}{:?}\n{}",
        difference(&native.stdout, &shimmed.stdout),
        summary(report),
        report.rings,
        shimmed.stderr
    );
    Some(reports)
}

/// Rings that receive.
fn receiving(snapshot: &Snapshot) -> usize {
    snapshot.rings.iter().filter(|r| r.rx_slots != 0).count()
}

/// Every ring that should be there is, works, and says whose it is.
fn expect_rings(snapshot: &Snapshot, count: usize, key: &str) {
    let told = || format!("{}{:#?}", summary(snapshot), snapshot.rings);
    assert_eq!(receiving(snapshot), count, "{}", told());
    for ring in snapshot.rings.iter().filter(|r| r.rx_slots != 0) {
        assert!(ring.key.starts_with(key), "{}", told());
        assert!(ring.rx.frames > 0, "a ring without work: {}", told());
    }
    let engine: u64 = snapshot.sockets.iter().map(|s| s.rx.packets).sum();
    let kernel: u64 = snapshot.sockets.iter().map(|s| s.rx_os.packets).sum();
    assert!(engine > 0 && kernel == 0, "{}", told());
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[test]
fn ring_of_the_interface() {
    let Some(snapshot) = run("threads", DEFAULT) else {
        return;
    };
    expect_rings(&snapshot, 1, "interface");
    assert_eq!(snapshot.rings.len(), 1);
    assert!(snapshot.rings[0].tx.frames >= 180);
}

#[test]
fn ring_of_an_address() {
    let Some(snapshot) = run("addresses", BY_ADDRESS) else {
        return;
    };
    expect_rings(&snapshot, 2, "address 10.78.0.1");
    let Some(snapshot) = run("threads", BY_ADDRESS) else {
        return;
    };
    expect_rings(&snapshot, 1, "address 10.78.0.1");
}

#[test]
fn ring_of_a_socket() {
    let Some(snapshot) = run("threads", BY_SOCKET) else {
        return;
    };
    expect_rings(&snapshot, 4, "socket");
    let sending = snapshot.rings.iter().filter(|r| r.tx.frames >= 45);
    assert_eq!(sending.count(), 4, "{:#?}", snapshot.rings);
}

#[test]
fn ring_of_a_thread() {
    for vars in [BY_THREAD, BY_THREAD_SLEEPING] {
        let Some(snapshot) = run("threads", vars) else {
            return;
        };
        expect_rings(&snapshot, 4, "thread");
        assert_eq!(
            snapshot.rings.len(),
            4,
            "sends by the same: {:#?}",
            snapshot.rings
        );
    }
}

#[test]
fn ring_of_a_core() {
    let Some(snapshot) = run("threads", BY_CORE) else {
        return;
    };
    let count = receiving(&snapshot);
    assert!(
        (1..=cores().min(4)).contains(&count),
        "{:#?}",
        snapshot.rings
    );
    expect_rings(&snapshot, count, "core");
}

#[test]
fn ring_of_a_pinned_core() {
    let Some(snapshot) = run("threads", PINNED) else {
        return;
    };
    expect_rings(&snapshot, cores().min(4), "core");
}

#[test]
fn rings_that_only_send() {
    let Some(snapshot) = run("threads", SEND_BY_THREAD) else {
        return;
    };
    expect_rings(&snapshot, 1, "interface");
    let sending = snapshot.rings.iter().filter(|r| r.rx_slots == 0);
    let sending: Vec<_> = sending
        .map(|r| (r.key.starts_with("thread"), r.tx.frames))
        .collect();
    assert_eq!(sending.len(), 4, "{:#?}", snapshot.rings);
    // A card's queue pair takes longer to make; other threads' sends go by the kernel meanwhile.
    let least = match Backend::current() {
        Backend::Packet => 45,
        Backend::Verbs => 25,
    };
    assert!(sending.iter().all(|s| s.0 && s.1 >= least), "{sending:?}");
}

/// More threads than rings: they share, and nothing is lost or had twice.
#[test]
fn limited_rings_are_shared() {
    let Some(snapshot) = run("threads", LIMITED) else {
        return;
    };
    expect_rings(&snapshot, 2, "thread");
}

/// Members on different rings: one copy each.
#[test]
fn group_on_several_rings() {
    for vars in [DEFAULT, BY_SOCKET, BY_THREAD] {
        let Some(snapshot) = run("group", vars) else {
            return;
        };
        let count = if vars == DEFAULT { 1 } else { 4 };
        expect_rings(&snapshot, count, "");
        let members = snapshot.sockets.iter().filter(|s| s.rx.packets == 300);
        assert_eq!(members.count(), 4, "{}", summary(&snapshot));
    }
}

/// A connected socket and one of any peer share a port: unicast to it stays the kernel's, whatever
/// becomes of SO_REUSEADDR after the bind.
#[test]
fn rivals_stay_with_the_kernel() {
    for vars in [DEFAULT, BY_SOCKET, BY_THREAD] {
        let Some(snapshot) = run("rivals", vars) else {
            return;
        };
        assert_eq!(receiving(&snapshot), 0, "{:#?}", snapshot.rings);
        let served = snapshot.sockets.iter().filter(|s| {
            s.reason == Some(Reason::SharedPort) && s.rx.packets == 0 && s.rx_os.packets == 300
        });
        assert_eq!(served.count(), 2, "{}", summary(&snapshot));
    }
}

/// poll and epoll over sockets of several rings.
#[test]
fn readiness_over_several_rings() {
    for scenario in ["poll", "epoll"] {
        for vars in [BY_SOCKET, BY_THREAD_SLEEPING] {
            let Some(snapshot) = run(scenario, vars) else {
                return;
            };
            assert!(receiving(&snapshot) >= 1, "{:#?}", snapshot.rings);
            let engine: u64 = snapshot.sockets.iter().map(|s| s.rx.packets).sum();
            assert_eq!(engine, 80, "{}", summary(&snapshot));
        }
    }
}

/// A socket follows the thread that uses it: nothing lost, nothing twice, in order.
#[test]
fn socket_moves_under_load() {
    const MOVING: [Vars; 2] = [
        &[
            (LOGICS, "20"),
            (LOGICS_TX, "20"),
            ("VMA_RING_MIGRATION_RATIO_RX", "20"),
            ("VMA_RING_MIGRATION_RATIO_TX", "20"),
        ],
        &[
            (LOGICS, "20"),
            (LOGICS_TX, "20"),
            ("VMA_RING_MIGRATION_RATIO_RX", "20"),
            ("VMA_RING_MIGRATION_RATIO_TX", "20"),
            ("VMA_RX_POLL", "0"),
        ],
    ];
    for vars in MOVING {
        let Some(snapshot) = run("alternate", vars) else {
            return;
        };
        let life = |count: fn(&tests::stats::SocketSnapshot) -> u64| -> u64 {
            snapshot.sockets.iter().map(count).sum()
        };
        let rx = life(|s| s.life.rx_migrations);
        // Its datagrams stay with their ring where two rings do not stamp a frame alike.
        let moved = match Backend::current() {
            Backend::Packet => rx >= 2,
            Backend::Verbs => rx == 0,
        };
        assert!(moved, "{rx}: {}", summary(&snapshot));
        assert!(
            life(|s| s.life.tx_migrations) >= 2,
            "{}",
            summary(&snapshot)
        );
    }
}

/// -1: it never does.
#[test]
fn socket_stays_where_migration_is_off() {
    const STAYING: Vars = &[
        (LOGICS, "20"),
        (LOGICS_TX, "20"),
        ("VMA_RING_MIGRATION_RATIO_RX", "-1"),
        ("VMA_RING_MIGRATION_RATIO_TX", "-1"),
    ];
    let Some(snapshot) = run("alternate", STAYING) else {
        return;
    };
    expect_rings(&snapshot, 1, "thread");
    let moved: u64 = snapshot
        .sockets
        .iter()
        .map(|s| s.life.rx_migrations + s.life.tx_migrations)
        .sum();
    assert_eq!(moved, 0, "{}", summary(&snapshot));
}

/// Rings that nobody uses are closed: far more sockets come and go than there can be rings.
#[test]
fn rings_of_closed_sockets_go() {
    let Some(snapshot) = run("churn", BY_SOCKET) else {
        return;
    };
    assert_eq!(receiving(&snapshot), 1, "{:#?}", snapshot.rings);
}

/// An interface that goes takes its ring along.
#[test]
fn rings_of_deleted_interfaces_go() {
    let Some(reports) = run_reports("interfaces", DEFAULT) else {
        return;
    };
    let names = |s: &Snapshot| -> Vec<String> {
        let mut names: Vec<_> = s.rings.iter().map(|r| r.interface.clone()).collect();
        names.sort();
        names
    };
    // The one before may be there still.
    assert!(names(&reports[0]).contains(&"passing".to_owned()));
    assert_eq!(names(&reports[1]), ["veth0"]);
}
