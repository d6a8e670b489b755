//! Many threads, many sockets, opened, closed, dup'd, joined and forked at random, while
//! numbered datagrams come: nothing lost, nothing twice, nothing left behind.
//!
//! `scripts/soak` runs it for longer: `SOAK_SECONDS`, `SOAK_SEED`, `SOAK_CHILDREN`.

use std::time::Duration;
use tests::backend::Backend;
use tests::check::DEFAULTS;
use tests::peer::Peer;
use tests::preload::{Finished, Mode, Program};
use tests::sampler::{Sampler, Seen};
use tests::topology::Lab;
use tests::victim::{self, Variant};

const THREADS: &str = "4";
/// What the allocator and the statistics may still take after a third of the time.
const GROWTH_KIB: i64 = 8192;

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |v| v.parse().expect("a number"))
}

/// The number after a word of the report.
#[track_caller]
fn figure(run: &Finished, word: &str) -> i64 {
    let mut words = run.stdout.split_whitespace();
    words.find(|w| *w == word);
    let number = words.next().and_then(|n| n.parse().ok());
    number.unwrap_or_else(|| panic!("no {word} in\n{}\n{}", run.stdout, run.stderr))
}

struct Soaked {
    run: Finished,
    seen: Seen,
    /// Flow rules that the device still had at the end.
    rules: i64,
    packet_sockets: String,
}

fn soak(mode: Mode, seconds: u64) -> Option<Soaked> {
    let lab = Lab::open()?;
    let peer = Peer::start(&lab, false);
    let program = victim::compile("soak", Variant::Plain);
    let sampler = Sampler::start();
    let (variable, place) = sampler.variable();
    let trace = std::env::temp_dir().join(format!("shim-tests-{}-soak", std::process::id()));
    let _ = std::fs::remove_file(&trace);
    let limit = Duration::from_secs(seconds + 60);
    let whole = (seconds + 2).to_string();
    let mut sender = Program::new(&program, &["send", &whole])
        .on(&lab.far)
        .limit(limit)
        .spawn();
    sender.wait_for("sending");
    let (seconds, seed) = (seconds.to_string(), setting("SOAK_SEED", 1).to_string());
    let mut args = vec!["receive", &seconds, &seed, THREADS];
    if setting("SOAK_CHILDREN", 0) != 0 {
        args.push("children");
    }
    let run = Program::new(&program, &args)
        .on(&lab.near)
        .mode(mode)
        .env("PEER", &peer.address())
        .env(variable, &place)
        .env("SOFTVERBS_TRACE", &trace.display().to_string())
        .limit(limit)
        .run()
        .success("soak");
    let seen = sampler.finish();
    drop(sender);
    let calls = std::fs::read_to_string(&trace).unwrap_or_default();
    let _ = std::fs::remove_file(&trace);
    let count = |call: &str| calls.lines().filter(|l| l.contains(call)).count() as i64;
    let packet_sockets = Program::new("cat", &["/proc/net/packet"])
        .on(&lab.near)
        .run();
    Some(Soaked {
        rules: count("create_flow") - count("destroy_flow"),
        run,
        seen,
        packet_sockets: packet_sockets.stdout,
    })
}

#[test]
fn soak_many_sockets() {
    let seconds = setting("SOAK_SECONDS", 10);
    for mode in [Mode::Native, DEFAULTS] {
        let seconds = if mode == Mode::Native {
            seconds.min(5)
        } else {
            seconds
        };
        let Some(soaked) = soak(mode, seconds) else {
            return;
        };
        let run = &soaked.run;
        let told = format!("{mode:?}\n{}{}", run.stdout, run.stderr);
        eprintln!(
            "{}",
            told.lines().rev().take(8).collect::<Vec<_>>().join("; ")
        );
        assert_eq!(figure(run, "lost"), 0, "{told}");
        assert_eq!(figure(run, "twice"), 0, "{told}");
        assert_eq!(figure(run, "descriptors"), 0, "{told}");
        assert!(figure(run, "grown") < GROWTH_KIB, "{told}");
        let received = figure(run, "received");
        assert!(received > 1500 * seconds as i64, "{told}");
        // The header alone.
        assert_eq!(
            soaked.packet_sockets.lines().count(),
            1,
            "{}",
            soaked.packet_sockets
        );
        if mode == Mode::Native {
            continue;
        }
        if setting("SOAK_CHILDREN", 0) == 0 {
            let seen = &soaked.seen;
            assert!(
                seen.rx > received as u64 / 3,
                "by rings {}\n{}",
                seen.rx,
                seen.told
            );
        }
        if Backend::current() == Backend::Verbs {
            assert_eq!(soaked.rules, 0, "flow rules left behind");
        }
    }
}
