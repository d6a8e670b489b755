//! Memberships, and who gets what of a group.

tests::scenes! { "groups":
    include_sources rx 1 tx 0;
    exclude_sources rx 1 tx 0;
    protocol_independent rx 1 tx 0;
    whole_filters rx 1 tx 0;
    whole_filters_protocol_independent rx 1 tx 0;
    all_and_not_all rx 1 tx 0;
    dual_stack_default rx 1 tx 0;
    bound_to_groups rx 1 tx 0;
    on_two_interfaces rx 1 tx 0;
    by_address_and_device rx 1 tx 0;
    connected_member rx 1 tx 0;
    device_of_a_member rx 1 tx 0;
    join_before_bind rx 0 tx 0;
    mistakes rx 1 tx 0;
    last_of_several_leaves rx 1 tx 0;
    every_member_its_own_queue rx 1 tx 0;
    loop_within_the_host rx 1 tx 0;
}
