use super::*;
use engine::error::Reason;
use engine::stats::IomuxKind;
use engine::stats::table::{
    IomuxEventsValues, ProcessTotalsValues, RingUpkeepValues, SocketQueueValues, SocketRxOsValues,
    SocketRxValues, SocketTxOsValues, SocketTxValues,
};

/// A process with an accelerated socket, one of the kernel's, a ring and an epoll object.
pub(crate) fn example() -> Snapshot {
    Snapshot {
        pid: 42,
        program: "java".into(),
        sockets: vec![
            SocketSnapshot {
                fd: 7,
                family: engine::stats::AF_INET as u32,
                accelerated: true,
                local: Some("10.0.0.1:4000".parse().unwrap()),
                blocking: true,
                group_count: 18,
                groups: vec![
                    ("239.1.1.1".parse().unwrap(), 2),
                    ("239.1.1.2".parse().unwrap(), 2),
                ],
                rx: SocketRxValues {
                    packets: 1000,
                    bytes: 20480,
                    poll_hit: 3,
                    poll_miss: 1,
                    ..Default::default()
                },
                rx_os: SocketRxOsValues {
                    packets: 3,
                    ..Default::default()
                },
                tx: SocketTxValues {
                    packets: 64,
                    bytes: 4096,
                    ..Default::default()
                },
                tx_os: SocketTxOsValues {
                    errors: 1,
                    ..Default::default()
                },
                queue: SocketQueueValues {
                    packets: 4,
                    max_packets: 90,
                    max_bytes: 9000,
                    drop_packets: 2,
                    ..Default::default()
                },
                ..Default::default()
            },
            SocketSnapshot {
                fd: 8,
                reason: Some(Reason::Loopback),
                local: Some("127.0.0.1:5000".parse().unwrap()),
                peer: Some("127.0.0.1:6000".parse().unwrap()),
                group_count: 1,
                groups: vec![("239.1.1.1".parse().unwrap(), 0)],
                ..Default::default()
            },
        ],
        rings: vec![RingSnapshot {
            interface: "eth0".into(),
            ifindex: 2,
            backend: "verbs".into(),
            device: "mlx5_0".into(),
            key: "thread 7".into(),
            rx_slots: 512,
            upkeep: RingUpkeepValues {
                kernel_drops: 5,
                ..Default::default()
            },
            ..Default::default()
        }],
        iomuxes: vec![IomuxSnapshot {
            slot: 2,
            generation: 1,
            kind: IomuxKind::Epoll,
            epfd: Some(9),
            events: IomuxEventsValues {
                offload_ready: 11,
                os_ready: 6,
                ..Default::default()
            },
        }],
        process: ProcessTotalsValues {
            sockets_opened: 2,
            ..Default::default()
        },
        ..Default::default()
    }
}

fn style(view: View, seconds: Option<f64>) -> Style {
    Style { view, seconds }
}

fn fields(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn basic_rows_say_how_each_socket_is_served() {
    let text = style(View::Basic, None).render(&example());
    let lines: Vec<_> = text.lines().collect();
    let row = "7 Rx: 1000 20 0 0 75.00 3 0 0 0 accelerated";
    assert_eq!(fields(lines[0]), fields(row));
    assert_eq!(
        fields(lines[1]),
        fields("Tx: 64 4 0 0 0 0 0 1 10.0.0.1:4000")
    );
    let row = "8 Rx: 0 0 0 0 0.00 0 0 0 0 os: bound or connected to loopback";
    assert_eq!(fields(lines[2]), fields(row));
    assert!(lines[3].ends_with("127.0.0.1:5000 -> 127.0.0.1:6000"));
    let line = "epoll[9] Rx Ready:6/11 [os/offload] Timeouts:0 Errors:0 Poll:0.00%";
    assert_eq!(lines[4], line);
}

#[test]
fn columns_stand_under_their_headings() {
    for view in [View::Basic, View::Medium] {
        let style = style(view, None);
        let heading = style.heading();
        let heading: Vec<_> = heading.lines().collect();
        assert_eq!(heading[0].len(), heading[1].len());
        let text = style.render(&example());
        let row = text.lines().next().unwrap();
        let columns = row.strip_suffix("  accelerated").unwrap();
        assert_eq!(columns.len(), heading[1].len());
        let end = heading[1].find("poll%").unwrap() + "poll%".len();
        assert!(row[..end].ends_with("75.00"), "{row}");
    }
}

#[test]
fn medium_adds_the_queue() {
    let text = style(View::Medium, None).render(&example());
    assert!(fields(text.lines().next().unwrap()).ends_with(&["4", "90", "2", "accelerated"]));
}

#[test]
fn differences_are_by_the_second() {
    let style = style(View::Basic, Some(2.0));
    assert!(style.heading().contains("pkt/s") && style.heading().contains("Kbyte/s"));
    let text = style.render(&example());
    assert_eq!(fields(text.lines().next().unwrap())[2..4], ["500", "10"]);
    let text = Style {
        view: View::Full,
        ..style
    }
    .render(&example());
    assert!(text.contains("kernel drops: 3 [frames/s]"), "{text}");
    assert!(
        text.contains("Rx pkt : cur 4 / max 90 / dropped 1"),
        "{text}"
    );
}

#[test]
fn full_blocks_show_what_is_not_zero() {
    let text = style(View::Full, None).render(&example());
    for part in [
        "Fd=[7]\n- UDP, AF_INET, Blocked, MC Loop Disabled, inode 0\n- Served by: accelerated\n",
        "- Local Address   = [10.0.0.1:4000]\n- Member of = [239.1.1.1] on interface 2\n",
        "- and of 16 more groups\n",
        "Rx Offload: 20 / 1000 / 0 / 0 [kilobytes/packets/eagains/errors]\n",
        "Tx OS info: 0 / 0 / 0 / 1 [",
        "Rx poll: 1 / 3 (75.00%) [miss/hit]\n",
        "- Foreign Address = [127.0.0.1:6000]\n",
        "Rx and Tx were not active\n",
        "RING_ETH=[0]\n- Interface eth0 (index 2), backend verbs on mlx5_0, of thread 7, slots: rx 512, tx 0\n",
        "kernel drops: 5 [frames]\n",
        "sockets opened: 2 [sockets]\n",
    ] {
        assert!(text.contains(part), "{part:?} not in\n{text}");
    }
    assert!(!text.contains("Rx frames"));
}

#[test]
fn multicast_lists_members_by_group() {
    let text = style(View::Multicast, None).render(&example());
    assert!(text.contains("[239.1.1.1]          | 7 8\n"), "{text}");
    assert!(text.contains("[239.1.1.2]          | 7\n"));
    assert!(text.contains("and 16 more memberships"));
}

#[test]
fn an_unknown_reason_and_huge_numbers_are_shown() {
    let mut snapshot = example();
    snapshot.sockets[1].reason = None;
    snapshot.sockets[0].rx.poll_hit = u64::MAX;
    snapshot.sockets[0].rx.poll_miss = u64::MAX;
    snapshot.sockets[0].rx.packets = u64::MAX;
    snapshot.sockets[0].rx.eagain = u64::MAX;
    snapshot.sockets[0].group_count = u32::MAX;
    for view in [View::Basic, View::Medium, View::Full, View::Multicast] {
        for seconds in [None, Some(1e-9), Some(0.0)] {
            let text = style(view, seconds).render(&snapshot);
            assert!(view == View::Multicast || text.contains("os: unknown reason"));
        }
    }
}

#[test]
fn a_socket_that_only_sends_says_who_receives() {
    let mut snapshot = example();
    snapshot.sockets[1].accelerated = true;
    let text = style(View::Basic, None).render(&snapshot);
    assert!(
        text.contains("sends accelerated, rx os: bound or connected to loopback"),
        "{text}"
    );
}
