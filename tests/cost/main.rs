//! Counted cost: user-space instructions per call, by callgrind, on the in-process
//! device; compared with the committed figures, a rise of more than 5 % fails.
//!
//! Counting needs no quiet machine. Each operation runs N and 2N times; the
//! difference divided by N has no start-up in it. `--bless` rewrites the figures;
//! `--profile` shows where the instructions of each operation go instead.

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
    let counted: Vec<f64> = OPERATIONS.iter().map(|o| cost(&lab, o)).collect();
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

fn cost(lab: &Lab, operation: &Operation) -> f64 {
    let shim = per_call(lab, operation, MEMORY);
    if operation.added {
        shim - per_call(lab, operation, Mode::Native)
    } else {
        shim
    }
}

fn per_call(lab: &Lab, operation: &Operation, mode: Mode) -> f64 {
    let once = count(lab, operation, mode, CALLS);
    let twice = count(lab, operation, mode, 2 * CALLS);
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
    let per_call = twice.saturating_sub(once) as f64 / CALLS as f64;
    per_call
}

const MEMORY: Mode = Mode::Shim(&[("SHIM_BACKEND", "memory")]);

fn count(lab: &Lab, operation: &Operation, mode: Mode, calls: u64) -> u64 {
    let report = callgrind(lab, operation, mode, calls, "/dev/null");
    collected(&report).unwrap_or_else(|| panic!("callgrind told no total:\n{report}"))
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

fn render(counted: &[f64]) -> String {
    let old = std::fs::read_to_string(figures_path()).unwrap_or_default();
    let mut text = String::new();
    for line in old.lines().filter(|l| l.starts_with('#')) {
        let _ = writeln!(text, "{line}");
    }
    for (operation, figure) in OPERATIONS.iter().zip(counted) {
        let _ = writeln!(text, "{} = {figure:.1}", operation.name);
    }
    text
}

fn committed() -> BTreeMap<String, f64> {
    let text = std::fs::read_to_string(figures_path()).expect("figures.txt is there");
    text.lines()
        .filter(|l| !l.starts_with('#'))
        .filter_map(|l| l.split_once(" = "))
        .map(|(name, figure)| {
            (
                name.to_owned(),
                figure.parse().expect("a figure is a number"),
            )
        })
        .collect()
}

/// A table of all, and failure if one has risen or is not committed.
fn compare(counted: &[f64]) -> ExitCode {
    let committed = committed();
    let mut failed = false;
    let mut table = format!(
        "{:<20} {:>9} {:>10} {:>8}\n",
        "instructions a call", "counted", "committed", "budget"
    );
    for (operation, &now) in OPERATIONS.iter().zip(counted) {
        let before = committed.get(operation.name).copied();
        let verdict = match before {
            None => "FAILED: no committed figure",
            // One instruction of slack: small figures are not worth a failure.
            Some(before) if now > before * (1.0 + TOLERANCE) + 1.0 => "FAILED: risen",
            Some(before) if now < before * (1.0 - TOLERANCE) - 1.0 => "fallen: --bless it",
            Some(_) if operation.budget.is_some_and(|b| now > b) => "above budget",
            Some(_) => "",
        };
        failed |= verdict.starts_with("FAILED");
        let or_none = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.1}"));
        let _ = writeln!(
            table,
            "{:<20} {now:>9.1} {:>10} {:>8} {verdict}",
            operation.name,
            or_none(before),
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
