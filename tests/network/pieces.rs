//! Fragments made by hand: in every order, overlapping, missing, doubled, for nobody.

tests::scenes! { "pieces":
    in_order rx 2 tx 0;
    backwards rx 2 tx 0;
    shuffled rx 2 tx 0;
    tiny rx 2 tx 0;
    interleaved rx 2 tx 0;
    missing rx 2 tx 0;
    repeated rx 2 tx 0;
    overlapping rx 2 tx 0;
    overlapping_last rx 2 tx 0;
    beyond_the_end rx 2 tx 0;
    odd_middle rx 2 tx 0;
    empty_last rx 2 tx 0;
    too_long rx 2 tx 0;
    largest rx 2 tx 0;
    with_options rx 2 tx 0;
    checksums rx 2 tx 0;
    other_ends rx 2 tx 0;
    ecn_of_pieces rx 2 tx 0;
    first_piece_too_short_for_ports rx 2 tx 0;
    to_a_group rx 2 tx 0;
    first_piece_before_the_bind rx 2 tx 0;
    last_piece_before_the_bind rx 2 tx 0;
    across_a_close rx 1 tx 0;
    across_a_connect rx 2 tx 0;
    many_unfinished rx 2 tx 0;
}
