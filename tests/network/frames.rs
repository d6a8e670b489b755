//! Frames made by hand: which of them Linux, and the engine, give to a socket.

tests::scenes! { "frames":
    checksum_absent rx 2 tx 0;
    checksum_wrong rx 2 tx 0;
    checksum_all_ones rx 2 tx 0;
    header_checksum rx 2 tx 0;
    lengths rx 2 tx 0;
    zero_udp_length rx 2 tx 0;
    padding rx 2 tx 0;
    short_header rx 2 tx 0;
    ttl_and_tos rx 2 tx 0;
    options rx 2 tx 0;
    other_hardware_address rx 2 tx 0;
    unicast_in_group_frame rx 2 tx 0;
    group_in_unicast_frame rx 2 tx 0;
    broadcast_forms rx 2 tx 0;
    martian_sources rx 2 tx 0;
    martian_destinations rx 2 tx 0;
    source_port_zero rx 2 tx 0;
    destination_port_zero rx 2 tx 0;
    other_protocols rx 2 tx 0;
    reserved_bit_and_df rx 2 tx 0;
    strict_reverse_path rx 2 tx 0;
    source_without_route rx 2 tx 0;
}
