//! The built library: what it exports, and what it needs.

use std::collections::BTreeSet;
use std::process::Command;
use tests::{preload, victim};

fn output(program: &str, args: &[&str]) -> String {
    let out = Command::new(program)
        .args(args)
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(out.status.success(), "{program} {args:?}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The list in the tree is the list in the library.
#[test]
fn exports() {
    let path = victim::root().join("shim/exports.txt");
    let text = std::fs::read_to_string(&path).expect("shim/exports.txt");
    let listed: BTreeSet<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty() && !l.starts_with('#'))
        .collect();
    let library = preload::library().display().to_string();
    let symbols = output("nm", &["-D", "--defined-only", &library]);
    let defined: BTreeSet<&str> = symbols
        .lines()
        .filter_map(|l| l.split_whitespace().last())
        .map(|name| name.split('@').next().unwrap_or(name))
        .collect();
    let missing: Vec<_> = listed.difference(&defined).collect();
    let unlisted: Vec<_> = defined.difference(&listed).collect();
    assert!(
        missing.is_empty() && unlisted.is_empty(),
        "listed but not exported: {missing:?}; exported but not listed: {unlisted:?}"
    );
    for name in [
        "recvfrom",
        "__recvfrom_chk",
        "epoll_wait",
        "__poll_chk",
        "fcntl64",
        "fork",
    ] {
        assert!(defined.contains(name), "{name} is not exported");
    }
}

/// One library runs everywhere: it asks for nothing but libc.
#[test]
fn needs_only_libc() {
    let library = preload::library().display().to_string();
    let dynamic = output("readelf", &["-dW", &library]);
    let allowed = [
        "libc.so.6",
        "libgcc_s.so.1",
        "ld-linux-x86-64.so.2",
        "ld-linux-aarch64.so.1",
    ];
    for line in dynamic.lines().filter(|l| l.contains("(NEEDED)")) {
        assert!(allowed.iter().any(|a| line.contains(a)), "{line}");
    }
    assert!(!dynamic.contains("TEXTREL"), "text relocations");
}

/// libibverbs is looked for at run time: neither the library nor anything that was built
/// asks the linker for it, by name or by symbol.
#[test]
fn does_not_need_libibverbs() {
    let library = preload::library().display().to_string();
    let dynamic = output("readelf", &["-dW", &library]);
    assert!(dynamic.contains("(NEEDED)"), "the listing is not read");
    for line in dynamic.lines().filter(|l| l.contains("(NEEDED)")) {
        assert!(!line.contains("ibverbs"), "{line}");
    }
    let undefined = output("nm", &["-D", "--undefined-only", &library]);
    assert!(undefined.contains("dlopen"), "the listing is not read");
    for line in undefined.lines() {
        let name = line.split_whitespace().last().unwrap_or_default();
        assert!(!name.starts_with("ibv_"), "{line}");
    }
}
