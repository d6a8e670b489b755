//! libuv's own UDP and poll tests against Debian's libuv.so.1, as a plain user with
//! `CAP_NET_RAW`: they refuse root.

use crate::rig::{End, carried};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tests::check::difference;
use tests::preload::{self, Mode, PublicCopies};
use tests::require;
use tests::topology::Lab;
use tests::victim;

/// Where `scripts/test` unpacks Debian's source package.
const SOURCE: &str = "libuv/source";
const USER: [&str; 6] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=+net_raw",
    "--ambient-caps=+net_raw",
];
const LOOPBACK: Mode = Mode::Shim(&[("SHIM_INTERFACES", "lo,veth0")]);

/// Compiles what is asked for; entries of the suite's list that are not lead nowhere.
const BUILD: &str = r#"
set -e
src=$1 out=$2
rm -rf "$out"; mkdir -p "$out/o"; cd "$out/o"
set -- "$src"/test/{run-tests,runner,runner-unix,echo-server,blackhole-server}.c "$src"/test/test-udp-*.c "$src"/test/test-poll*.c
gcc -O1 -w -D_GNU_SOURCE -I"$src/include" -I"$src/src" -c "$@"
libs="-l:libuv.so.1 -lpthread -ldl"
{ echo '#include <stdlib.h>'
  { gcc -o ../run *.o $libs 2>&1 || true; } | sed -n 's/.*undefined reference to .\([a-zA-Z0-9_]*\).*/\1/p' |
    sort -u | sed 's/.*/int &(void) { abort(); }/'; } >../stubs.c
gcc -o ../run *.o ../stubs.c $libs
mv ../run ../uv_run_tests
"#;

/// The suite's program; None where its source is not.
fn program() -> Option<(PathBuf, Vec<String>)> {
    let source = victim::target().join(SOURCE);
    let list = source.join("test/test-list.h");
    let there = list.exists().then_some(()).ok_or(format!(
        "{} is not there: scripts/test clients unpacks it",
        source.display()
    ));
    if !require::have("libuv's source", there) {
        return None;
    }
    let built = tests_in(&source.join("test"));
    let out = victim::target().join("libuv/build");
    let program = out.join("uv_run_tests");
    if !program.exists() {
        let build = Command::new("bash")
            .args(["-c", BUILD, "bash"])
            .args([&source, &out])
            .output()
            .expect("bash is there");
        let told = String::from_utf8_lossy(&build.stderr);
        assert!(build.status.success(), "libuv's tests: {told}");
    }
    let text = std::fs::read_to_string(list).expect("it exists");
    let names = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once("TEST_ENTRY")?;
        let name = rest
            .trim_start_matches("_CUSTOM")
            .trim_start()
            .trim_start_matches('(');
        let name = name.split([',', ')']).next()?.trim();
        built
            .contains(&format!("TEST_IMPL({name})"))
            .then(|| name.to_owned())
    });
    Some((program, names.collect()))
}

/// The text of the files that are built: what is tested there is defined there.
fn tests_in(directory: &Path) -> String {
    let files = std::fs::read_dir(directory).expect("it exists").flatten();
    let ours = |name: &str| name.starts_with("test-udp-") || name.starts_with("test-poll");
    files
        .filter(|f| ours(&f.file_name().to_string_lossy()))
        .map(|f| std::fs::read_to_string(f.path()).expect("a file of the suite"))
        .collect()
}

/// Runs each by itself: its name, its exit code, and what it says when it is not content.
const EACH: &str = r#"
for name in "$@"; do
  told=$(timeout 10 "$RUN" "$name" 2>&1) && echo "$name passes" || printf '%s fails\n%s\n' "$name" "$told"
done
"#;

#[test]
fn libuv() {
    let Some((program, names)) = program() else {
        return;
    };
    assert!(names.len() > 30, "{names:?}");
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let copies = PublicCopies::new();
    let program = copies.of(&program).display().to_string();
    let mut native = None;
    for mode in [Mode::Native, LOOPBACK] {
        let Some(lab) = Lab::open() else { return };
        let words = [&["-c", EACH, "bash"][..], &names].concat();
        let end = End::new(&lab.near, mode, "bash", &words).with(|p| {
            p.wrapper(&USER)
                .library(copies.of(&preload::library()))
                .env("RUN", &program)
                .limit(Duration::from_secs(100))
        });
        let (run, seen) = end.run();
        let told = run.success("libuv").stdout;
        let Some(native) = &native else {
            let passes = told.matches(" passes").count();
            assert!(passes > 25, "natively:\n{told}");
            native = Some(told);
            continue;
        };
        let native: &String = native;
        assert!(&told == native, "{}", difference(native, &told));
        carried("libuv", &seen, 30, 0);
    }
}
