//! What a test needs from the machine.
//!
//! A skip prints why. Where the environment was promised (`REQUIRE=netns,packet,…`
//! or `REQUIRE=all`, set in CI) a skip is a failure.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// True if `what` is there; else prints why not and, where it was promised, fails.
///
/// # Panics
/// When `REQUIRE` names `what` (or `all`) and `probe` failed.
#[must_use]
pub fn have(what: &str, probe: Result<(), String>) -> bool {
    let Err(why) = probe else { return true };
    let promised = std::env::var("REQUIRE").unwrap_or_default();
    let is_promised = promised
        .split(',')
        .any(|p| p.trim() == what || p.trim() == "all");
    assert!(!is_promised, "REQUIRE promises {what}, but: {why}");
    eprintln!("skipped: needs {what}: {why}");
    false
}

/// A program on PATH.
#[must_use]
pub fn program(name: &str) -> bool {
    have(
        name,
        which(name)
            .map(|_| ())
            .ok_or_else(|| format!("{name} is not on PATH")),
    )
}

/// Network namespaces can be made.
#[must_use]
pub fn netns() -> bool {
    have("netns", probe_netns())
}

fn probe_netns() -> Result<(), String> {
    if which("ip").is_none() {
        return Err("iproute2's ip is not on PATH".into());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("not root".into());
    }
    let out = Command::new("unshare")
        .args(["--net", "true"])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("unshare: {e}"))?;
    if out.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&out.stderr).trim().to_owned())
    }
}

/// Where `name` is found on PATH.
#[must_use]
pub fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .map(|dir| dir.join(name))
        .find(|p| is_program(p))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}
