//! Compiles C programs against Debian's headers and real library, and runs them with the
//! software library in its place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock};

/// Directory of what the tests build.
fn place() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(&path).expect("the target directory is writable");
    path
}

/// A directory with the software library under the name that programs look for.
pub(crate) fn library() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| {
        let exe = std::env::current_exe().expect("a test has a path");
        let built = exe.parent().expect("in deps").join("libsoftverbs.so");
        assert!(built.is_file(), "{} is not there", built.display());
        let directory = place().join(format!("lib{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).expect("the target directory is writable");
        let name = directory.join("libibverbs.so.1");
        std::os::unix::fs::symlink(built, name).expect("the directory is new");
        directory
    })
}

fn gcc(name: &str, source: &Path) -> PathBuf {
    let program = place().join(format!("{name}.{}", std::process::id()));
    let out = Command::new("gcc")
        .args([
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-o",
        ])
        .arg(&program)
        .arg(source)
        .args(["-Itests/verbs", "-libverbs"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("gcc is installed");
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{name}: {text}");
    program
}

/// Compiles a program given as text.
pub(crate) fn compile(name: &str, text: &str) -> PathBuf {
    let source = place().join(format!("{name}.{}.c", std::process::id()));
    std::fs::write(&source, text).expect("the target directory is writable");
    gcc(name, &source)
}

/// A program of this directory, compiled once.
pub(crate) fn program(name: &'static str) -> PathBuf {
    static BUILT: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().expect("a compilation failed before");
    built.entry(name).or_insert_with(|| source(name)).clone()
}

fn source(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/verbs/{name}.c"));
    gcc(name, &source)
}

/// Runs a program with the software library, on the wire within the process unless `variables`
/// say otherwise.
pub(crate) fn run(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new("timeout")
        .arg("60")
        .arg(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", library())
        .env("SOFTVERBS_WIRE", "loopback")
        .env("SOFTVERBS_INTERFACES", "lo")
        .envs(variables.iter().copied())
        .output()
        .expect("timeout is installed")
}
