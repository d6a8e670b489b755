//! Which socket gets a datagram, and where from a socket sends.

use engine::error::Reason;
use tests::check::{Case, DEFAULTS, SLEEP};

tests::scenes! { "deliver":
    unicast_matrix rx 1 tx 1;
    connect_moves_the_address rx 1 tx 0;
    unconnect_of_an_autobound rx 0 tx 1;
    reconnect rx 1 tx 1;
    queued_through_connect rx 1 tx 0;
    device_changes rx 1 tx 0;
    two_interfaces rx 1 tx 1;
    address_of_the_other_interface rx 0 tx 0;
    bound_to_device rx 0 tx 0;
    connected_twins rx 0 tx 0;
    reuseaddr_alone rx 0 tx 1;
    reuseport_alone rx 0 tx 1;
    unicast_if rx 0 tx 1;
    pktinfo_chooses rx 0 tx 1;
    secondary_addresses rx 1 tx 1;
    broadcast_receive rx 1 tx 0;
    broadcast_send rx 0 tx 1;
    own_addresses rx 1 tx 1;
    bad_destinations rx 1 tx 1;
}

/// Only the kernel knows which process is next.
fn shared(scene: &'static str) {
    Case::new("deliver")
        .args(&[scene])
        .modes(&[DEFAULTS, SLEEP])
        .kernel(Reason::SharedPort)
        .run();
}

#[test]
fn unicast_best_match() {
    shared("unicast_best_match");
}

#[test]
fn reuseaddr_last_bound() {
    shared("reuseaddr_last_bound");
}

#[test]
fn reuse_flag_after_bind() {
    shared("reuse_flag_after_bind");
}

#[test]
fn reuseport_spread() {
    shared("reuseport_spread");
}

#[test]
fn reuseaddr_with_another_process() {
    shared("reuseaddr_with_another_process");
}

#[test]
fn reuseport_with_another_process() {
    shared("reuseport_with_another_process");
}
