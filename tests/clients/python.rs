//! `CPython`'s own tests of sockets, selectors and asyncio, over loopback through a ring.

use crate::rig::{End, carried};
use std::collections::BTreeMap;
use std::time::Duration;
use tests::preload::Mode;
use tests::require;
use tests::topology::Lab;

const PYTHON: &str = "/usr/bin/python3.11";
const LOOPBACK: Mode = Mode::Shim(&[("SHIM_INTERFACES", "lo")]);

/// Each test with its verdict, of unittest's verbose report.
fn verdicts(report: &str) -> BTreeMap<String, String> {
    let mut name = String::new();
    let mut all = BTreeMap::new();
    for line in report.lines() {
        // A test with a description: its name stands on a line of its own.
        if line.starts_with("test") && line.ends_with(')') {
            line.clone_into(&mut name);
        }
        let Some((head, verdict)) = line.rsplit_once(" ... ") else {
            continue;
        };
        let head = if head.starts_with("test") {
            head
        } else {
            &name
        };
        all.insert(head.to_owned(), verdict.to_owned());
    }
    all
}

/// unittest's own main program, in one that has used a socket of the engine's.
const MAIN: &str = "\
import socket, unittest
own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own.bind(('127.0.0.1', 0))
for _ in range(3):
    own.sendto(b'own', own.getsockname())
    own.recv(8)
unittest.main(module=None)
";

/// Natively and under the library each test ends the same way.
fn suite(args: &[&str], least: usize, rx: u64) {
    let there = std::path::Path::new("/usr/lib/python3.11/test/test_socket.py").exists();
    let there = there
        .then_some(())
        .ok_or("Debian's libpython3.11-testsuite is not there".to_owned());
    if !require::have("libpython3.11-testsuite", there) {
        return;
    }
    let mut native = BTreeMap::new();
    for mode in [Mode::Native, LOOPBACK] {
        let Some(lab) = Lab::open() else { return };
        let words = [&["-c", MAIN, "-v"][..], args].concat();
        let end = End::new(&lab.near, mode, PYTHON, &words);
        let (run, seen) = end.with(|p| p.limit(Duration::from_secs(120))).run();
        let verdicts = verdicts(&run.stderr);
        assert!(verdicts.len() >= least, "{mode:?}: {}", run.stderr);
        if mode == Mode::Native {
            native = verdicts;
            continue;
        }
        let differ: Vec<_> = native
            .iter()
            .filter(|(name, verdict)| verdicts.get(*name) != Some(verdict))
            .map(|(name, verdict)| (name, verdict, verdicts.get(name)))
            .collect();
        assert!(
            differ.is_empty() && native.len() == verdicts.len(),
            "natively, under the library: {differ:#?}\n{}",
            run.stderr
        );
        carried("python3", &seen, rx, 0);
    }
}

#[test]
fn python_socket() {
    let classes = [
        "BasicUDPTest",
        "UDPTimeoutTest",
        "SendmsgUDPTest",
        "RecvmsgUDPTest",
        "RecvmsgIntoUDPTest",
        "RecvmsgUDP6Test",
        "RecvmsgIntoUDP6Test",
        "SendmsgUDP6Test",
        "RecvmsgRFC3542AncillaryUDP6Test",
        "RecvmsgIntoRFC3542AncillaryUDP6Test",
        "InterruptedRecvTimeoutTest",
        "InterruptedSendTimeoutTest",
        "GeneralModuleTests",
        "NonBlockingTCPTests",
        "TestExceptions",
        "BufferIOTest",
        "InheritanceTest",
        "NonblockConstantTest",
        "SendRecvFdsTests",
    ];
    let names: Vec<String> = classes
        .iter()
        .map(|c| format!("test.test_socket.{c}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    suite(&names, 200, 25);
}

#[test]
fn python_selectors() {
    suite(&["test.test_selectors"], 50, 1);
}

#[test]
fn python_asyncio() {
    let modules = [
        "test.test_asyncio.test_events",
        "test.test_asyncio.test_sock_lowlevel",
    ];
    let filter = [
        "-k", "datagram", "-k", "udp", "-k", "recvfrom", "-k", "sendto",
    ];
    suite(&[&filter[..], &modules].concat(), 10, 10);
}
