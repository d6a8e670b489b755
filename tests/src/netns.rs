//! A named network namespace that goes away with its value, also on panic.
//!
//! Source: ip-netns(8), setns(2).

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Every namespace of ours is called `tst-<pid>-<n>-<host>`.
const PREFIX: &str = "tst-";

/// One host.
#[derive(Debug)]
pub struct Netns {
    name: String,
}

impl Netns {
    /// Makes a namespace with loopback up.
    ///
    /// # Errors
    /// What ip(8) says.
    pub fn new(serial: u32, host: &str) -> io::Result<Self> {
        let name = format!("{PREFIX}{}-{serial}-{host}", std::process::id());
        ip(&["netns", "add", &name])?;
        let ns = Self { name };
        ns.ip("link set lo up")?;
        Ok(ns)
    }

    /// Name as ip(8) knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `ip -n NAME <words>`; what it prints.
    ///
    /// # Errors
    /// What ip(8) says.
    pub fn ip(&self, words: &str) -> io::Result<String> {
        let mut args = vec!["-n", &self.name];
        args.extend(words.split_whitespace());
        ip(&args)
    }

    /// `ip -n NAME -batch -`, one command a line.
    ///
    /// # Errors
    /// What ip(8) says.
    pub fn ip_lines(&self, lines: &str) -> io::Result<()> {
        let mut child = Command::new("ip")
            .args(["-n", &self.name, "-batch", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        child
            .stdin
            .take()
            .expect("asked for")
            .write_all(lines.as_bytes())?;
        let out = child.wait_with_output()?;
        if out.status.success() {
            Ok(())
        } else {
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            Err(io::Error::other(said))
        }
    }

    /// Writes one `/proc/sys/net/...` value, as seen from inside.
    ///
    /// # Errors
    /// What sysctl says.
    pub fn sysctl(&self, key: &str, value: &str) -> io::Result<()> {
        sysctl(&self.name, key, value)
    }

    /// `RcvbufErrors` of /proc/net/snmp: datagrams that found a socket's buffer full.
    ///
    /// # Panics
    /// When the counter is not where Linux keeps it.
    #[must_use]
    pub fn udp_buffer_drops(&self) -> u64 {
        let table =
            run(Command::new("ip").args(["netns", "exec", &self.name, "cat", "/proc/net/snmp"]))
                .expect("the namespace is there");
        let mut lines = table.lines().filter_map(|l| l.strip_prefix("Udp: "));
        let [names, values] = [(); 2].map(|()| lines.next().unwrap_or_default().split(' '));
        names
            .zip(values)
            .find(|(name, _)| *name == "RcvbufErrors")
            .and_then(|(_, value)| value.parse().ok())
            .expect("Linux counts RcvbufErrors")
    }

    /// Moves the calling thread in; threads and processes it starts follow it.
    ///
    /// # Errors
    /// What setns(2) says.
    pub fn enter(name: &str) -> io::Result<()> {
        let file = File::open(Path::new("/run/netns").join(name))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        if let Err(e) = ip(&["netns", "del", &self.name]) {
            eprintln!("namespace {} stays behind: {e}", self.name);
        }
    }
}

/// Removes what a harness that was killed left behind.
pub fn sweep() {
    let Ok(dir) = std::fs::read_dir("/run/netns") else {
        return;
    };
    for name in dir
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
    {
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = ip(&["netns", "del", &name]);
        }
    }
}

/// `ip <args>`; what it prints.
///
/// # Errors
/// What it says on standard error.
pub fn ip(args: &[&str]) -> io::Result<String> {
    run(Command::new("ip").args(args))
}

/// See [`Netns::sysctl`], by the namespace's name.
///
/// # Errors
/// What sysctl says.
pub fn sysctl(name: &str, key: &str, value: &str) -> io::Result<()> {
    let path = format!("/proc/sys/{}", key.replace('.', "/"));
    let script = format!("echo {value} > {path}");
    run(Command::new("ip").args(["netns", "exec", name, "sh", "-c", &script])).map(|_| ())
}

fn run(command: &mut Command) -> io::Result<String> {
    let out = command.stdin(Stdio::null()).output()?;
    if out.status.success() {
        Ok(String::from_utf8_lossy(&out.stdout).into_owned())
    } else {
        Err(io::Error::other(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&out.stderr).trim()
        )))
    }
}
