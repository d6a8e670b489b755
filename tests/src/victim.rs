//! Compiles `tests/victims/NAME.c` once per content and flags.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a victim is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// Plain calls.
    Plain,
    /// `-D_FORTIFY_SOURCE=3 -O2`: the checked twins (`__recvfrom_chk`, …).
    Fortified,
}

impl Variant {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["-O1", "-U_FORTIFY_SOURCE"],
            Self::Fortified => &["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"],
        }
    }
}

/// Root of the source tree.
#[must_use]
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.parent().unwrap_or(tests).to_owned()
}

/// Cargo's target directory: where this test binary was built.
///
/// # Panics
/// When the binary does not lie in one.
#[must_use]
pub fn target() -> PathBuf {
    let exe = std::env::current_exe().expect("a test binary has a path");
    // target/debug/deps/name-hash
    exe.ancestors()
        .nth(3)
        .expect("the binary lies in target/PROFILE/deps")
        .to_owned()
}

/// The program, compiled if it is not yet.
///
/// # Panics
/// When gcc rejects it.
#[must_use]
pub fn compile(name: &str, variant: Variant) -> PathBuf {
    let dir = root().join("tests/victims");
    compile_file(&dir.join(name).with_extension("c"), variant)
}

/// Like [`compile`], by the path of the source.
///
/// # Panics
/// When the source is missing or gcc rejects it.
#[must_use]
pub fn compile_file(source: &Path, variant: Variant) -> PathBuf {
    let victims = root().join("tests/victims");
    let read = |p: &Path| std::fs::read(p).unwrap_or_else(|e| panic!("{}: {e}", p.display()));
    let mut hash = DefaultHasher::new();
    read(source).hash(&mut hash);
    let mut headers: Vec<_> = std::fs::read_dir(&victims)
        .expect("the victims are there")
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "h"))
        .collect();
    let beside = source.with_extension("h");
    if beside.exists() && !headers.contains(&beside) {
        headers.push(beside);
    }
    headers.sort();
    for header in headers {
        read(&header).hash(&mut hash);
    }
    variant.flags().hash(&mut hash);
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let bin = target().join("victims");
    std::fs::create_dir_all(&bin).expect("the target directory is writable");
    let program = bin.join(format!("{name}-{:016x}", hash.finish()));
    if program.exists() {
        return program;
    }
    let fresh = bin.join(format!("{name}-{}.tmp", std::process::id()));
    let out = Command::new("gcc")
        .args([
            "-std=gnu11",
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
        ])
        .args(variant.flags())
        .arg("-I")
        .arg(&victims)
        .arg(source)
        .arg("-o")
        .arg(&fresh)
        .output()
        .expect("gcc is installed");
    assert!(
        out.status.success(),
        "gcc {}:\n{}",
        source.display(),
        String::from_utf8_lossy(&out.stderr)
    );
    // Atomic, so that two test binaries may compile the same victim.
    std::fs::rename(&fresh, &program).expect("a rename within one directory");
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One header serves them all: what it breaks shows here, in seconds.
    #[test]
    fn every_victim_compiles() {
        let sources =
            std::fs::read_dir(root().join("tests/victims")).expect("the victims are there");
        for source in sources.flatten().map(|e| e.path()) {
            if source.extension().is_some_and(|e| e == "c") {
                let _ = compile_file(&source, Variant::Plain);
            }
        }
    }
}
