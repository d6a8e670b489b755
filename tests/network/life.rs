//! The network changes under a socket: neighbours, routes, addresses, links.

tests::scenes! { "life":
    neighbour_changes rx 1 tx 1;
    neighbour_announces rx 1 tx 1;
    neighbour_fails rx 1 tx 1;
    neighbour_by_hand rx 1 tx 1;
    gateway rx 1 tx 1;
    route_replaced rx 0 tx 1;
    refusing_routes rx 1 tx 1;
    connected_route_goes rx 0 tx 1;
    policy_by_mark rx 0 tx 0;
    policy_by_source_and_port rx 0 tx 1;
    address_comes_and_goes rx 1 tx 1;
    source_address_changes rx 1 tx 1;
    link_down_and_up rx 1 tx 1;
    link_down_keeps_what_is_queued rx 1 tx 1;
    carrier_lost rx 1 tx 1;
    carrier_comes_back rx 1 tx 1;
    interface_reborn rx 1 tx 1;
    groups_of_an_interface_reborn rx 1 tx 1;
    mtu_shrinks_and_grows rx 1 tx 1;
    jumbo rx 1 tx 1;
    promiscuous_and_all_multicast rx 1 tx 1;
    renamed rx 1 tx 1;
    new_hardware_address rx 1 tx 1;
    hop_limit_of_a_route rx 1 tx 0;
    default_ttl_changes rx 0 tx 1;
}
