//! Send calls: flags, destinations, sizes, control messages.

use tests::matrix;

mod send_flags {
    use super::matrix;

    matrix! {
        "send_flags", rx 1 tx 2:
        sendto_none: "sendto" "none";
        sendmmsg_none: "sendmmsg" "none";
        sendto_oob: "sendto" "oob";
        sendmmsg_oob: "sendmmsg" "oob";
        sendto_dontroute: "sendto" "dontroute";
        sendmmsg_dontroute: "sendmmsg" "dontroute";
        sendto_dontwait: "sendto" "dontwait";
        sendmmsg_dontwait: "sendmmsg" "dontwait";
        sendto_eor: "sendto" "eor";
        sendmmsg_eor: "sendmmsg" "eor";
        sendto_confirm: "sendto" "confirm";
        sendmmsg_confirm: "sendmmsg" "confirm";
        sendto_nosignal: "sendto" "nosignal";
        sendmmsg_nosignal: "sendmmsg" "nosignal";
        sendto_more: "sendto" "more";
        sendmmsg_more: "sendmmsg" "more";
        sendto_peek: "sendto" "peek";
        sendmmsg_peek: "sendmmsg" "peek";
        sendto_trunc: "sendto" "trunc";
        sendmmsg_trunc: "sendmmsg" "trunc";
        sendto_probe: "sendto" "probe";
        sendmmsg_probe: "sendmmsg" "probe";
        sendto_zerocopy: "sendto" "zerocopy";
        sendmmsg_zerocopy: "sendmmsg" "zerocopy";
        sendto_fastopen: "sendto" "fastopen";
        sendmmsg_fastopen: "sendmmsg" "fastopen";
        sendto_splice: "sendto" "splice";
        sendmmsg_splice: "sendmmsg" "splice";
        sendto_batch: "sendto" "batch";
        sendmmsg_batch: "sendmmsg" "batch";
        sendto_unknown: "sendto" "unknown";
        sendmmsg_unknown: "sendmmsg" "unknown";
        sendto_fin: "sendto" "fin";
        sendmmsg_fin: "sendmmsg" "fin";
        sendto_syn: "sendto" "syn";
        sendmmsg_syn: "sendmmsg" "syn";
        sendto_rst: "sendto" "rst";
        sendmmsg_rst: "sendmmsg" "rst";
        sendto_errqueue: "sendto" "errqueue";
        sendmmsg_errqueue: "sendmmsg" "errqueue";
        sendto_waitall: "sendto" "waitall";
        sendmmsg_waitall: "sendmmsg" "waitall";
        sendto_cloexec: "sendto" "cloexec";
        sendmmsg_cloexec: "sendmmsg" "cloexec";
        send_oob: "send" "oob";
        sendmsg_oob: "sendmsg" "oob";
        send_more: "send" "more";
        sendmsg_more: "sendmsg" "more";
        send_dontroute: "send" "dontroute";
        sendmsg_dontroute: "sendmsg" "dontroute";
        send_probe: "send" "probe";
        sendmsg_probe: "sendmsg" "probe";
        send_confirm: "send" "confirm";
        sendmsg_confirm: "sendmsg" "confirm";
    }
}

mod addresses {
    use super::matrix;

    matrix! {
        "addresses", rx 0 tx 10:
        sendto_v4: "sendto" "v4";
        sendto_v6: "sendto" "v6";
        sendmsg_v4: "sendmsg" "v4";
        sendmsg_v6: "sendmsg" "v6";
        sendmmsg_v4: "sendmmsg" "v4";
        sendmmsg_v6: "sendmmsg" "v6";
    }

    matrix! {
        "addresses", rx 0 tx 0:
        connect_v4: "connect" "v4";
        connect_v6: "connect" "v6";
        bind_v4: "bind" "v4";
        bind_v6: "bind" "v6";
    }
}

mod pmtu {
    use super::matrix;

    matrix! {
        "pmtu", rx 1 tx 4:
        discover_unset_v4: "-1" "v4";
        discover_unset_v6: "-1" "v6";
        discover_unset_v4_connected: "-1" "v4" "connected";
        discover_0_v4: "0" "v4";
        discover_0_v6: "0" "v6";
        discover_0_v4_connected: "0" "v4" "connected";
        discover_6_v4: "6" "v4";
        discover_6_v6: "6" "v6";
        discover_6_v4_connected: "6" "v4" "connected";
    }

    matrix! {
        "pmtu", rx 1 tx 0:
        discover_2_v4: "2" "v4";
        discover_2_v6: "2" "v6";
        discover_2_v4_connected: "2" "v4" "connected";
        discover_3_v4: "3" "v4";
        discover_3_v6: "3" "v6";
        discover_3_v4_connected: "3" "v4" "connected";
        discover_4_v4: "4" "v4";
        discover_4_v6: "4" "v6";
        discover_4_v4_connected: "4" "v4" "connected";
        discover_5_v4: "5" "v4";
        discover_5_v6: "5" "v6";
        discover_5_v4_connected: "5" "v4" "connected";
    }
}

mod cmsg_send {
    use super::matrix;

    matrix! {
        "cmsg_send", rx 0 tx 31:
        sendmsg_v4: "sendmsg" "v4";
        sendmsg_v6: "sendmsg" "v6";
        sendmmsg_v4: "sendmmsg" "v4";
        sendmmsg_v6: "sendmmsg" "v6";
    }
}
