//! The host and the interface: privileges, limits, memory, netfilter. Source: proc(5),
//! capabilities(7), Documentation/admin-guide/mm/hugetlbpage.rst.

use crate::report::Report;
use engine::net::{Interface, LinkKind};
use std::fs;
use std::process::{Command, Stdio};

const NET_RAW: u32 = 13;
const IPC_LOCK: u32 = 14;
/// What the common ring of an interface registers with a card by default, MiB.
const RING_MIB: u64 = 21;
const HUGE_FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

/// Whether a set of capabilities as /proc/PID/status writes it holds one.
fn has_capability(status: &str, capability: u32) -> bool {
    let set = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    set.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|bits| bits >> capability & 1 == 1)
}

/// The soft limit of a row of /proc/PID/limits; None: unlimited, or no such row.
fn soft_limit(limits: &str, row: &str) -> Option<u64> {
    let line = limits.lines().find_map(|l| l.strip_prefix(row))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Rules of chains that see what comes in, of `nft list ruleset`: everything inside such a
/// chain but its own type and policy.
fn incoming_rules(ruleset: &str) -> usize {
    let mut rules = 0;
    let mut within = false;
    for line in ruleset.lines().map(str::trim) {
        if line.starts_with("chain ") {
            within = false;
        } else if line.starts_with("type ") {
            within = ["hook input", "hook prerouting", "hook ingress"]
                .iter()
                .any(|hook| line.contains(hook));
            rules += usize::from(within && line.contains("policy drop"));
        } else if within && !line.is_empty() && line != "}" {
            rules += 1;
        }
    }
    rules
}

/// What a command prints; None where it is not installed or fails.
fn output(command: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(command);
    command.args(arguments).stdin(Stdio::null());
    let output = command.output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn netfilter(report: &mut Report) {
    const WHAT: &str = "netfilter";
    const MEANING: &str = "what the engine receives does not pass them";
    if let Some(ruleset) = output("nft", &["list", "ruleset"]) {
        match incoming_rules(&ruleset) {
            0 => report.good(WHAT, "no rules for what comes in"),
            n => report.warn(WHAT, &format!("{n} rules for what comes in: {MEANING}")),
        }
    } else if let Some(rules) = output("iptables-save", &["-t", "filter"]) {
        let chains = ["-A INPUT", ":INPUT DROP"];
        let of_input = |l: &&str| chains.iter().any(|c| l.starts_with(c));
        match rules.lines().filter(of_input).count() {
            0 => report.good(WHAT, "no rules in INPUT"),
            n => report.warn(WHAT, &format!("{n} rules in INPUT: {MEANING}")),
        }
    } else {
        let tables = fs::read_to_string("/proc/net/ip_tables_names").unwrap_or_default();
        if tables.trim().is_empty() {
            report.note(WHAT, "neither nft nor iptables is installed");
        } else {
            report.warn(WHAT, "there are iptables tables, and no tool to list them");
        }
    }
}

/// Looks at the host.
pub(crate) fn examine(report: &mut Report) {
    report.heading("host");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    if has_capability(&status, NET_RAW) {
        report.good("CAP_NET_RAW", "here; the program needs it as well");
    } else {
        report.fail(
            "CAP_NET_RAW",
            "missing: README, \"Running as a plain user\"",
        );
    }
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    match soft_limit(&limits, "Max locked memory") {
        Some(bytes) if bytes >> 20 < RING_MIB && !has_capability(&status, IPC_LOCK) => {
            let text = format!(
                "{} KiB, a ring takes {RING_MIB} MiB: ulimit -l unlimited",
                bytes >> 10
            );
            report.fail("RLIMIT_MEMLOCK", &text);
        }
        Some(bytes) => report.good("RLIMIT_MEMLOCK", &format!("{} KiB, enough", bytes >> 10)),
        None => report.good("RLIMIT_MEMLOCK", "unlimited"),
    }
    let free = fs::read_to_string(HUGE_FREE).unwrap_or_default();
    match free.trim().parse::<u64>() {
        Ok(pages) if pages * 2 >= RING_MIB => {
            report.good("huge pages", &format!("{pages} of 2 MiB are free"));
        }
        Ok(pages) => {
            let text = format!(
                "{pages} of 2 MiB are free, a ring takes {}: ordinary pages then (sysctl vm.nr_hugepages)",
                RING_MIB.div_ceil(2)
            );
            report.note("huge pages", &text);
        }
        Err(_) => report.note("huge pages", "this kernel has none of 2 MiB"),
    }
    netfilter(report);
}

/// Looks at an interface.
pub(crate) fn interface(interface: &Interface, report: &mut Report) {
    let addresses: Vec<String> = interface
        .addresses
        .iter()
        .map(|a| format!("{}/{}", a.addr, a.prefix))
        .collect();
    let driver = if interface.driver.is_empty() {
        "hardware"
    } else {
        &interface.driver
    };
    let text = format!("{driver}, MTU {}, {}", interface.mtu, addresses.join(" "));
    if interface.kind == LinkKind::Ethernet && interface.up {
        report.good("interface", &text);
    } else {
        report.warn("interface", &text);
    }
    if interface.up && !interface.running {
        report.warn("link", "no carrier");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_bits() {
        let status = "Name:\tx\nCapEff:\t0000000000002000\n";
        assert!(has_capability(status, NET_RAW));
        assert!(!has_capability(status, IPC_LOCK));
        assert!(!has_capability("", NET_RAW));
    }

    #[test]
    fn limits_are_soft_ones() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         65536                unlimited            bytes\n";
        assert_eq!(soft_limit(limits, "Max locked memory"), Some(65536));
        let unlimited = limits.replace("65536", "unlimited");
        assert_eq!(soft_limit(&unlimited, "Max locked memory"), None);
    }

    #[test]
    fn rules_of_incoming_chains_count() {
        let ruleset = "table inet t {\n\tchain in {\n\t\ttype filter hook input priority 0; policy accept;\n\t\tudp dport 5 drop\n\t}\n\tchain out {\n\t\ttype filter hook output priority 0; policy drop;\n\t\tudp dport 6 drop\n\t}\n}\n";
        assert_eq!(incoming_rules(ruleset), 1);
        let closed = ruleset.replace("policy accept", "policy drop");
        assert_eq!(incoming_rules(&closed), 2);
        assert_eq!(incoming_rules(""), 0);
    }
}
