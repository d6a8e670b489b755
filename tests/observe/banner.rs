//! The banner: on standard error only, once a process tree, with what was changed.

use tests::backend::Backend;
use tests::check::DEFAULTS;
use tests::peer::Peer;
use tests::preload::{Finished, Mode, Program};
use tests::topology::{LINK, Lab};
use tests::victim::{self, Variant};

const VERSION: &str = concat!("VMA_VERSION: libshim ", env!("CARGO_PKG_VERSION"));

fn echo(mode: Mode) -> Option<Finished> {
    let lab = Lab::open()?;
    let peer = Peer::start(&lab, true);
    let program = Program::new(victim::compile("echo", Variant::Plain), &["recvfrom"])
        .on(&lab.near)
        .mode(mode)
        .env("PEER", &peer.address());
    Some(program.run().success("echo"))
}

#[test]
fn names_version_command_and_interface() {
    let Some(run) = echo(DEFAULTS) else { return };
    let lines: Vec<&str> = run.stderr.lines().collect();
    let count = |what: &str| lines.iter().filter(|l| l.contains(what)).count();
    assert_eq!(count(VERSION), 1, "{}", run.stderr);
    assert_eq!(count("Cmd Line: "), 1, "{}", run.stderr);
    assert!(
        lines
            .iter()
            .any(|l| l.contains("Cmd Line: ") && l.contains("recvfrom"))
    );
    // One line when the first socket is accelerated: interface, backend, why.
    let on = match Backend::current() {
        Backend::Packet => "packet (".to_owned(),
        Backend::Verbs => format!("verbs on softverbs_{LINK} ("),
    };
    let accelerated = format!("nterface {LINK}: accelerated by {on}");
    assert_eq!(count(&accelerated), 1, "{}", run.stderr);
    assert!(!run.stdout.contains("VMA"), "{}", run.stdout);
}

#[test]
fn shows_what_was_changed() {
    let mode = Mode::Shim(&[
        ("VMA_SPEC", "latency"),
        ("VMA_MTU", "4096"),
        ("VMA_THREAD_MODE", "3"),
    ]);
    let Some(run) = echo(mode) else { return };
    for name in [
        "[VMA_SPEC]",
        "[VMA_MTU]",
        "[VMA_THREAD_MODE]",
        "[VMA_RX_POLL]",
    ] {
        assert_eq!(
            run.stderr.matches(name).count(),
            1,
            "{name}:\n{}",
            run.stderr
        );
    }
    // Above the interface's MTU: capped, and said once.
    let told = run
        .stderr
        .lines()
        .filter(|l| l.contains("VMA_MTU") && !l.contains("[VMA_MTU]"))
        .count();
    assert_eq!(told, 1, "{}", run.stderr);
}

#[test]
fn once_a_process_tree() {
    let run = Program::new(
        "sh",
        &["-c", "/bin/true; /bin/true; sh -c '/bin/true; /bin/true'"],
    )
    .mode(DEFAULTS)
    .run()
    .success("sh");
    assert_eq!(run.stderr.matches(VERSION).count(), 1, "{}", run.stderr);
    assert_eq!(run.stdout, "");
}

#[test]
fn silent_when_asked() {
    let mode = Mode::Shim(&[("VMA_TRACELEVEL", "none")]);
    let Some(run) = echo(mode) else { return };
    assert_eq!(run.stderr, "");
}

#[test]
fn into_a_file_when_asked() {
    let Some(lab) = Lab::open() else { return };
    let path = std::env::temp_dir().join(format!("shim-tests-{}-log", std::process::id()));
    let peer = Peer::start(&lab, true);
    let run = Program::new(victim::compile("echo", Variant::Plain), &["recvfrom"])
        .on(&lab.near)
        .mode(DEFAULTS)
        .env("PEER", &peer.address())
        .env("VMA_LOG_FILE", &path.display().to_string())
        .run()
        .success("echo");
    let log = std::fs::read_to_string(&path).unwrap_or_default();
    let _ = std::fs::remove_file(&path);
    assert!(log.contains(VERSION), "{log}");
    assert_eq!(run.stderr, "");
}

/// What is not as it was asked for costs one line, also where the banner is not wanted.
#[test]
fn what_cannot_be_had_is_a_warning() {
    let rules = std::env::temp_dir().join(format!("shim-tests-{}-rules", std::process::id()));
    std::fs::write(&rules, "use carrier_pigeon udp_receiver *:*\n").expect("a writable directory");
    let rules = rules.display().to_string();
    for (name, value, says) in [
        ("VMA_LOG_FILE", "/nowhere/log", "standard error is used"),
        ("VMA_STATS_SHMEM_DIR", "/nowhere", "no statistics file"),
        ("VMA_CONFIG_FILE", "/nowhere/rules", "no rules apply"),
        ("VMA_CONFIG_FILE", &rules, "carrier_pigeon"),
    ] {
        let Some(lab) = Lab::open() else { return };
        let peer = Peer::start(&lab, false);
        let run = Program::new(victim::compile("echo", Variant::Plain), &["recvfrom"])
            .on(&lab.near)
            .mode(Mode::Shim(&[("VMA_TRACELEVEL", "warn")]))
            .env("PEER", &peer.address())
            .env(name, value)
            .run()
            .success("echo");
        let lines: Vec<_> = run.stderr.lines().collect();
        let [line] = lines[..] else {
            panic!("{name}: {lines:?}");
        };
        assert!(
            line.starts_with(" VMA WARNING: ") && line.contains(says),
            "{line}"
        );
    }
    let _ = std::fs::remove_file(rules);
}
