use super::*;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Counters whose writer is not written yet. Must become empty.
const NOT_YET_COUNTED: &[&str] = &[
    "socket.rx.packets",
    "socket.rx.bytes",
    "socket.rx.poll_hit",
    "socket.rx.poll_miss",
    "socket.rx.eagain",
    "socket.rx.errors",
    "socket.rx_os.packets",
    "socket.rx_os.bytes",
    "socket.rx_os.eagain",
    "socket.rx_os.errors",
    "socket.tx.packets",
    "socket.tx.bytes",
    "socket.tx.eagain",
    "socket.tx.errors",
    "socket.tx_os.packets",
    "socket.tx_os.bytes",
    "socket.tx_os.eagain",
    "socket.tx_os.errors",
    "socket.queue.packets",
    "socket.queue.bytes",
    "socket.queue.limit_bytes",
    "socket.queue.max_packets",
    "socket.queue.max_bytes",
    "socket.queue.drop_packets",
    "socket.queue.drop_bytes",
    "socket.life.handovers",
    "ring.rx.frames",
    "ring.rx.frame_bytes",
    "ring.rx.not_ours",
    "ring.rx.malformed",
    "ring.rx.bad_checksum",
    "ring.rx.reassembled",
    "ring.upkeep.kernel_drops",
    "ring.upkeep.freezes",
    "ring.upkeep.drained",
    "ring.tx.frames",
    "ring.tx.frame_bytes",
    "ring.tx.failed",
    "ring.tx.full",
    "iomux.events.offload_ready",
    "iomux.events.os_ready",
    "iomux.events.timeouts",
    "iomux.events.errors",
    "iomux.events.poll_hit",
    "iomux.events.poll_miss",
    "process.totals.mode_switches",
    "process.totals.warnings",
];

#[test]
fn counters_count() {
    let counter = Counter::default();
    counter.add(2);
    counter.add_exclusive(3);
    assert_eq!(counter.get(), 5);
    counter.max_exclusive(4);
    assert_eq!(counter.get(), 5);
    counter.max_exclusive(6);
    assert_eq!(counter.get(), 6);
    counter.set(u64::MAX);
    counter.add_exclusive(1);
    assert_eq!(counter.get(), 0);
}

#[test]
fn names_are_unique_and_explained() {
    let mut seen = HashSet::new();
    for info in all() {
        assert!(
            seen.insert((info.group, info.name)),
            "{}.{} twice",
            info.group,
            info.name
        );
        assert!(
            info.meaning.len() > 10 && info.advice.ends_with('.'),
            "{info:?}"
        );
    }
}

#[test]
fn differences_keep_peaks_and_gauges() {
    let block = SocketQueue::default();
    block.drop_packets.set(5);
    block.max_packets.set(7);
    block.packets.set(3);
    let earlier = block.values();
    block.drop_packets.set(9);
    block.packets.set(2);
    let delta = block.values().since(&earlier);
    assert_eq!(
        (delta.drop_packets, delta.max_packets, delta.packets),
        (4, 7, 2)
    );
    let names: Vec<_> = delta.each().map(|(info, _)| info.name).collect();
    assert_eq!(names.first(), Some(&"packets"));
    assert_eq!(names.len(), SocketQueue::TABLE.len());
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().unwrap() != "tests" {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|e| e == "rs")
            && path.file_name().unwrap() != "tests.rs"
        {
            found.push(path);
        }
    }
}

/// The code of all sources that may count, without blanks, comments and unit tests.
fn code() -> String {
    let engine = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let shim = engine.join("../../shim/src");
    let stats = engine.join("stats");
    let mut files = Vec::new();
    sources(&engine, &mut files);
    sources(&shim, &mut files);
    let mut code = String::new();
    for file in files {
        // The publisher itself counts what it hands out.
        if file.starts_with(&stats) && !file.ends_with("publish.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        for line in text.lines() {
            let line = line.split("//").next().unwrap();
            code.extend(line.chars().filter(|c| !c.is_whitespace()));
        }
        code.push('\n');
    }
    code
}

/// Whether `group.name` is followed by a writing method anywhere.
fn written(code: &str, info: &Info) -> bool {
    let field = format!("{}.{}.", info.group, info.name);
    code.match_indices(&field).any(|(at, _)| {
        let whole = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let rest = &code[at + field.len()..];
        let writes = [
            "add(",
            "add_shared(",
            "add_exclusive(",
            "max_exclusive(",
            "set(",
        ];
        whole && writes.iter().any(|method| rest.starts_with(method))
    })
}

#[test]
fn every_counter_is_counted_somewhere() {
    let code = code();
    let silent: Vec<_> = all()
        .filter(|info| !written(&code, info))
        .map(|info| format!("{}.{}.{}", info.owner, info.group, info.name))
        .collect();
    println!("allowed to be silent for now: {NOT_YET_COUNTED:?}");
    let unexpected: Vec<_> = silent
        .iter()
        .filter(|name| !NOT_YET_COUNTED.contains(&name.as_str()))
        .collect();
    assert!(unexpected.is_empty(), "nobody counts {unexpected:?}");
    let counted: Vec<_> = NOT_YET_COUNTED
        .iter()
        .filter(|name| !silent.iter().any(|s| s == *name))
        .collect();
    println!("counted by now, to be taken off the list: {counted:?}");
}

#[test]
fn the_scan_sees_writers_only() {
    let info = all()
        .find(|info| (info.group, info.name) == ("rx", "packets"))
        .unwrap();
    assert!(written("self.stats.rx.packets.add_exclusive(1);", info));
    assert!(written("rx.packets.add(n)", info));
    assert!(!written("stats.rx.packets.get()", info));
    assert!(!written("stats.xrx.packets.add(1)", info));
    assert!(!written("stats.rx_os.packets.add(1)", info));
}
