//! The random differential test: sequences of socket calls, drawn at random, taken by kernel
//! sockets and by accelerated ones in two identical pairs of hosts; the transcripts must be
//! equal. Sequences that once differed are in `sequences.txt` and are replayed first.
//!
//! `scripts/fuzz` runs it for as long as one likes, by these variables:
//! `FUZZ_SEED` (first number), `FUZZ_COUNT` (how many), `FUZZ_MINUTES` (at most),
//! `FUZZ_MODE` (defaults, sleep, spin; else in turn), `FUZZ_REPLAY` (a file of sequences),
//! `FUZZ_KEEP` (how many differences end it).

mod draw;
mod shrink;
mod side;

use side::{Difference, Sides};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tests::check::{DEFAULTS, SLEEP, SPIN};
use tests::preload::Mode;
use tests::victim;

const MODES: [(&str, Mode); 3] = [("defaults", DEFAULTS), ("sleep", SLEEP), ("spin", SPIN)];
/// Sequences a mode in an ordinary run, and how long all modes may take, in seconds.
const BOUNDED: u64 = 400;
const BOUNDED_TIME: u64 = 90;
/// How often a sequence that differed is tried again.
const AGAIN: u32 = 4;
/// Of so many sequences one may differ once and then not again: a step that waits for
/// milliseconds on a machine that has other things to do.
const UNSTEADY: u64 = 400;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// Those wanted, each with its place among all.
fn modes() -> Vec<(u64, &'static str, Mode)> {
    let wanted = std::env::var("FUZZ_MODE").unwrap_or_default();
    let all = (0..).zip(MODES).map(|(at, (name, mode))| (at, name, mode));
    let mut modes: Vec<_> = all.collect();
    modes.retain(|(_, name, _)| wanted.is_empty() || *name == wanted);
    assert!(!modes.is_empty(), "FUZZ_MODE={wanted}");
    modes
}

/// The sequences of a file: a step a line, an empty line after each, # for remarks.
fn sequences(text: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.trim().is_empty() {
            all.push(Vec::new());
        } else if let Some(steps) = all.last_mut() {
            steps.push(line.trim().to_owned());
        }
    }
    all.retain(|steps| !steps.is_empty());
    all
}

/// True differences come again, some only at once and some only if there is time in between;
/// what the machine's load did does not.
fn repeats(sides: &mut Sides, steps: &[String], times: u32) -> Option<Difference> {
    (0..times).find_map(|time| sides.run(steps, time % 2 * 5).err())
}

#[test]
fn committed_sequences() {
    let path = std::env::var("FUZZ_REPLAY").map_or_else(
        |_| victim::root().join("tests/differential/sequences.txt"),
        Into::into,
    );
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut differences = String::new();
    for (_, name, mode) in modes() {
        let Some(mut sides) = Sides::start(mode) else {
            return;
        };
        for steps in sequences(&text) {
            if let Err(first) = sides.run(&steps, 0)
                && let Some(again) = repeats(&mut sides, &steps, AGAIN)
            {
                differences.push_str(&format!("mode {name}:\n{}\n", again.text));
                drop(first);
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

#[test]
fn random_sequences() {
    let seed = number("FUZZ_SEED").unwrap_or(1);
    let count = number("FUZZ_COUNT").unwrap_or(BOUNDED);
    let keep = number("FUZZ_KEEP").unwrap_or(1);
    let modes = modes();
    let time = match (number("FUZZ_MINUTES"), number("FUZZ_COUNT")) {
        (Some(minutes), _) => 60 * minutes,
        (None, Some(_)) => u64::MAX / 2,
        (None, None) => BOUNDED_TIME,
    };
    let time = Duration::from_secs(time / modes.len() as u64);
    let mut all = 0;
    let mut kinds: BTreeMap<&str, u64> = draw::kinds().map(|kind| (kind, 0)).collect();
    let mut differences = Vec::new();
    for (index, name, mode) in modes {
        let Some(mut sides) = Sides::start(mode) else {
            return;
        };
        let (mut ran, mut loads) = (0_u64, 0_u64);
        let began = Instant::now();
        for number in (seed..seed + count).map(|n| n * 3 + index) {
            if began.elapsed() > time || differences.len() as u64 >= keep {
                break;
            }
            let sequence = draw::sequence(number);
            for kind in &sequence.kinds {
                *kinds.entry(kind).or_default() += 1;
            }
            ran += 1;
            let Err(first) = sides.run(&sequence.steps, 0) else {
                continue;
            };
            let steps = &sequence.steps[..(first.at + 1).min(sequence.steps.len())];
            if repeats(&mut sides, steps, AGAIN).is_none() {
                loads += 1;
                eprintln!("seed {number}, not again:\n{}", first.text);
                continue;
            }
            let steps = shrink::shrink(steps.to_vec(), |s| repeats(&mut sides, s, 2).is_some());
            let text = repeats(&mut sides, &steps, AGAIN).map_or(first.text, |d| d.text);
            eprintln!(
                "seed {number}, mode {name}:\n{text}\nsequence:\n{}\n",
                steps.join("\n")
            );
            differences.push(format!("# seed {number}, {name}\n{}\n", steps.join("\n")));
        }
        let counted = &sides.counted;
        eprintln!(
            "mode {name}: {ran} sequences in {:.0} s, {loads} differences did not come again; {counted:?}",
            began.elapsed().as_secs_f64()
        );
        all += ran;
        assert!(loads <= 1 + ran / UNSTEADY, "too many did not come again");
        if ran >= 50 {
            // Far from all: loopback, broadcasts, shared ports and fragments are the kernel's.
            assert!(
                counted.rx * 3 > counted.rx_os && counted.tx * 5 > counted.tx_os,
                "hardly accelerated: {counted:?}"
            );
        }
    }
    eprintln!("kinds: {kinds:?}");
    assert!(
        differences.is_empty(),
        "{} differences\n{}",
        differences.len(),
        differences.join("\n")
    );
    let missing: Vec<_> = kinds.iter().filter(|kind| *kind.1 == 0).collect();
    assert!(all < 150 || missing.is_empty(), "{missing:?}");
}
