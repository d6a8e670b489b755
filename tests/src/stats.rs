//! The counters of a live process, by the engine's own reader.

use engine::stats::read::{ReadError, Reader};
pub use engine::stats::read::{Snapshot, SocketSnapshot};

/// Where the library publishes by default (`VMA_STATS_SHMEM_DIR`).
pub const DIRECTORY: &str = "/tmp";

/// The counters of a live process now.
///
/// # Errors
/// Why there are none.
pub fn snapshot(pid: u32) -> Result<Snapshot, String> {
    Reader::open(DIRECTORY, pid)
        .and_then(|reader| reader.snapshot())
        .map_err(|e| e.to_string())
}

/// Removes what killed programs left: a later one with the same pid and another user
/// could not.
pub fn sweep() {
    for entry in std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix("vmastat."));
        let Some(pid) = pid.and_then(|p| p.parse().ok()) else {
            continue;
        };
        if let Err(ReadError::Finished(_)) = Reader::open(DIRECTORY, pid) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Datagrams that the engine delivered, all sockets.
#[must_use]
pub fn rx(snapshot: &Snapshot) -> u64 {
    snapshot.sockets.iter().map(|s| s.rx.packets).sum()
}

/// Datagrams that the engine sent, all sockets.
#[must_use]
pub fn tx(snapshot: &Snapshot) -> u64 {
    snapshot.sockets.iter().map(|s| s.tx.packets).sum()
}

/// One line a socket, for a failure's message.
#[must_use]
pub fn summary(snapshot: &Snapshot) -> String {
    let line = |s: &SocketSnapshot| {
        let path = s.reason.map_or_else(
            || {
                if s.accelerated {
                    "accelerated"
                } else {
                    "kernel, no reason"
                }
                .to_owned()
            },
            |reason| format!("kernel: {reason}"),
        );
        format!(
            "  fd {}: {path}; rx {} os {}, tx {} os {}, queued {}, dropped {}\n",
            s.fd,
            s.rx.packets,
            s.rx_os.packets,
            s.tx.packets,
            s.tx_os.packets,
            s.queue.packets,
            s.queue.drop_packets
        )
    };
    snapshot.sockets.iter().map(line).collect()
}
