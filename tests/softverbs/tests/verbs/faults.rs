//! Every fault that can be asked for, as a C program sees it.

use crate::build::{program, run};
use crate::rules::holds;
use std::collections::BTreeSet;

/// Case, and the faults it needs.
const CASES: [(&str, &str); 14] = [
    ("dropped", "drop=3"),
    ("dropped_on_sending", "tx.drop=3"),
    ("corrupted", "corrupt=2"),
    ("delayed", "delay=2:150000"),
    ("reordered", "reorder=2"),
    (
        "call_fails",
        "fail=ibv_alloc_pd:2:ENOMEM,fail=dealloc_pd:*:16",
    ),
    ("data_call_fails", "fail=post_send:2:ENOMEM"),
    ("send_fails", "tx.error=2:2"),
    ("receive_fails", "error=2:4"),
    ("port_goes_down", "event=port_down@2 event=port_up@4"),
    ("device_goes", "event=device_fatal@1"),
    (
        "queue_pair_breaks",
        "lo/event=qp_fatal@1 a0/event=device_fatal@1",
    ),
    ("completion_queue_breaks", "event=cq_error@1"),
    ("any_event", "event=18@1"),
];

#[test]
fn each_fault_shows() {
    let program = program("faults");
    let out = run(&program, &[], &[]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let there: BTreeSet<&str> = text.lines().collect();
    let run = CASES.iter().map(|c| c.0).chain(["at_run_time"]);
    assert_eq!(there, run.collect(), "every case is run");
    for (case, faults) in CASES {
        holds(&program, case, &[("SOFTVERBS_FAULTS", faults)]);
    }
}

#[test]
fn without_faults_the_cases_fail() {
    let program = program("faults");
    // Those that do not wait for an event that never comes.
    for (case, _) in &CASES[..9] {
        let out = run(&program, &[case], &[]);
        assert!(!out.status.success(), "{case}");
    }
}

#[test]
fn faults_can_be_asked_for_at_run_time() {
    let directory = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let path = directory.join(format!("control.{}", std::process::id()));
    let trace = directory.join(format!("control.{}.trace", std::process::id()));
    let (control, lines) = (path.to_string_lossy(), trace.to_string_lossy());
    let variables = [
        ("SOFTVERBS_CONTROL", &*control),
        ("SOFTVERBS_TRACE", &*lines),
    ];
    let out = run(&program("faults"), &["at_run_time"], &variables);
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{} {errors}", out.status);
    assert_eq!(
        errors,
        "softverbs: SOFTVERBS_CONTROL: event=lid_change: what?\n"
    );
    let traced = std::fs::read_to_string(&trace).expect("a trace");
    assert!(traced.contains("fault drop=1, event=port_up\n"), "{traced}");
    for file in [path, trace] {
        std::fs::remove_file(file).expect("made by the program");
    }
}

#[test]
fn what_makes_no_sense_ends_the_process() {
    let out = run(
        &program("faults"),
        &["dropped"],
        &[("SOFTVERBS_FAULTS", "drop")],
    );
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success());
    assert_eq!(errors, "softverbs: SOFTVERBS_FAULTS: drop: what?\n");
}
