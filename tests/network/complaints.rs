//! ICMP errors made by hand, and what they do to sockets.

tests::scenes! { "complaints":
    unreachable_codes rx 1 tx 1;
    time_exceeded rx 1 tx 1;
    parameter_problem rx 1 tx 1;
    source_quench rx 1 tx 1;
    redirect rx 1 tx 1;
    error_at_each_call rx 1 tx 1;
    error_behind_data rx 1 tx 1;
    not_connected rx 1 tx 1;
    recverr_codes rx 1 tx 1;
    quotes_of_others rx 1 tx 1;
    path_mtu rx 1 tx 1;
    path_mtu_not_connected rx 0 tx 1;
    path_mtu_asked_for rx 1 tx 1;
    refused_by_the_peer rx 0 tx 1;
    no_socket_no_answer rx 1 tx 0;
}
