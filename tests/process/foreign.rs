//! Programs that the library has nothing to do with: same output, same status, no
//! thread, no descriptor, no time.

use std::time::Duration;
use tests::check::DEFAULTS;
use tests::preload::{self, Mode, Program};
use tests::require;
use tests::topology::Turn;
use tests::victim::{self, Variant};

/// Standard output must be the same to the byte, and the status; what the library
/// says goes to standard error.
fn same(words: &[&str]) {
    if !require::program(words[0]) {
        return;
    }
    let _turn = Turn::take();
    let run = |mode| {
        Program::new(words[0], &words[1..])
            .mode(mode)
            .limit(Duration::from_secs(30))
            .run()
    };
    let (native, shimmed) = (run(Mode::Native), run(DEFAULTS));
    assert_eq!(
        native.code(),
        shimmed.code(),
        "{words:?}: {}",
        shimmed.stderr
    );
    assert_eq!(native.stdout, shimmed.stdout, "{words:?}");
}

#[test]
fn shell_pipeline() {
    same(&["sh", "-c", "ls / | wc -l"]);
    same(&["sh", "-c", "for i in 1 2 3; do ls / | wc -l; done; exit 7"]);
    same(&[
        "sh",
        "-c",
        "x=$(uname -r); echo \"$x\" | tr a-z A-Z; cd /nonesuch",
    ]);
}

#[test]
fn git() {
    let root = victim::root().display().to_string();
    same(&["git", "-C", &root, "status", "--porcelain"]);
    same(&["git", "-C", &root, "log", "-1", "--format=%H"]);
    same(&["git", "-C", "/", "status"]);
}

#[test]
fn curl() {
    let file = format!("file://{}", victim::root().join("Cargo.toml").display());
    same(&["curl", "-s", &file]);
    same(&["curl", "-s", "file:///nonesuch"]);
    // Looks up a name and connects; nobody answers.
    same(&["curl", "-s", "http://localhost:9/"]);
}

#[test]
fn python() {
    same(&["python3", "-c", "print(6 * 7)"]);
    same(&["python3", "-c", "import sys; sys.exit(5)"]);
    same(&[
        "python3",
        "-c",
        "import subprocess; print(subprocess.run(['echo', 'x'], capture_output=True, close_fds=True))",
    ]);
    // Threads and descriptors of a process without sockets.
    same(&[
        "python3",
        "-c",
        "import os; print(len(os.listdir('/proc/self/task')), sorted(os.listdir('/proc/self/fd')))",
    ]);
    // And of one with a TCP and a Unix socket.
    same(&[
        "python3",
        "-c",
        "import os, socket\n\
         a, b = socket.socketpair()\n\
         l = socket.create_server(('127.0.0.1', 0))\n\
         c = socket.create_connection(l.getsockname())\n\
         s, _ = l.accept()\n\
         c.sendall(b'tcp'); a.send(b'unix')\n\
         print(s.recv(9), b.recv(9), a.fileno(), l.fileno(), c.fileno(), s.fileno())\n\
         print(len(os.listdir('/proc/self/task')), sorted(os.listdir('/proc/self/fd')))",
    ]);
}

#[test]
fn java() {
    same(&["java", "--version"]);
    same(&["java", "-Xshare:auto", "nonesuch.Main"]);
}

/// Under 1 ms more a process, banner included.
#[test]
fn start_up_cost() {
    let _turn = Turn::take();
    let library = preload::library().display().to_string();
    let nothing = victim::compile("nothing", Variant::Plain)
        .display()
        .to_string();
    let run = Program::new(
        victim::compile("launch", Variant::Plain),
        &[&library, "101", &nothing],
    )
    .run()
    .success("launch");
    eprint!("start-up in microseconds: {}", run.stdout);
    let more: i64 = run
        .stdout
        .trim()
        .rsplit(' ')
        .next()
        .and_then(|w| w.parse().ok())
        .expect("launch prints a difference");
    assert!(
        more < 1000,
        "{} us more for a program that does nothing",
        more
    );
}
