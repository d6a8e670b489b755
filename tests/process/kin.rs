//! Processes that share sockets, and what a process does to itself.

use engine::error::Reason;
use tests::backend::Backend;
use tests::check::{Case, DEFAULTS, SLEEP};
use tests::preload::Mode;

tests::scenes! { "kin":
    spawned_children rx 2 tx 1;
    child_closes_everything rx 2 tx 1;
    child_closes_its_copy rx 1 tx 1;
    grandchild rx 1 tx 1;
    both_read rx 1 tx 1;
    child_sends_parent_receives rx 1 tx 1;
    child_has_its_own rx 1 tx 1;
    parent_ends_first rx 1 tx 1;
    set_changed_before_fork rx 1 tx 1;
    exec_in_a_stream rx 1 tx 1;
    execveat_in_a_stream rx 1 tx 1;
    execveat_by_number rx 1 tx 1;
    exec_sees_no_more_descriptors rx 1 tx 1;
    passed_there_and_back rx 1 tx 1;
    taken_by_pidfd rx 1 tx 1;
    shared_table rx 1 tx 1;
    a_user_after_start rx 1 tx 1;
    without_capabilities rx 2 tx 1;
    no_eventfd rx 1 tx 1;
    no_membarrier rx 1 tx 1;
    no_raw_icmp rx 1 tx 1;
    refusals_after_start rx 2 tx 1;
    descriptors_run_out rx 2 tx 1;
    killed_child_leaves_nothing rx 1 tx 1;
    inside_a_chroot rx 2 tx 1;
    two_sockets_one_child_each rx 1 tx 0;
    forks_beside_a_reader rx 100 tx 1;
}

fn refused(scene: &'static str, reason: Reason) {
    Case::new("kin")
        .args(&[scene])
        .modes(&[DEFAULTS, SLEEP])
        .kernel(reason)
        .run();
}

#[test]
fn no_packet_sockets() {
    refused("no_packet_sockets", Reason::NoPermission);
}

#[test]
fn no_netlink() {
    refused("no_netlink", Reason::NoInterface);
}

#[test]
fn no_filters() {
    if Backend::current() == Backend::Packet {
        return refused("no_filters", Reason::NoPermission);
    }
    // What a card steers to the engine the kernel never sees: nothing is to be refused.
    Case::new("kin")
        .args(&["no_filters"])
        .modes(&[DEFAULTS, SLEEP])
        .engine(2, 1)
        .run();
}

#[test]
fn another_namespace() {
    refused("another_namespace", Reason::OtherNamespace);
}

/// Every thread mode, also the ones that promise fewer threads than there are.
#[test]
fn readers_and_writers() {
    const MODES: [Mode; 4] = [
        Mode::Shim(&[("VMA_THREAD_MODE", "0")]),
        Mode::Shim(&[("VMA_THREAD_MODE", "1")]),
        Mode::Shim(&[("VMA_THREAD_MODE", "2"), ("VMA_RX_POLL", "0")]),
        Mode::Shim(&[("VMA_THREAD_MODE", "3")]),
    ];
    Case::new("kin")
        .args(&["readers_and_writers"])
        .modes(&MODES)
        .engine(400, 300)
        .run();
}
