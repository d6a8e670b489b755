//! The counters of a live process, as `shim-stats --json` prints them.

use crate::preload;
use serde_json::Value;
use std::process::{Command, Stdio};

/// One socket's line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Socket {
    /// Descriptor.
    pub fd: i64,
    /// Served by the engine.
    pub accelerated: bool,
    /// Why not, when not.
    pub reason: String,
    /// Datagrams that the engine delivered.
    pub rx: u64,
    /// Datagrams read from the kernel socket.
    pub rx_os: u64,
    /// Datagrams that the engine sent.
    pub tx: u64,
    /// Datagrams sent by the kernel socket.
    pub tx_os: u64,
    /// Datagrams dropped because the reader was slow.
    pub drops: u64,
}

/// A process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Its UDP sockets.
    pub sockets: Vec<Socket>,
}

impl Snapshot {
    /// Reads the counters of a live process.
    ///
    /// # Errors
    /// What `shim-stats` says.
    pub fn of(pid: u32) -> Result<Self, String> {
        let pid = pid.to_string();
        let out = Command::new(preload::tool("shim-stats"))
            .args(["-p", &pid, "-c", "1", "--json"])
            .stdin(Stdio::null())
            .output()
            .map_err(|e| e.to_string())?;
        if !out.status.success() {
            return Err(String::from_utf8_lossy(&out.stderr).trim().to_owned());
        }
        let json: Value = serde_json::from_slice(&out.stdout)
            .map_err(|e| format!("{e} in {}", String::from_utf8_lossy(&out.stdout)))?;
        Self::parse(&json)
    }

    fn parse(json: &Value) -> Result<Self, String> {
        let sockets = json["sockets"]
            .as_array()
            .ok_or_else(|| format!("no list of sockets in {json}"))?;
        Ok(Self {
            sockets: sockets.iter().map(parse_socket).collect(),
        })
    }

    /// Datagrams that the engine delivered, all sockets.
    #[must_use]
    pub fn rx(&self) -> u64 {
        self.sockets.iter().map(|s| s.rx).sum()
    }

    /// Datagrams that the engine sent, all sockets.
    #[must_use]
    pub fn tx(&self) -> u64 {
        self.sockets.iter().map(|s| s.tx).sum()
    }
}

fn parse_socket(socket: &Value) -> Socket {
    let count = |name: &str| socket["counters"][name].as_u64().unwrap_or(0);
    Socket {
        fd: socket["fd"].as_i64().unwrap_or(-1),
        accelerated: socket["accelerated"].as_bool().unwrap_or(false),
        reason: socket["reason"].as_str().unwrap_or_default().to_owned(),
        rx: count("rx_packets"),
        rx_os: count("rx_os_packets"),
        tx: count("tx_packets"),
        tx_os: count("tx_os_packets"),
        drops: count("rx_drops"),
    }
}
