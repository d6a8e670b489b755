//! What a host puts on the wire for a socket's sends.

tests::scenes! { "sent":
    ttl_and_tos_options rx 0 tx 1;
    by_control_message rx 0 tx 1;
    dont_fragment rx 0 tx 1;
    no_checksum rx 0 tx 1;
    checksum_zero rx 0 tx 1;
    sizes rx 0 tx 1;
    multicast_options_between_sends rx 0 tx 1;
    groups_and_hardware_addresses rx 0 tx 1;
    connected_to_a_group rx 0 tx 1;
    several_sockets_one_wire rx 0 tx 1;
    shapes rx 0 tx 1;
    corked rx 0 tx 1;
    ip_options_set rx 0 tx 1;
    confirm_and_dontroute rx 0 tx 1;
}
