//! One JSON document a cycle. The names are those of the counter table and stay as
//! they are: other programs read them.

use engine::stats::Snapshot;
use engine::stats::read::{IomuxSnapshot, RingSnapshot, SocketSnapshot};
use engine::stats::table::Info;
use serde_json::{Map, Value, json};

/// Raised when a field disappears or changes its meaning.
pub const VERSION: u32 = 1;

fn counters(values: impl Iterator<Item = (&'static Info, u64)>) -> Map<String, Value> {
    values
        .map(|(info, value)| (info.name.to_owned(), value.into()))
        .collect()
}

fn socket(socket: &SocketSnapshot) -> Value {
    let groups: Vec<Value> = socket
        .groups
        .iter()
        .map(|(group, ifindex)| json!({ "group": group.to_string(), "ifindex": ifindex }))
        .collect();
    json!({
        "fd": socket.fd,
        "family": family(socket.family),
        "local": socket.local.map(|a| a.to_string()),
        "peer": socket.peer.map(|a| a.to_string()),
        "accelerated": socket.accelerated,
        "reason": reason(socket),
        "blocking": socket.blocking,
        "mc_loop": socket.mc_loop,
        "inode": socket.inode,
        "group_count": socket.group_count,
        "groups": groups,
        "rx": counters(socket.rx.each()),
        "queue": counters(socket.queue.each()),
        "rx_os": counters(socket.rx_os.each()),
        "tx": counters(socket.tx.each()),
        "tx_os": counters(socket.tx_os.each()),
        "life": counters(socket.life.each()),
    })
}

/// AF_INET, AF_INET6, or the number.
#[must_use]
pub fn family(family: u32) -> String {
    match family as i32 {
        engine::stats::AF_INET => "AF_INET".to_owned(),
        engine::stats::AF_INET6 => "AF_INET6".to_owned(),
        other => other.to_string(),
    }
}

/// Why the kernel serves a socket, or receives for an accelerated one; `None` if the
/// engine does both.
#[must_use]
pub fn reason(socket: &SocketSnapshot) -> Option<&'static str> {
    let known = socket.reason.map(|reason| reason.text());
    let unknown = (!socket.accelerated).then_some("unknown reason");
    known.or(unknown)
}

fn ring(ring: &RingSnapshot) -> Value {
    json!({
        "interface": ring.interface,
        "ifindex": ring.ifindex,
        "backend": ring.backend,
        "device": ring.device,
        "key": ring.key,
        "rx_slots": ring.rx_slots,
        "tx_slots": ring.tx_slots,
        "rx": counters(ring.rx.each()),
        "upkeep": counters(ring.upkeep.each()),
        "tx": counters(ring.tx.each()),
    })
}

fn iomux(iomux: &IomuxSnapshot) -> Value {
    let mut value = counters(iomux.events.each());
    value.insert("kind".to_owned(), iomux.kind.text().into());
    value.insert("fd".to_owned(), iomux.epfd.into());
    value.into()
}

/// The document of a snapshot. `seconds` is how long a difference was counted;
/// `None` for totals.
#[must_use]
pub fn document(snapshot: &Snapshot, seconds: Option<f64>) -> Value {
    json!({
        "version": VERSION,
        "pid": snapshot.pid,
        "program": snapshot.program,
        "since_ns": snapshot.since,
        "ended": snapshot.ended,
        "delta_seconds": seconds,
        "process": counters(snapshot.process.each()),
        "sockets": snapshot.sockets.iter().map(socket).collect::<Vec<_>>(),
        "rings": snapshot.rings.iter().map(ring).collect::<Vec<_>>(),
        "iomux": snapshot.iomuxes.iter().map(iomux).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats_view::tests::example;

    #[test]
    fn the_fields_that_other_programs_read() {
        let document = document(&example(), None);
        assert_eq!(document["pid"], 42);
        assert_eq!(document["ended"], false);
        assert_eq!(document["delta_seconds"], Value::Null);
        let socket = &document["sockets"][0];
        assert_eq!(socket["fd"], 7);
        assert_eq!(socket["family"], "AF_INET");
        assert_eq!(socket["local"], "10.0.0.1:4000");
        assert_eq!(socket["peer"], Value::Null);
        assert_eq!(socket["accelerated"], true);
        assert_eq!(socket["reason"], Value::Null);
        assert_eq!(socket["rx"]["packets"], 1000);
        assert_eq!(socket["rx_os"]["packets"], 3);
        assert_eq!(socket["tx"]["bytes"], 4096);
        assert_eq!(socket["tx_os"]["errors"], 1);
        assert_eq!(socket["queue"]["drop_packets"], 2);
        assert_eq!(socket["groups"][0]["group"], "239.1.1.1");
        assert_eq!(
            document["sockets"][1]["reason"],
            "bound or connected to loopback"
        );
        assert_eq!(document["rings"][0]["interface"], "eth0");
        assert_eq!(document["rings"][0]["upkeep"]["kernel_drops"], 5);
        assert_eq!(document["iomux"][0]["kind"], "epoll");
        assert_eq!(document["iomux"][0]["fd"], 9);
        assert_eq!(document["iomux"][0]["offload_ready"], 11);
        assert_eq!(document["process"]["sockets_opened"], 2);
    }

    #[test]
    fn every_counter_of_the_table_is_there() {
        let text = document(&example(), Some(1.0)).to_string();
        for info in engine::stats::table::all() {
            assert!(text.contains(&format!("\"{}\":", info.name)), "{info:?}");
        }
    }
}
