//! The tables and the route client against the kernel, in a network namespace.
//!
//! Each test runs itself once more under `unshare --net`, as root or in a user namespace,
//! so nothing outside is touched and nothing is left behind. Where that is not allowed
//! it says so and passes, unless it is root or `REQUIRE` contains `netns` or `all`.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use engine::error::Errno;
use engine::net::group::read_memberships;
use engine::net::{
    Changes, LinkKind, Monitor, NeighborState, Route, RouteClient, RouteKind, RouteQuery, Tables,
};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::{Ipv4Addr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const INSIDE: &str = "ENGINE_NET_INSIDE";
const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

/// Runs `body` in a namespace with loopback and a veth pair, `left` with 10.9.0.1/24.
fn in_namespace(test: &str, body: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        ip("link set lo up");
        ip("link add left address 02:00:00:00:00:01 type veth peer name right");
        ip("link set left up");
        ip("link set right up");
        ip("addr add 10.9.0.1/24 brd + dev left");
        return body();
    }
    let root = rustix::process::geteuid().is_root();
    let flags: &[&str] = if root {
        &["--net"]
    } else {
        &["--net", "--map-root-user"]
    };
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(flags).arg("--");
        command
    };
    let probe = unshare()
        .args(["ip", "link"])
        .stdout(Stdio::null())
        .status();
    if !probe.as_ref().is_ok_and(|status| status.success()) {
        let promised = std::env::var("REQUIRE")
            .is_ok_and(|v| v.split(',').any(|v| ["netns", "all"].contains(&v)));
        assert!(!root && !promised, "no network namespace: {probe:?}");
        eprintln!("skipped: no network namespace here: {probe:?}");
        return;
    }
    let status = unshare()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{test} in a namespace: {status}");
}

fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Takes events in until `until` is in the tables; answers all changes on the way.
fn follow(monitor: &mut Monitor, tables: &mut Tables, until: impl Fn(&Tables) -> bool) -> Changes {
    let deadline = Instant::now() + Duration::from_secs(5);
    let mut changes = Changes::NONE;
    loop {
        changes |= monitor.receive(tables).unwrap();
        if until(tables) {
            return changes;
        }
        assert!(
            Instant::now() < deadline,
            "the event did not come: {tables:?}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What comes within a short while.
fn settle(monitor: &mut Monitor, tables: &mut Tables) -> Changes {
    std::thread::sleep(Duration::from_millis(20));
    monitor.receive(tables).unwrap()
}

fn filled() -> (Monitor, Tables) {
    let mut monitor = Monitor::open().unwrap();
    let mut tables = Tables::new();
    monitor.dump(&mut tables).unwrap();
    // Late echoes of the set-up: addresses of IPv6, carrier, neighbour discovery.
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until && !settle(&mut monitor, &mut tables).is_empty() {}
    (monitor, tables)
}

fn left(tables: &Tables) -> u32 {
    tables.interface_by_name("left").unwrap().index
}

#[test]
fn first_dump() {
    in_namespace("first_dump", || {
        ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev left nud stale");
        let (_monitor, tables) = filled();
        let interface = tables.interface_by_name("left").unwrap();
        assert_eq!(interface.mac, [2, 0, 0, 0, 0, 1]);
        assert_eq!((interface.mtu, interface.kind), (1500, LinkKind::Ethernet));
        assert_eq!(interface.driver, "veth");
        assert!(interface.up && interface.running && interface.multicast);
        assert!(!interface.loopback && !interface.no_arp);
        let [address] = interface.addresses[..] else {
            panic!("{interface:?}")
        };
        assert_eq!((address.addr, address.prefix), (HOST, 24));
        assert_eq!(address.broadcast, Some(Ipv4Addr::new(10, 9, 0, 255)));
        let lo = tables.interface_by_name("lo").unwrap();
        assert_eq!((lo.kind, lo.loopback), (LinkKind::Loopback, true));
        assert_eq!(tables.interface_by_address(HOST), Some(interface));
        assert!(tables.is_local(HOST) && tables.is_local(Ipv4Addr::new(127, 1, 2, 3)));
        assert!(!tables.is_local(PEER));
        assert!(tables.is_broadcast(Ipv4Addr::new(10, 9, 0, 255)));
        assert_eq!(
            tables.neighbor(interface.index, PEER),
            Some([2, 0, 0, 0, 0, 2])
        );
        let state = tables.neighbor_state(interface.index, PEER);
        assert_eq!(state, Some(NeighborState::Stale));
        assert!(tables.host_joined(interface.index, Ipv4Addr::new(224, 0, 0, 1)));
    });
}

#[test]
fn links_and_addresses() {
    in_namespace("links_and_addresses", || {
        let (mut monitor, mut tables) = filled();
        ip("link set left mtu 1400");
        let changes = follow(&mut monitor, &mut tables, |tables| {
            tables
                .interface_by_name("left")
                .is_some_and(|left| left.mtu == 1400)
        });
        assert!(changes.intersects(Changes::LINKS));
        ip("addr add 10.8.0.1/16 dev left");
        let second = Ipv4Addr::new(10, 8, 0, 1);
        let changes = follow(&mut monitor, &mut tables, |tables| tables.is_local(second));
        assert!(changes.intersects(Changes::ADDRESSES));
        ip("addr del 10.8.0.1/16 dev left");
        follow(&mut monitor, &mut tables, |tables| !tables.is_local(second));

        // Into a bridge and out again: the second is announced as RTM_DELLINK too.
        ip("link add bridge type bridge");
        ip("link set left master bridge");
        follow(&mut monitor, &mut tables, |tables| {
            let bridge = tables
                .interface_by_name("bridge")
                .map(|bridge| bridge.index);
            bridge.is_some() && tables.interface_by_name("left").unwrap().master == bridge
        });
        ip("link set left nomaster");
        follow(&mut monitor, &mut tables, |tables| {
            tables
                .interface_by_name("left")
                .is_some_and(|left| left.master.is_none())
        });
        settle(&mut monitor, &mut tables);
        assert!(
            tables.is_local(HOST),
            "leaving a bridge takes nothing else away"
        );

        ip("link set left down");
        follow(&mut monitor, &mut tables, |tables| {
            !tables.interface_by_name("left").unwrap().up
        });
        ip("link del left");
        let changes = follow(&mut monitor, &mut tables, |tables| {
            tables.interface_by_name("left").is_none()
        });
        assert!(changes.intersects(Changes::LINKS));
        assert!(!tables.is_local(HOST));
        let mut fresh = Tables::new();
        monitor.dump(&mut fresh).unwrap();
        settle(&mut monitor, &mut tables);
        assert_eq!(tables, fresh, "following events leads to what a dump shows");
    });
}

#[test]
fn neighbours() {
    in_namespace("neighbours", || {
        let (mut monitor, mut tables) = filled();
        let index = left(&tables);
        let mac = Some([2, 0, 0, 0, 0, 2]);
        ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev left nud reachable");
        let changes = follow(&mut monitor, &mut tables, |tables| {
            tables.neighbor(index, PEER) == mac
        });
        assert!(changes.intersects(Changes::NEIGHBORS));
        ip("neigh change 10.9.0.2 lladdr 02:00:00:00:00:02 dev left nud stale");
        let changes = follow(&mut monitor, &mut tables, |tables| {
            tables.neighbor_state(index, PEER) == Some(NeighborState::Stale)
        });
        assert!(
            !changes.intersects(Changes::NEIGHBORS),
            "still the same address"
        );
        ip("neigh change 10.9.0.2 lladdr 02:00:00:00:00:99 dev left nud reachable");
        let changes = follow(&mut monitor, &mut tables, |tables| {
            tables.neighbor(index, PEER) != mac
        });
        assert!(changes.intersects(Changes::NEIGHBORS));
        ip("neigh del 10.9.0.2 dev left");
        let changes = follow(&mut monitor, &mut tables, |tables| {
            tables.neighbor(index, PEER).is_none()
        });
        assert!(changes.intersects(Changes::NEIGHBORS));
    });
}

#[test]
fn refreshed_neighbours() {
    in_namespace("refreshed_neighbours", || {
        let (mut monitor, mut tables) = filled();
        let index = left(&tables);
        let mut client = RouteClient::open().unwrap();
        let state = |tables: &Tables| tables.neighbor_state(index, PEER);
        ip("neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev left nud stale");
        assert_eq!(client.refresh_neighbor(index, PEER), Ok(true));
        assert!(shown(PEER).contains("DELAY"), "{}", shown(PEER));
        assert_eq!(
            client.refresh_neighbor(index, PEER),
            Ok(false),
            "under way already"
        );
        // One set by hand keeps its address.
        ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 dev left nud permanent");
        follow(&mut monitor, &mut tables, |tables| {
            state(tables) == Some(NeighborState::Permanent)
        });
        assert_eq!(client.refresh_neighbor(index, PEER), Ok(false));
        settle(&mut monitor, &mut tables);
        assert_eq!(state(&tables), Some(NeighborState::Permanent));
        // One that nobody has asked for is resolved; the other end answers for itself.
        let other = Ipv4Addr::new(10, 9, 0, 77);
        assert_eq!(client.refresh_neighbor(index, other), Ok(true));
        assert!(shown(other).contains("INCOMPLETE"), "{}", shown(other));
        assert_eq!(
            client.refresh_neighbor(9999, other),
            Err(Errno(libc::ENODEV))
        );
    });
}

/// The entry of a neighbour as the kernel has it.
fn shown(addr: Ipv4Addr) -> String {
    let addr = addr.to_string();
    let output = Command::new("ip")
        .args(["neigh", "show", &addr])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn groups() {
    in_namespace("groups", || {
        let (mut monitor, mut tables) = filled();
        let index = left(&tables);
        let joined = |tables: &Tables| tables.host_joined(index, GROUP);
        let mut polling = Monitor::open_without_group_events().unwrap();
        let mut polled = Tables::new();
        polling.dump(&mut polled).unwrap();
        assert!(!joined(&tables) && !joined(&polled));
        // The first question reads, whatever the clock says.
        assert!(polling.refresh_groups(&mut polled, 1).unwrap().is_empty());

        let join = || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.join_multicast_v4(&GROUP, &HOST).unwrap();
            socket
        };
        let first = join();
        if monitor.has_group_events() {
            let changes = follow(&mut monitor, &mut tables, joined);
            assert!(changes.intersects(Changes::GROUPS));
            let second = join();
            assert!(!settle(&mut monitor, &mut tables).intersects(Changes::GROUPS));
            assert_eq!(users(index), Some(2));
            drop(second);
            assert!(!settle(&mut monitor, &mut tables).intersects(Changes::GROUPS));
        }
        assert_eq!(users(index), Some(1));
        let mut fresh = Tables::new();
        monitor.dump(&mut fresh).unwrap();
        let of_dump: BTreeSet<_> = fresh.memberships().collect();
        let of_proc: BTreeSet<_> = read_memberships()
            .unwrap()
            .into_iter()
            .map(|m| m.0)
            .collect();
        assert_eq!(of_dump, of_proc);
        assert!(joined(&fresh));

        // Without events: not before its time, then as /proc has it.
        let age = engine::net::monitor::GROUPS_AGE;
        assert!(polling.refresh_groups(&mut polled, age).unwrap().is_empty());
        assert!(!joined(&polled));
        assert_eq!(
            polling.refresh_groups(&mut polled, age + 1),
            Ok(Changes::GROUPS)
        );
        assert!(joined(&polled));
        drop(first);
        if monitor.has_group_events() {
            follow(&mut monitor, &mut tables, |tables| !joined(tables));
        }
        assert_eq!(
            polling.refresh_groups(&mut polled, 3 * age),
            Ok(Changes::GROUPS)
        );
        assert!(!joined(&polled));
    });
}

/// How many sockets are in the group.
fn users(ifindex: u32) -> Option<u32> {
    let all = read_memberships().unwrap();
    all.iter()
        .find(|(m, _)| m.ifindex == ifindex && m.group == GROUP)
        .map(|(_, users)| *users)
}

#[test]
fn route_events() {
    in_namespace("route_events", || {
        let (mut monitor, mut tables) = filled();
        for change in [
            "route add 192.0.2.0/24 dev left",
            "route del 192.0.2.0/24 dev left",
            "rule add fwmark 7 table 77",
            "rule del fwmark 7 table 77",
            "nexthop add id 5 via 10.9.0.2 dev left",
            "nexthop replace id 5 via 10.9.0.3 dev left",
        ] {
            ip(change);
            let changes = settle(&mut monitor, &mut tables);
            assert!(changes.intersects(Changes::ROUTES), "{change}: {changes:?}");
        }
    });
}

#[test]
fn lost_events() {
    in_namespace("lost_events", || {
        let (mut monitor, mut tables) = filled();
        let mut batch = Command::new("ip")
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut commands = batch.stdin.take().unwrap();
        for i in 0..20_000 {
            writeln!(
                commands,
                "route add 10.100.{}.{}/32 dev left",
                i / 250,
                i % 250
            )
            .unwrap();
        }
        writeln!(commands, "addr add 10.8.0.1/16 dev left").unwrap();
        drop(commands);
        assert!(batch.wait().unwrap().success());
        let second = Ipv4Addr::new(10, 8, 0, 1);
        let changes = follow(&mut monitor, &mut tables, |tables| tables.is_local(second));
        assert_eq!(changes, Changes::ALL, "the address came by a new dump");
        while !monitor.receive(&mut tables).unwrap().is_empty() {}
        ip("addr del 10.8.0.1/16 dev left");
        let changes = follow(&mut monitor, &mut tables, |tables| !tables.is_local(second));
        assert_ne!(changes, Changes::ALL, "and afterwards by events again");
    });
}

#[test]
fn routes() {
    in_namespace("routes", || {
        for command in [
            "route add 192.0.2.0/24 via 10.9.0.254 mtu lock 1300 hoplimit 9",
            "route add 198.51.100.0/24 dev left src 10.9.0.1 mtu 1200",
            "route add blackhole 203.0.113.0/26",
            "route add prohibit 203.0.113.64/26",
            "route add unreachable 203.0.113.128/26",
            "route add 224.0.0.0/4 dev left",
            "addr add 10.7.0.1/24 dev right",
            "route add 192.0.2.0/24 via 10.7.0.254 table 77",
            "rule add fwmark 7 table 77",
            "rule add ipproto udp dport 4000 table 77",
            "rule add tos 0x10 table 77",
            "rule add oif right table 77",
        ] {
            ip(command);
        }
        let (_monitor, tables) = filled();
        let index = left(&tables);
        let right = tables.interface_by_name("right").unwrap().index;
        let mut client = RouteClient::open().unwrap();
        let mut ask = |query: RouteQuery| client.resolve(&query);
        let to = |a, b, c, d| RouteQuery::to(Ipv4Addr::new(a, b, c, d));
        let on_link = Route {
            kind: RouteKind::Unicast,
            oif: index,
            gateway: None,
            prefsrc: Some(HOST),
            mtu: None,
            mtu_locked: false,
            hop_limit: None,
        };
        assert_eq!(ask(to(10, 9, 0, 2)), Ok(on_link));
        let far = to(192, 0, 2, 1);
        let gateway = Route {
            gateway: Some(Ipv4Addr::new(10, 9, 0, 254)),
            mtu: Some(1300),
            mtu_locked: true,
            hop_limit: Some(9),
            ..on_link
        };
        assert_eq!(ask(far), Ok(gateway));
        assert_eq!(
            ask(to(198, 51, 100, 1)),
            Ok(Route {
                mtu: Some(1200),
                ..on_link
            })
        );
        assert_eq!(
            ask(RouteQuery {
                src: Some(HOST),
                ..far
            }),
            Ok(gateway)
        );
        let kind = |route: Result<Route, Errno>| route.map(|route| (route.kind, route.oif));
        assert_eq!(kind(ask(to(10, 9, 0, 1))), Ok((RouteKind::Local, 1)));
        assert_eq!(kind(ask(to(127, 0, 0, 9))), Ok((RouteKind::Local, 1)));
        assert_eq!(
            kind(ask(to(10, 9, 0, 255))),
            Ok((RouteKind::Broadcast, index))
        );
        assert_eq!(
            kind(ask(to(239, 1, 2, 3))),
            Ok((RouteKind::Multicast, index))
        );
        let there = RouteQuery {
            oif: Some(right),
            ..to(239, 1, 2, 3)
        };
        assert_eq!(kind(ask(there)), Ok((RouteKind::Multicast, right)));

        // Each thing that a rule may look at.
        let other = Route {
            oif: right,
            gateway: Some(Ipv4Addr::new(10, 7, 0, 254)),
            prefsrc: Some(Ipv4Addr::new(10, 7, 0, 1)),
            ..on_link
        };
        for query in [
            RouteQuery { mark: 7, ..far },
            RouteQuery { dport: 4000, ..far },
            RouteQuery { tos: 0x10, ..far },
            RouteQuery {
                oif: Some(right),
                ..far
            },
        ] {
            assert_eq!(ask(query), Ok(other), "{query:?}");
        }
        let same = RouteQuery {
            mark: 8,
            dport: 4001,
            sport: 4000,
            ..far
        };
        assert_eq!(ask(same), Ok(gateway));
        // Owners: a user namespace of one user has no second to tell apart.
        if std::fs::read_to_string("/proc/self/uid_map")
            .unwrap()
            .ends_with(" 4294967295\n")
        {
            ip("rule add uidrange 1000-1000 table 77");
            let owned = |uid| RouteQuery {
                uid: Some(uid),
                ..far
            };
            assert_eq!(ask(owned(1000)), Ok(other));
            assert_eq!(ask(owned(1001)), Ok(gateway));
        }

        for (query, errno) in [
            (to(203, 0, 113, 1), libc::EINVAL),
            (to(203, 0, 113, 65), libc::EACCES),
            (to(203, 0, 113, 129), libc::EHOSTUNREACH),
            (to(8, 8, 8, 8), libc::ENETUNREACH),
            (
                RouteQuery {
                    oif: Some(9999),
                    ..far
                },
                libc::ENODEV,
            ),
        ] {
            assert_eq!(ask(query), Err(Errno(errno)), "{query:?}");
        }
        // A source that is not the host's: EINVAL or, lately, ENETUNREACH.
        let foreign = RouteQuery {
            src: Some(PEER),
            ..far
        };
        assert!(ask(foreign).is_err());
        // And none of these spoils the next answer.
        assert_eq!(ask(far), Ok(gateway));
    });
}
