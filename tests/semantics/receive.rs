//! Receive calls: flags, addresses, control messages, what a full buffer drops.

use tests::matrix;

mod recv_flags {
    use super::matrix;

    matrix! {
        "recv_flags", rx 4 tx 0:
        recvmsg_peek: "recvmsg" "peek";
        recvmmsg_peek: "recvmmsg" "peek";
        recvmsg_trunc: "recvmsg" "trunc";
        recvmmsg_trunc: "recvmmsg" "trunc";
        recvmsg_waitall: "recvmsg" "waitall";
        recvmmsg_waitall: "recvmmsg" "waitall";
        recvmsg_errqueue: "recvmsg" "errqueue";
        recvmmsg_errqueue: "recvmmsg" "errqueue";
        recvmsg_oob: "recvmsg" "oob";
        recvmmsg_oob: "recvmmsg" "oob";
        recvmsg_cloexec: "recvmsg" "cloexec";
        recvmmsg_cloexec: "recvmmsg" "cloexec";
        recvmsg_nosignal: "recvmsg" "nosignal";
        recvmmsg_nosignal: "recvmmsg" "nosignal";
        recvmsg_ctrunc: "recvmsg" "ctrunc";
        recvmmsg_ctrunc: "recvmmsg" "ctrunc";
        recvmsg_waitforone: "recvmsg" "waitforone";
        recvmmsg_waitforone: "recvmmsg" "waitforone";
        recvmsg_confirm: "recvmsg" "confirm";
        recvmmsg_confirm: "recvmmsg" "confirm";
        recvmsg_unknown: "recvmsg" "unknown";
        recvmmsg_unknown: "recvmmsg" "unknown";
        recvmsg_eor: "recvmsg" "eor";
        recvmmsg_eor: "recvmmsg" "eor";
        recvmsg_dontroute: "recvmsg" "dontroute";
        recvmmsg_dontroute: "recvmmsg" "dontroute";
        recvmsg_peek_trunc: "recvmsg" "peek" "trunc";
        recvmmsg_peek_trunc: "recvmmsg" "peek" "trunc";
        recvmsg_peek_waitall: "recvmsg" "peek" "waitall";
        recvmmsg_peek_waitall: "recvmmsg" "peek" "waitall";
        recvmsg_errqueue_peek: "recvmsg" "errqueue" "peek";
        recvmmsg_errqueue_peek: "recvmmsg" "errqueue" "peek";
        recvmsg_waitforone_peek: "recvmsg" "waitforone" "peek";
        recvmmsg_waitforone_peek: "recvmmsg" "waitforone" "peek";
        recvfrom_peek: "recvfrom" "peek";
        recvfrom_trunc: "recvfrom" "trunc";
        recvfrom_waitall: "recvfrom" "waitall";
        recvfrom_errqueue: "recvfrom" "errqueue";
        recvfrom_oob: "recvfrom" "oob";
        recvfrom_peek_trunc: "recvfrom" "peek" "trunc";
        recvfrom_unknown: "recvfrom" "unknown";
        recv_peek: "recv" "peek";
        recv_trunc: "recv" "trunc";
        recv_oob: "recv" "oob";
        recv_waitall: "recv" "waitall";
    }
}

mod names {
    use super::matrix;

    matrix! {
        "names", rx 16 tx 0:
        recvfrom_v4: "recvfrom" "v4";
        recvfrom_v6: "recvfrom" "v6";
        recvmsg_v4: "recvmsg" "v4";
        recvmsg_v6: "recvmsg" "v6";
        recvmmsg_v4: "recvmmsg" "v4";
        recvmmsg_v6: "recvmmsg" "v6";
    }
}

mod cmsg_receive {
    use super::matrix;
    use tests::check::Case;
    use tests::preload::Mode;

    /// A veth stamps nothing in hardware. So here the software card has no clock either; its times
    /// are `verbs::stamps`'s.
    #[test]
    fn v4_timestamping_raw() {
        Case::new("cmsg_receive")
            .args(&["v4", "timestamping_raw"])
            .modes(&[Mode::Shim(&[("SOFTVERBS_NO_TIMESTAMP", "1")])])
            .engine(16, 0)
            .run();
    }

    matrix! {
        "cmsg_receive", rx 16 tx 0:
        v4_pktinfo: "v4" "pktinfo";
        v4_ttl: "v4" "ttl";
        v4_tos: "v4" "tos";
        v4_origdst: "v4" "origdst";
        v4_timestamp: "v4" "timestamp";
        v4_timestampns: "v4" "timestampns";
        v4_timestamp_new: "v4" "timestamp_new";
        v4_timestampns_new: "v4" "timestampns_new";
        v4_timestamping: "v4" "timestamping";
        v4_timestamping_new: "v4" "timestamping_new";
        v4_timestamping_pktinfo: "v4" "timestamping_pktinfo";
        v4_ovfl: "v4" "ovfl";
        v4_passcred: "v4" "passcred";
        v4_wifi: "v4" "wifi";
        v4_gro: "v4" "gro";
        v4_timestamp_timestampns: "v4" "timestamp" "timestampns";
        v4_timestampns_timestamp: "v4" "timestampns" "timestamp";
        v4_timestamp_new_timestamp: "v4" "timestamp_new" "timestamp";
        v4_timestamping_timestamp: "v4" "timestamping" "timestamp";
        v4_timestamping_new_timestampns: "v4" "timestamping_new" "timestampns";
        v4_pktinfo_ttl_tos_origdst_timestampns_ovfl: "v4" "pktinfo" "ttl" "tos" "origdst" "timestampns" "ovfl";
        v6_pktinfo: "v6" "pktinfo";
        v6_ttl: "v6" "ttl";
        v6_tos: "v6" "tos";
        v6_origdst: "v6" "origdst";
        v6_timestamp: "v6" "timestamp";
        v6_timestampns_new: "v6" "timestampns_new";
        v6_timestamping: "v6" "timestamping";
        v6_pktinfo_ttl_tos_origdst_timestampns_ovfl: "v6" "pktinfo" "ttl" "tos" "origdst" "timestampns" "ovfl";
        v6_pktinfo6: "v6" "pktinfo6";
        v6_hoplimit: "v6" "hoplimit";
        v6_tclass: "v6" "tclass";
        v6_origdst6: "v6" "origdst6";
        v6_flowinfo: "v6" "flowinfo";
        v6_rthdr: "v6" "rthdr";
        v6_hopopts: "v6" "hopopts";
        v6_fragsize6: "v6" "fragsize6";
        v6_pathmtu: "v6" "pathmtu";
        v6_oldpktinfo6: "v6" "oldpktinfo6";
        v6_pktinfo6_pktinfo: "v6" "pktinfo6" "pktinfo";
        v6_pktinfo6_ttl_hoplimit_tclass_tos_origdst6: "v6" "pktinfo6" "ttl" "hoplimit" "tclass" "tos" "origdst6";
    }

    matrix! {
        "cmsg_receive", kernel Option:
        v4_fragsize: "v4" "fragsize";
        v4_checksum: "v4" "checksum";
        v4_recvopts: "v4" "recvopts";
        v4_retopts: "v4" "retopts";
        v4_passsec: "v4" "passsec";
        v4_mark: "v4" "mark";
        v4_priority: "v4" "priority";
    }
}

mod overflow {
    use super::matrix;

    matrix! {
        "overflow", rx 11 tx 0:
        size_0_20000: "0" "20000";
        size_8_20000: "8" "20000";
        size_64_20000: "64" "20000";
        size_197_20000: "197" "20000";
        size_198_20000: "198" "20000";
        size_500_20000: "500" "20000";
        size_645_20000: "645" "20000";
        size_646_20000: "646" "20000";
        size_1000_20000: "1000" "20000";
        size_1472_20000: "1472" "20000";
        size_64_0: "64" "0";
        size_1472_0: "1472" "0";
        size_64_1: "64" "1";
        size_1000_100000: "1000" "100000";
        size_64_20000_ovfl: "64" "20000" "ovfl";
        size_1000_100000_ovfl: "1000" "100000" "ovfl";
    }
}
