//! The tree keeps its own rules: size of a file, where memory-unsafe code may be, the
//! direction of dependencies, and nothing that only exists on one machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use tests::victim;

/// Longest file of source.
const LONGEST: usize = 700;

/// Where the keyword may stand.
const UNCHECKED: &[&str] = &[
    "engine/src/sys/",
    "engine/src/ring/",
    "engine/src/mem/",
    "engine/src/stats/layout",
    "shim/src/hooks",
    "shim/src/abi",
    "shim/src/process",
    "shim/src/fdtable",
    "engine/src/sys.rs",
    // A C library in software: every pointer of its interface comes from outside.
    "tests/softverbs/",
    "tests/src/raw.rs",
    // loom's cell is entered by pointer.
    "tests/models/tests/",
];

/// The engine's layers; one may name those of its own row and of the rows before.
const LAYERS: [&[&str]; 8] = [
    &["error", "clock", "wire", "config"],
    &["sys"],
    &["ring", "mem", "stats"],
    &["device"],
    &["net", "steering"],
    &["socket"],
    &["ready"],
    &["stack"],
];

/// Files of the project, by path from its root.
fn files() -> Vec<PathBuf> {
    let root = victim::root();
    let out = Command::new("git")
        .args([
            "-C",
            &root.display().to_string(),
            "ls-files",
            "--cached",
            "--others",
        ])
        .arg("--exclude-standard")
        .output()
        .expect("git is installed");
    let list = String::from_utf8_lossy(&out.stdout).into_owned();
    let files: Vec<PathBuf> = list
        .lines()
        .map(PathBuf::from)
        .filter(|p| root.join(p).is_file())
        .collect();
    assert!(files.len() > 50, "git lists only {} files", files.len());
    files
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(victim::root().join(path)).ok()
}

fn with_extension<'a>(
    files: &'a [PathBuf],
    wanted: &'a [&str],
) -> impl Iterator<Item = &'a PathBuf> {
    files.iter().filter(move |p| {
        p.extension()
            .is_some_and(|e| wanted.iter().any(|w| e == *w))
    })
}

/// Identifiers of a line, its comment left out.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
}

#[test]
fn no_file_is_too_long() {
    let files = files();
    let sources = ["rs", "c", "h", "java", "sh", "awk", ""];
    for path in
        with_extension(&files, &sources).chain(files.iter().filter(|p| p.starts_with("scripts")))
    {
        let Some(text) = read(path) else { continue };
        let lines = text.lines().count();
        assert!(lines <= LONGEST, "{}: {lines} lines", path.display());
    }
}

#[test]
fn unchecked_code_is_where_it_may_be() {
    // Not a literal, or this file would name it.
    let keyword = concat!("un", "safe");
    let files = files();
    let mut found = 0;
    for path in with_extension(&files, &["rs"]) {
        let allowed = UNCHECKED
            .iter()
            .any(|a| path.to_string_lossy().starts_with(a));
        let Some(text) = read(path) else { continue };
        for (number, line) in text.lines().enumerate() {
            if words(line).any(|w| w == keyword) {
                found += 1;
                assert!(allowed, "{}:{}: {line}", path.display(), number + 1);
            }
        }
    }
    assert!(found > 0, "the check finds nothing at all");
}

fn rank(layer: &str) -> Option<usize> {
    LAYERS.iter().position(|row| row.contains(&layer))
}

#[test]
fn lower_layers_do_not_name_higher_ones() {
    let files = files();
    let mut checked = 0;
    for path in with_extension(&files, &["rs"]).filter(|p| p.starts_with("engine/src")) {
        let Some(own) = path
            .components()
            .nth(2)
            .map(|c| {
                c.as_os_str()
                    .to_string_lossy()
                    .trim_end_matches(".rs")
                    .to_owned()
            })
            .filter(|layer| layer != "lib")
        else {
            continue;
        };
        let Some(own_rank) = rank(&own) else {
            panic!("{}: {own} is no layer of the engine", path.display());
        };
        let Some(text) = read(path) else { continue };
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for rest in code.split("crate::").skip(1) {
                let layer = rest
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .next();
                if let Some(named) = layer.and_then(rank) {
                    checked += 1;
                    assert!(
                        named <= own_rank,
                        "{}:{}: {line}",
                        path.display(),
                        number + 1
                    );
                }
            }
        }
    }
    assert!(checked > 10, "the check finds nothing at all");
}

/// Paths of one machine, in files that travel.
#[test]
fn no_path_of_one_machine() {
    let strays = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/tmp/", "w/"),
    ];
    for path in files() {
        let Some(text) = read(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            for stray in strays {
                assert!(
                    !line.contains(stray),
                    "{}:{}: {line}",
                    path.display(),
                    number + 1
                );
            }
        }
    }
}

/// A victim that no test names tests nothing.
#[test]
fn every_victim_is_used() {
    let files = files();
    let tests: String = with_extension(&files, &["rs"])
        .filter(|p| p.starts_with("tests"))
        .filter_map(|p| read(p))
        .collect();
    for path in with_extension(&files, &["c"]).filter(|p| p.starts_with("tests/victims")) {
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let quoted = format!("\"{name}\"");
        let in_table = format!("{name} rx ");
        assert!(
            tests.contains(&quoted) || tests.contains(&in_table),
            "{} is in no test",
            path.display()
        );
    }
}
