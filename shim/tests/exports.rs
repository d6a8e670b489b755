//! The library shows the world what `exports.txt` lists, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::PathBuf;
use std::process::Command;

/// The library that this test run built. Cargo does not copy it out of `deps` for tests.
fn library() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.with_file_name("libshim.so")
}

fn output(program: &str, arguments: &[&str]) -> String {
    let library = library();
    let run = Command::new(program)
        .args(arguments)
        .arg(&library)
        .output()
        .unwrap();
    assert!(
        run.status.success(),
        "{program} {}: {run:?}",
        library.display()
    );
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn exported_symbols_are_the_listed_ones() {
    let symbols = output("nm", &["-D", "--defined-only"]);
    let mut found: Vec<_> = symbols
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    found.sort_unstable();
    let listed: Vec<_> = include_str!("../exports.txt").lines().collect();
    assert!(listed.is_sorted(), "exports.txt is kept sorted");
    assert_eq!(found, listed);
}

#[test]
fn only_the_c_library_is_needed_and_no_text_is_relocated() {
    let dynamic = output("readelf", &["-d"]);
    assert!(!dynamic.contains("TEXTREL"), "{dynamic}");
    let needed = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    for line in needed {
        let known = [
            "libc.so.6",
            "libgcc_s.so.1",
            "ld-linux",
            "libdl.so.2",
            "libpthread.so.0",
        ];
        assert!(known.iter().any(|name| line.contains(name)), "{line}");
    }
}
