//! Counted cost: user-space instructions per call, by callgrind, on the in-process
//! device; compared with the committed figures, a rise of more than 5 % fails.
//!
//! Counting needs no quiet machine. Each operation runs N and 2N times; the
//! difference divided by N has no start-up in it. What the device spends, which stands in
//! for a card, is counted apart: the budgets are for the rest. `--bless` rewrites the
//! figures; `--profile` shows where the instructions of each operation go instead.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tests::preload::{Mode, Program};
use tests::require;
use tests::topology::{FAR, LINK, Lab};
use tests::victim::{self, Variant};

const CALLS: u64 = 500;
/// A rise by more than this share fails.
const TOLERANCE: f64 = 0.05;

struct Operation {
    name: &'static str,
    code: &'static str,
    /// What the design allows, where it says so.
    budget: Option<f64>,
    /// Count only what the library adds to the native call.
    added: bool,
}

const OPERATIONS: &[Operation] = &[
    Operation {
        name: "recvfrom hit",
        code: "r",
        budget: Some(300.0),
        added: false,
    },
    Operation {
        name: "recvfrom miss",
        code: "m",
        budget: None,
        added: false,
    },
    Operation {
        name: "sendto",
        code: "s",
        budget: Some(300.0),
        added: false,
    },
    Operation {
        name: "epoll_wait hit",
        code: "e",
        budget: None,
        added: false,
    },
    Operation {
        name: "read pass-through",
        code: "p",
        budget: Some(40.0),
        added: true,
    },
];

fn main() -> ExitCode {
    let bless = std::env::args().any(|a| a == "--bless");
    if !require::program("valgrind") {
        return ExitCode::SUCCESS;
    }
    let Some(lab) = Lab::open() else {
        return ExitCode::SUCCESS;
    };
    permanent_neighbour(&lab);
    if std::env::args().any(|a| a == "--profile") {
        OPERATIONS.iter().for_each(|o| profile(&lab, o));
        return ExitCode::SUCCESS;
    }
    let counted: Vec<Cost> = OPERATIONS.iter().map(|o| cost(&lab, o)).collect();
    if bless {
        std::fs::write(figures_path(), render(&counted)).expect("the source tree is writable");
    }
    compare(&counted)
}

/// Valgrind is slow enough for a neighbour entry to go stale.
fn permanent_neighbour(lab: &Lab) {
    let link = lab
        .far
        .ip(&format!("-o link show dev {LINK}"))
        .expect("the far link");
    let mac = link
        .split_whitespace()
        .skip_while(|w| *w != "link/ether")
        .nth(1)
        .expect("a veth has a hardware address");
    lab.near
        .ip(&format!(
            "neigh replace {FAR} lladdr {mac} dev {LINK} nud permanent"
        ))
        .expect("a permanent neighbour");
}

/// Instructions a call.
#[derive(Clone, Copy, Debug)]
struct Cost {
    all: f64,
    /// Of these, the device's, with what it calls.
    device: f64,
}

fn cost(lab: &Lab, operation: &Operation) -> Cost {
    let shim = per_call(lab, operation, MEMORY);
    if operation.added {
        let native = per_call(lab, operation, Mode::Native);
        Cost {
            all: shim.all - native.all,
            device: 0.0,
        }
    } else {
        shim
    }
}

fn per_call(lab: &Lab, operation: &Operation, mode: Mode) -> Cost {
    let once = count(lab, operation, mode, CALLS);
    let twice = count(lab, operation, mode, 2 * CALLS);
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let per_call = |once: u64, twice: u64| twice.saturating_sub(once) as f64 / CALLS as f64;
    Cost {
        all: per_call(once.0, twice.0),
        device: per_call(once.1, twice.1),
    }
}

const MEMORY: Mode = Mode::Shim(&[("SHIM_BACKEND", "memory")]);

/// Instructions of a run: all, and the device's.
fn count(lab: &Lab, operation: &Operation, mode: Mode, calls: u64) -> (u64, u64) {
    let out = std::env::temp_dir().join(format!("shim-tests-{}-count", std::process::id()));
    let report = callgrind(lab, operation, mode, calls, &out.display().to_string());
    let profile = std::fs::read_to_string(&out).expect("callgrind writes where it is told");
    let _ = std::fs::remove_file(&out);
    let all = collected(&report).unwrap_or_else(|| panic!("callgrind told no total:\n{report}"));
    (all, device(&profile))
}

/// What calls of the device's functions from outside it cost, those with what they call.
/// Source: callgrind-format(1).
fn device(profile: &str) -> u64 {
    let mut names = BTreeMap::new();
    let mut is_device = |name: &str| {
        let (id, text) = name.split_once(' ').unwrap_or((name, ""));
        // A name is spelt out where it comes first.
        let known: &mut bool = names.entry(id.to_owned()).or_default();
        *known |= text.contains("device::memory::");
        *known
    };
    let (mut inside, mut callee) = (false, false);
    let mut sum = 0;
    let mut lines = profile.lines();
    while let Some(line) = lines.next() {
        if let Some(name) = line.strip_prefix("fn=") {
            inside = is_device(name);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            callee = is_device(name);
        } else if line.starts_with("calls=") {
            let cost = lines
                .next()
                .and_then(|l| l.rsplit(' ').next()?.parse::<u64>().ok());
            if callee && !inside {
                sum += cost.expect("the line behind calls= ends with their cost");
            }
        }
    }
    sum
}

/// Runs an operation under callgrind; what callgrind says.
fn callgrind(lab: &Lab, operation: &Operation, mode: Mode, calls: u64, out: &str) -> String {
    let source = victim::root().join("tests/cost/operations.c");
    let program = victim::compile_file(&source, Variant::Plain);
    let program = program.display().to_string();
    let (calls, out) = (calls.to_string(), format!("--callgrind-out-file={out}"));
    let args = [
        "--tool=callgrind",
        "--toggle-collect=counted",
        &out,
        &program,
        operation.code,
        &calls,
    ];
    let run = Program::new("valgrind", &args)
        .on(&lab.near)
        .mode(mode)
        // The same memcpy on every machine.
        .env(
            "GLIBC_TUNABLES",
            "glibc.cpu.hwcaps=-AVX512F,-AVX2,-AVX_Fast_Unaligned_Load,-ERMS,-FSRM",
        )
        .limit(Duration::from_secs(150))
        .run()
        .success(operation.name);
    run.stderr
}

/// The functions in which an operation spends its instructions.
fn profile(lab: &Lab, operation: &Operation) {
    let out = std::env::temp_dir().join(format!("shim-tests-{}-profile", std::process::id()));
    let path = out.display().to_string();
    let _ = callgrind(lab, operation, MEMORY, CALLS, &path);
    let shown = Program::new(
        "callgrind_annotate",
        &["--auto=no", "--threshold=95", &path],
    )
    .run()
    .success("callgrind_annotate");
    let _ = std::fs::remove_file(&out);
    eprintln!("== {}, {CALLS} calls", operation.name);
    for line in shown.stdout.lines().filter(|l| l.contains("%)")) {
        let end = line
            .char_indices()
            .nth(180)
            .map_or(line.len(), |(at, _)| at);
        eprintln!("{}", &line[..end]);
    }
}

/// From callgrind's `==pid== Collected : 12345`.
fn collected(report: &str) -> Option<u64> {
    let line = report.lines().find(|l| l.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn figures_path() -> PathBuf {
    victim::root().join("tests/cost/figures.txt")
}

fn render(counted: &[Cost]) -> String {
    let old = std::fs::read_to_string(figures_path()).unwrap_or_default();
    let mut text = String::new();
    for line in old.lines().filter(|l| l.starts_with('#')) {
        let _ = writeln!(text, "{line}");
    }
    for (operation, cost) in OPERATIONS.iter().zip(counted) {
        let Cost { all, device } = cost;
        let _ = writeln!(text, "{} = {all:.1} device {device:.1}", operation.name);
    }
    text
}

fn committed() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(figures_path()).expect("figures.txt is there");
    text.lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| l.split_once(" = "))
        .map(|(name, figures)| {
            let all = figures.split(' ').next().unwrap_or_default();
            (name.to_owned(), all.parse().expect("a figure is a number"))
        })
        .collect()
}

/// A table of all, and failure if one has risen or is not committed.
fn compare(counted: &[Cost]) -> ExitCode {
    let committed = committed();
    let mut failed = false;
    let mut table = format!(
        "{:<20} {:>9} {:>10} {:>8} {:>8} {:>8}\n",
        "instructions a call", "counted", "committed", "device", "rest", "budget"
    );
    for (operation, cost) in OPERATIONS.iter().zip(counted) {
        let (now, rest) = (cost.all, cost.all - cost.device);
        let before = committed.get(operation.name).copied();
        let verdict = match before {
            None => "FAILED: no committed figure",
            // One instruction of slack: small figures are not worth a failure.
            Some(before) if now > before * (1.0 + TOLERANCE) + 1.0 => "FAILED: risen",
            Some(before) if now < before * (1.0 - TOLERANCE) - 1.0 => "fallen: --bless it",
            Some(_) if operation.budget.is_some_and(|b| rest > b) => "above budget",
            Some(_) => "",
        };
        failed |= verdict.starts_with("FAILED");
        let or_none = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.1}"));
        let _ = writeln!(
            table,
            "{:<20} {now:>9.1} {:>10} {:>8.1} {rest:>8.1} {:>8} {verdict}",
            operation.name,
            or_none(before),
            cost.device,
            or_none(operation.budget)
        );
    }
    eprint!("{table}");
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
