//! Every rule of the interface: broken, it gives the error that a card gives, and with
//! `SOFTVERBS_STRICT=abort` the process ends with a message that names it.

use crate::build::{program, run};
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

/// A case, and what its message says if it breaks a rule.
type Case = (&'static str, Option<&'static str>);

/// Runs all cases of a program both ways.
fn check(name: &'static str, cases: &[Case]) {
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
            ("memory_used_again", None),
            (
                "memory_used_too_early",
                Some("memory of a send was written to before its completion"),
            ),
            (
                "region_gone_too_early",
                Some("memory of a send was deregistered before its completion"),
            ),
            ("no_system_call", None),
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

#[test]
fn the_life_of_objects() {
    check(
        "objects",
        &[
            ("no_net_raw", None),
            ("locked_memory", None),
            ("register_unmapped", Some("reg_mr: 0x")),
            ("register_read_only", Some("reg_mr: 0x")),
            ("register_nothing", Some("reg_mr: a region of 0x0 bytes")),
            ("register_remote_write", Some("reg_mr: remote write")),
            ("own_addresses", None),
            (
                "domain_with_region",
                Some("dealloc_pd: 1 regions or queue pairs"),
            ),
            (
                "domain_with_queue_pair",
                Some("dealloc_pd: 1 regions or queue pairs"),
            ),
            (
                "completion_queue_with_queue_pair",
                Some("destroy_cq: a queue pair"),
            ),
            (
                "channel_with_completion_queue",
                Some("destroy_comp_channel: a completion"),
            ),
            ("queue_pair_with_flow", Some("destroy_qp: flow rules")),
            ("device_with_objects", Some("close_device: 6 objects")),
            ("orderly", None),
            ("region_twice", Some("mr 0x")),
            ("queue_pair_after_its_end", Some("qp 0x")),
            ("completion_queue_after_its_end", Some("cq 0x")),
            ("flow_twice", Some("flow 0x")),
            ("domain_after_its_end", Some("pd 0x")),
            (
                "device_after_its_list",
                Some("device used after free_device_list"),
            ),
            ("region_in_use", Some("dereg_mr: posted receives")),
            ("kept_from_children", None),
            (
                "fork_init_too_late",
                Some("fork_init: memory was registered"),
            ),
            (
                "in_a_child",
                Some("a child of fork uses its parent's queue pair"),
            ),
            (
                "too_much",
                Some("create_qp: max_send_wr 32769 of at most 32768"),
            ),
            ("completion_queue_too_big", Some("create_cq: 0 entries")),
            ("completion_vector", Some("create_cq: completion vector 4")),
        ],
    );
}

#[test]
fn the_real_librarys_variable_keeps_memory_from_children() {
    let variables = [("RDMAV_FORK_SAFE", "1")];
    holds(&program("objects"), "kept_from_children", &variables);
}

#[test]
fn flow_rules() {
    check(
        "flows",
        &[
            ("wrong_port", Some("create_flow: port 2")),
            ("unknown_flags", Some("create_flow: flags 0x20")),
            ("unknown_type", Some("create_flow: type 9")),
            (
                "unknown_mask",
                Some("create_flow: flags 0x0, comp_mask 0x1"),
            ),
            ("low_priority", Some("create_flow: priority 16")),
            ("wrong_total", Some("create_flow: size 99 of 100")),
            (
                "wrong_size",
                Some("create_flow: specification 0x41 of 20 bytes, not 16"),
            ),
            (
                "unknown_specification",
                Some("create_flow: specification 0x7777"),
            ),
            (
                "outside_mask",
                Some("create_flow: bits of a value outside its mask"),
            ),
            (
                "outside_port_mask",
                Some("create_flow: bits of a value outside its mask"),
            ),
            (
                "other_ether_type",
                Some("create_flow: EtherType 0x86dd with IPv4"),
            ),
            (
                "default_with_specifications",
                Some("create_flow: type 1 with"),
            ),
            ("egress", None),
            (
                "ports_without_ipv4",
                Some("create_flow: ports without IPv4"),
            ),
            (
                "wrong_order",
                Some("create_flow: Ethernet does not come first"),
            ),
            (
                "long_tag",
                Some("create_flow: tag 0x1000000 beyond 24 bits"),
            ),
            ("matching", None),
            ("copies", None),
        ],
    );
}

#[test]
fn events_and_extended_polls() {
    check(
        "events",
        &[
            ("frame_event", None),
            ("nothing_for_the_past", None),
            ("send_event", None),
            ("solicited_event", None),
            ("blocking_event", None),
            (
                "no_channel",
                Some("req_notify_cq: the completion queue has no channel"),
            ),
            (
                "unacknowledged",
                Some("destroy_cq: events of it are not acknowledged"),
            ),
            (
                "acknowledged_twice",
                Some("ack_cq_events: 1 acknowledged, 0 read"),
            ),
            ("extended_poll", None),
            (
                "unasked_field",
                Some("a field of a completion that create_cq_ex"),
            ),
            (
                "next_without_start",
                Some("next_poll of a cq without a start_poll"),
            ),
            ("flow_tag", None),
            ("two_threads", None),
        ],
    );
}
