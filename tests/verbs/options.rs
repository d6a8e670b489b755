//! What each option of rings comes to on a card: by the trace of what reached the library.

use crate::rig::*;
use std::time::Duration;
use tests::check::DEFAULTS;
use tests::require;
use tests::topology::{FAR, Lab};

/// IBV_SEND_*.
const SIGNALED: u32 = 1 << 1;
const INLINE: u32 = 1 << 3;
/// What the ping-pong below exchanges.
const ROUNDS: usize = 300;

type Vars<'a> = &'a [(&'a str, &'a str)];

/// The trace of what `run` does with these variables.
fn traced(vars: Vars, run: impl FnOnce(Vars) -> Option<()>) -> Option<String> {
    let trace = Scratch::new("options-trace");
    let path = trace.path();
    let mut env = vec![
        ("SOFTVERBS_TRACE", path.as_str()),
        ("SOFTVERBS_TRACE_DATA", "1"),
    ];
    env.extend_from_slice(vars);
    run(&env)?;
    Some(trace.text())
}

/// The trace of a ping-pong of 64-byte datagrams with the far host.
fn ping_pong(vars: Vars) -> Option<String> {
    traced(vars, |env| {
        let finished = exchange(env, ROUNDS)?;
        assert!(
            finished.stdout.starts_with("0 0 "),
            "{vars:?}: {}{}",
            finished.stdout,
            finished.stderr
        );
        Some(())
    })
}

/// The trace of a subscriber to which a burst was sent.
fn subscription(vars: Vars) -> Option<String> {
    traced(vars, |env| {
        let lab = Lab::open()?;
        let running = subscriber(&lab, DEFAULTS, env, &[]);
        finish(publisher(&lab, 0..400, Duration::ZERO));
        std::thread::sleep(Duration::from_millis(300));
        expect_all("subscriber", &running.kill().stdout, 0..400);
        Some(())
    })
}

/// The lines of a call.
fn calls<'a>(trace: &'a str, call: &'a str) -> Vec<&'a str> {
    let of_call = move |l: &&str| l.split([' ', '(']).next() == Some(call);
    trace.lines().filter(of_call).collect()
}

#[track_caller]
fn expect(trace: &str, call: &str, parts: &[&str]) {
    let lines = calls(trace, call);
    let fits = |l: &&str| parts.iter().all(|p| l.split(' ').any(|word| word == *p));
    assert!(lines.iter().any(fits), "no {call} {parts:?}:\n{lines:#?}");
}

fn flags(line: &str) -> u32 {
    let hex = line.split("flags=0x").nth(1).unwrap_or_default();
    let hex = hex.split(' ').next().unwrap_or_default();
    u32::from_str_radix(hex, 16).unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn sizes_and_batches() {
    let vars: Vars = &[
        ("VMA_RX_WRE", "512"),
        ("VMA_RX_WRE_BATCHING", "16"),
        ("VMA_TX_WRE", "128"),
        ("VMA_TX_WRE_BATCHING", "8"),
        ("VMA_TX_MAX_INLINE", "120"),
        ("VMA_CQ_MODERATION_COUNT", "5"),
        ("VMA_CQ_MODERATION_PERIOD_USEC", "7"),
    ];
    let Some(trace) = ping_pong(vars) else { return };
    expect(&trace, "create_cq_ex", &["cqe=512"]);
    expect(&trace, "create_cq", &["cqe=128"]);
    expect(
        &trace,
        "create_qp",
        &["send_wr=128", "recv_wr=512", "inline=120"],
    );
    expect(&trace, "modify_cq", &["count=5", "period=7"]);
    let given_back = calls(&trace, "post_recv").len() - 512;
    assert_eq!(given_back % 16, 0, "{given_back}");
    assert!((ROUNDS - 16..ROUNDS + 40).contains(&given_back));
    let sends = calls(&trace, "post_send");
    assert!(sends.len() >= ROUNDS);
    for (line, n) in sends.iter().zip(1..) {
        assert!(flags(line) & INLINE != 0, "{line}");
        assert_eq!(flags(line) & SIGNALED != 0, n % 8 == 0, "{n}: {line}");
    }
}

#[test]
fn the_same_switched_off() {
    let vars: Vars = &[
        ("VMA_RX_WRE_BATCHING", "1"),
        ("VMA_TX_MAX_INLINE", "0"),
        ("VMA_TX_WRE_BATCHING", "1"),
        ("VMA_CQ_MODERATION_ENABLE", "0"),
        ("VMA_HW_TS_CONVERSION", "0"),
        ("VMA_FORK", "0"),
    ];
    let Some(trace) = ping_pong(vars) else { return };
    assert_eq!(calls(&trace, "modify_cq"), [""; 0]);
    assert_eq!(calls(&trace, "create_cq_ex"), [""; 0]);
    assert_eq!(calls(&trace, "fork_init"), [""; 0]);
    for line in calls(&trace, "post_send") {
        assert_eq!(flags(line) & (INLINE | SIGNALED), SIGNALED, "{line}");
    }
    // One by one: every frame that came went back at once.
    let given_back = calls(&trace, "post_recv").len() - 8192;
    assert!(given_back >= ROUNDS, "{given_back}");
    let Some(trace) = ping_pong(&[]) else { return };
    assert_eq!(calls(&trace, "fork_init").len(), 1);
    expect(&trace, "modify_cq", &["count=48", "period=50"]);
}

#[test]
fn completions_at_a_time() {
    let most = |vars: Vars| {
        let mut plain = vec![("SOFTVERBS_NO_CQ_EX", "1")];
        plain.extend_from_slice(vars);
        let trace = subscription(&plain)?;
        let polls = calls(&trace, "poll_cq");
        let found = polls
            .iter()
            .filter_map(|l| l.rsplit(' ').next()?.parse::<u32>().ok());
        found.max()
    };
    let Some(four) = most(&[("VMA_CQ_POLL_BATCH_MAX", "4")]) else {
        return;
    };
    assert_eq!(four, 4);
    let default = most(&[]).expect("a lab once is a lab twice");
    assert!((5..=16).contains(&default), "{default}");
}

#[test]
fn rules_of_groups_and_of_connected_sockets() {
    let exact = "dst=239.78.0.1:5000";
    let Some(trace) = subscription(&[]) else {
        return;
    };
    expect(&trace, "create_flow", &["mac=01:00:5e:4e:00:01", exact]);
    let by_mac = subscription(&[("VMA_ETH_MC_L2_ONLY_RULES", "1")]).expect("a lab");
    expect(&by_mac, "create_flow", &["mac=01:00:5e:4e:00:01"]);
    assert!(!by_mac.contains(exact), "{by_mac}");
    let peer = format!("src={FAR}:7777");
    let three = ping_pong(&[("VMA_UDP_3T_RULES", "1")]).expect("a lab");
    assert!(!three.contains(&peer), "{three}");
    let five = ping_pong(&[("VMA_UDP_3T_RULES", "0")]).expect("a lab");
    expect(&five, "create_flow", &[&peer]);
}

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

fn number(path: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Huge pages of the machine, reserved beyond what there was until it goes.
struct HugePages(u64);

impl HugePages {
    fn reserve(count: u64) -> Option<Self> {
        let before = number(RESERVED);
        let enough = std::fs::write(RESERVED, (before + count).to_string()).is_ok();
        let pages = Self(before);
        let found = if enough && number(FREE) >= count {
            Ok(())
        } else {
            Err(format!("no {count} huge pages to be had"))
        };
        require::have("huge pages", found).then_some(pages)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(RESERVED, self.0.to_string());
    }
}

/// Huge pages if they are wanted and there; which it was is said.
#[test]
fn memory_of_the_kind_that_there_is() {
    let said = |kind: &str| {
        let finished = exchange(&[("VMA_MEM_ALLOC_TYPE", kind)], 20)?;
        let line = finished.stderr.lines().find(|l| l.contains("buffers in "));
        let what = line.and_then(|l| l.split("buffers in ").nth(1));
        Some(what.unwrap_or(&finished.stderr).to_owned())
    };
    if number(FREE) == 0 {
        let Some(without) = said("2") else { return };
        assert_eq!(without, "ordinary pages");
    }
    // Of one ring, 20 MiB.
    let Some(pages) = HugePages::reserve(12) else {
        return;
    };
    for (kind, what) in [("0", "ordinary"), ("1", "huge"), ("2", "huge")] {
        assert_eq!(said(kind), Some(format!("{what} pages")), "{kind}");
    }
    drop(pages);
}
