//! The README says of options, profiles, reasons and counted cost what the tables say.
//!
//! `README_BLESS=1 cargo test -p engine --test readme` writes the rendered blocks into it.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use engine::config::{Effect, Opt, markdown, profiles_markdown};
use engine::error::Reason;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).unwrap()
}

/// What stands between the two markers of a name, and where.
fn block<'a>(text: &'a str, name: &str) -> (std::ops::Range<usize>, &'a str) {
    let (begin, end) = (
        format!("<!-- {name}:begin -->\n"),
        format!("<!-- {name}:end -->"),
    );
    let from = text
        .find(&begin)
        .map(|at| at + begin.len())
        .unwrap_or_else(|| panic!("README.md has no {begin}"));
    let to = text[from..]
        .find(&end)
        .map(|at| from + at)
        .unwrap_or_else(|| panic!("README.md has no {end}"));
    (from..to, &text[from..to])
}

/// Options that the table calls acting although no code outside it asks for them.
fn idle() -> String {
    let sources = sources();
    let unread = |opt: &&Opt| {
        matches!(opt.row().effect, Effect::Yes)
            && !sources.contains(&format!("Opt::{opt:?})"))
            && !sources.contains(&format!("Opt::{opt:?},"))
            && !sources.contains(&format!("Opt::{opt:?}."))
    };
    let names: Vec<_> = Opt::ALL
        .iter()
        .filter(unread)
        .map(|opt| format!("`{}`", opt.name()))
        .collect();
    if names.is_empty() {
        "none.\n".to_owned()
    } else {
        format!("{}.\n", names.join(", "))
    }
}

/// What the design allows an operation, in instructions.
const BUDGETS: [(&str, f64); 3] = [
    ("recvfrom hit", 300.0),
    ("sendto", 300.0),
    ("read pass-through", 40.0),
];

/// The committed figures of the counted cost, with their budgets.
fn cost() -> String {
    let figures = std::fs::read_to_string(root().join("tests/cost/figures.txt")).unwrap();
    let mut out =
        "| Operation | Instructions a call | of them the device's | the rest | Budget | |\n|---|---:|---:|---:|---:|---|\n".to_owned();
    for line in figures.lines().filter(|line| !line.starts_with('#')) {
        let (name, figures) = line.split_once(" = ").unwrap();
        let (all, device) = figures.split_once(" device ").unwrap();
        let rest = all.parse::<f64>().unwrap() - device.parse::<f64>().unwrap();
        let budget = BUDGETS.iter().find(|(n, _)| *n == name).map(|b| b.1);
        let verdict = match budget {
            Some(budget) if rest > budget => "above",
            Some(_) => "met",
            None => "",
        };
        let budget = budget.map_or(String::new(), |b| b.to_string());
        out += &format!("| {name} | {all} | {device} | {rest:.1} | {budget} | {verdict} |\n");
    }
    out
}

/// The code that may act upon an option: engine and shim, without the tables, their tests
/// and the banner, which only shows.
fn sources() -> String {
    let (mut text, mut rules) = (String::new(), String::new());
    let mut folders = vec![root().join("engine/src"), root().join("shim/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let shown = [
                "table.rs",
                "profile.rs",
                "render.rs",
                "tests.rs",
                "banner.rs",
            ];
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("rules.rs") {
                rules = std::fs::read_to_string(path).unwrap();
            } else if !shown.iter().any(|name| path.ends_with(name)) {
                text.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    // What the rules file's reader asks for counts only if somebody calls it.
    if text.contains("Rules::load(") {
        text.push_str(&rules);
    }
    assert!(text.contains("Opt::RxPoll)"), "the scan finds nothing");
    text
}

/// Figures move a little with every change; which are above their budget is what counts.
fn comparable(name: &str, block: &str) -> String {
    if name != "cost" {
        return block.to_owned();
    }
    let without_figure = |line: &str| {
        let cells = line.split('|').enumerate().filter(|(at, _)| *at != 2);
        cells.map(|(_, cell)| cell).collect::<Vec<_>>().join("|")
    };
    block
        .lines()
        .map(without_figure)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn blocks_are_as_rendered() {
    let rendered = [
        ("options", markdown()),
        ("idle", idle()),
        ("profiles", profiles_markdown()),
        ("cost", cost()),
    ];
    let mut text = readme();
    if std::env::var_os("README_BLESS").is_some() {
        for (name, fresh) in &rendered {
            let (range, _) = block(&text, name);
            text.replace_range(range, fresh);
        }
        std::fs::write(root().join("README.md"), &text).unwrap();
    }
    for (name, fresh) in &rendered {
        let (_, shown) = block(&text, name);
        assert_eq!(
            comparable(name, shown),
            comparable(name, fresh),
            "README.md's {name} block is out of date: README_BLESS=1 cargo test -p engine --test readme"
        );
    }
}

#[test]
fn every_reason_is_explained_once_in_order() {
    let text = readme();
    let (_, shown) = block(&text, "reasons");
    let first_cells: Vec<_> = shown
        .lines()
        .skip(2)
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .collect();
    let reasons: Vec<_> = Reason::ALL.iter().map(|reason| reason.text()).collect();
    assert_eq!(first_cells, reasons);
}
