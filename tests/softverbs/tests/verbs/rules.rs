//! Every rule of the interface: broken, it gives the error that a card gives, and with
//! `SOFTVERBS_STRICT=abort` the process ends with a message that names it.

use crate::build::{program, run};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

/// A case, and what its message says if it breaks a rule.
type Case = (&'static str, Option<&'static str>);

/// Runs all cases of a program both ways.
fn check(name: &str, cases: &[Case]) {
    let program = program(name);
    let out = run(&program, &[], &[]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let there: BTreeSet<&str> = text.lines().collect();
    let expected: BTreeSet<&str> = cases.iter().map(|c| c.0).collect();
    assert_eq!(there, expected, "every case of {name} is run");
    for (case, message) in cases {
        holds(&program, case, &[]);
        strict(&program, case, *message);
    }
}

/// The case finds what it expects.
pub(crate) fn holds(program: &Path, case: &str, variables: &[(&str, &str)]) {
    let out = run(program, &[case], variables);
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{case}: {} {errors}", out.status);
    assert_eq!(errors, "", "{case}");
}

fn strict(program: &Path, case: &str, message: Option<&str>) {
    let out = run(program, &[case], &[("SOFTVERBS_STRICT", "abort")]);
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    match message {
        None => assert!(out.status.success(), "{case}: {} {errors}", out.status),
        Some(message) => {
            // Run by timeout(1), which dies of the signal that its child died of.
            let signal = out.status.signal().or(out.status.code().map(|c| c - 128));
            assert_eq!(
                signal,
                Some(libc::SIGABRT),
                "{case}: {} {errors}",
                out.status
            );
            assert_eq!(errors.lines().count(), 1, "{case}: {errors}");
            let wanted = format!("softverbs: violated: {message}");
            assert!(errors.starts_with(&wanted), "{case}: {errors}");
        }
    }
}

#[test]
fn posting_and_polling() {
    check(
        "queues",
        &[
            ("ping", None),
            ("scatter_gather", None),
            ("states", Some("modify_qp: no change of state 0 to 2")),
            ("send_in_init", Some("post_send: queue pair in state 1")),
            ("receive_in_reset", Some("post_recv: queue pair in reset")),
            (
                "send_wrong_key",
                Some("post_send: no memory region has this"),
            ),
            (
                "send_out_of_range",
                Some("post_send: bytes outside the memory"),
            ),
            (
                "send_other_domain",
                Some("post_send: the memory region belongs"),
            ),
            (
                "receive_wrong_key",
                Some("post_recv: no memory region has this"),
            ),
            (
                "receive_read_only",
                Some("post_recv: the memory region has no local write"),
            ),
            (
                "receive_too_short",
                Some("receive: a frame of 72 bytes, 1 too many"),
            ),
            ("send_queue_full", Some("post_send: 8 requests outstanding")),
            (
                "receive_queue_full",
                Some("post_recv: 8 requests outstanding"),
            ),
            ("send_pieces_too_many", Some("post_send: 3 entries of 2")),
            (
                "send_no_piece",
                Some("post_send: 0 bytes are no Ethernet frame"),
            ),
            ("receive_pieces_too_many", Some("post_recv: 3 entries of 2")),
            ("inline_data", None),
            (
                "inline_too_long",
                Some("post_send: 129 bytes inline, 128 granted"),
            ),
            (
                "no_header",
                Some("post_send: 17 bytes are no Ethernet frame"),
            ),
            (
                "above_mtu",
                Some("post_send: a frame of 65551 bytes on an MTU of 65536"),
            ),
            ("wrong_opcode", Some("post_send: opcode 0 on a raw-packet")),
            (
                "bad_in_list",
                Some("post_send: 10 bytes are no Ethernet frame"),
            ),
            ("overrun", Some("completion queue overrun: 3 entries")),
            ("no_buffer", None),
            ("reset", None),
            ("destroyed_with_completions", None),
            ("checksums", None),
        ],
    );
}
