//! What the library needs is missing: the program runs on the kernel's sockets, and
//! the reason can be seen.

use engine::error::Reason;
use tests::backend::Backend;
use tests::check::{Case, DEFAULTS};
use tests::peer::Peer;
use tests::preload::{Finished, Mode, Program};
use tests::require;
use tests::topology::Lab;
use tests::victim::{self, Variant};

#[test]
fn no_net_raw() {
    if !require::program("setpriv") {
        return;
    }
    Case::new("echo")
        .wrapper(&["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"])
        .kernel(Reason::NoPermission)
        .run();
}

#[test]
fn plain_user() {
    if !require::program("setpriv") {
        return;
    }
    Case::new("echo")
        .wrapper(&[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ])
        .public()
        // Few buffers: a card asks for them first, and a plain user may lock little memory.
        .modes(&[Mode::Shim(&[("VMA_RX_WRE", "256")])])
        .kernel(Reason::NoPermission)
        .run();
}

#[test]
fn few_fds() {
    Case::new("few_fds").kernel(Reason::NoResources).run();
}

#[test]
fn switched_off() {
    Case::new("echo")
        .modes(&[Mode::Shim(&[("SHIM_BACKEND", "off")])])
        .kernel(Reason::SwitchedOff)
        .run();
}

#[test]
fn interface_not_named() {
    Case::new("echo")
        .modes(&[Mode::Shim(&[("SHIM_INTERFACES", "lo")])])
        .unobserved("which of two fitting reasons is told is the engine's choice")
        .run();
}

/// `echo` natively and with these variables: the same transcript; what the shimmed run
/// wrote to standard error.
fn echo_with(mode: Mode, close_stderr: bool) -> Option<Finished> {
    let once = |mode| {
        let lab = Lab::open()?;
        let peer = Peer::start(&lab, mode != Mode::Native);
        let program = Program::new(victim::compile("echo", Variant::Plain), &["recvfrom"])
            .on(&lab.near)
            .mode(mode)
            .env("PEER", &peer.address());
        let program = if close_stderr {
            program.without_stderr()
        } else {
            program
        };
        Some(program.run())
    };
    let (native, shimmed) = (once(Mode::Native)?, once(mode)?);
    assert_eq!(
        native.stdout, shimmed.stdout,
        "{mode:?}: {}",
        shimmed.stderr
    );
    assert_eq!(native.code(), shimmed.code(), "{mode:?}");
    Some(shimmed)
}

#[test]
fn stderr_closed() {
    let _ = echo_with(DEFAULTS, true);
}

/// The library must not write into what the program opened as descriptor 2.
#[test]
fn stderr_closed_keeps_descriptor_two_clean() {
    let run = |mode| {
        Program::new(
            "sh",
            &[
                "-c",
                "exec 2>&-; exec 2>/dev/null; ls -l /proc/self/fd/2 | sed 's/.*-> //'",
            ],
        )
        .mode(mode)
        .without_stderr()
        .run()
    };
    assert_eq!(run(Mode::Native).stdout, run(DEFAULTS).stdout);
}

#[test]
fn statistics_directory_is_not_writable() {
    let mode = Mode::Shim(&[("VMA_STATS_SHMEM_DIR", "/proc/1")]);
    if let Some(run) = echo_with(mode, false) {
        assert!(run.stderr.contains("/proc/1"), "not told:\n{}", run.stderr);
    }
}

/// One line for each mistake, the default is kept, the program runs.
#[test]
fn mistakes_in_the_configuration() {
    const MISTAKES: [(&str, Mode); 5] = [
        ("VMA_RX_POL", Mode::Shim(&[("VMA_RX_POL", "1")])),
        ("VMA_RX_POLL", Mode::Shim(&[("VMA_RX_POLL", "often")])),
        ("VMA_SPEC", Mode::Shim(&[("VMA_SPEC", "nonesuch")])),
        ("SHIM_BACKEND", Mode::Shim(&[("SHIM_BACKEND", "nonesuch")])),
        ("VMA_THREAD_MODE", Mode::Shim(&[("VMA_THREAD_MODE", "9")])),
    ];
    for (name, mode) in MISTAKES {
        let Some(run) = echo_with(mode, false) else {
            return;
        };
        let told = run
            .stderr
            .lines()
            .filter(|l| l.contains("WARNING"))
            .filter(|l| {
                l.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .any(|w| w == name)
            })
            .count();
        assert_eq!(told, 1, "{name}:\n{}", run.stderr);
    }
}

/// Every thread mode, also the ones that promise fewer threads than there are.
#[test]
fn thread_modes() {
    const MODES: [Mode; 5] = [
        Mode::Shim(&[("VMA_THREAD_MODE", "0")]),
        Mode::Shim(&[("VMA_THREAD_MODE", "1")]),
        Mode::Shim(&[("VMA_THREAD_MODE", "2")]),
        Mode::Shim(&[("VMA_THREAD_MODE", "3")]),
        // The line that users paste.
        Mode::Shim(&[
            ("VMA_SPEC", "latency"),
            ("VMA_MTU", "4096"),
            ("VMA_RING_ALLOCATION_LOGIC_TX", "20"),
            ("VMA_THREAD_MODE", "3"),
        ]),
    ];
    Case::new("many_threads")
        .modes(&MODES)
        .engine(4000, 800)
        .run();
    Case::new("errno_hammer")
        .modes(&MODES)
        .engine(1000, 0)
        .run();
    Case::new("mixed")
        .args(&["epoll"])
        .modes(&MODES)
        .engine(2, 0)
        .run();
}

/// Budget: 32 MiB for a socket, and for what comes with the first one. A card's receive buffers come
/// beside that: VMA_RX_WRE of them, each filled by the device and so resident.
#[test]
fn memory_of_a_socket() {
    const BUDGET_KIB: i64 = 32 << 10;
    const FEW: Mode = Mode::Shim(&[("VMA_RX_WRE", "256")]);
    /// The default, and the bytes of a frame at the default MTU.
    const BUFFERS: i64 = 16_000;
    const FRAME: i64 = 2048;
    let Some(lab) = Lab::open() else { return };
    let used = |mode| {
        let run = Program::new(victim::compile("memory", Variant::Plain), &[])
            .on(&lab.near)
            .mode(mode)
            .run()
            .success("memory");
        let held = run.stdout.split_whitespace().nth(1);
        held.and_then(|n| n.parse::<i64>().ok()).expect("a number")
    };
    let verbs = Backend::current() == Backend::Verbs;
    let native = used(Mode::Native);
    let more = used(if verbs { FEW } else { DEFAULTS }) - native;
    eprintln!("{more} KiB more");
    // The library and the ring are some MiB: nothing at all would be a broken measurement.
    assert!((4 << 10..=BUDGET_KIB).contains(&more), "{more} KiB more");
    if verbs {
        let buffers = used(DEFAULTS) - native - more;
        let expected = (BUFFERS - 256) * FRAME / 1024;
        eprintln!("{buffers} KiB for buffers");
        assert!(
            (buffers - expected).abs() < 2048,
            "{buffers} KiB, not {expected}"
        );
    }
}
