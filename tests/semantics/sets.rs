//! epoll, poll and select: every kind of interest, every wrong argument.

use tests::matrix;

mod epoll_modes {
    use super::matrix;

    matrix! {
        "epoll_modes", rx 1 tx 0:
        in_alone: "in";
        in_et: "in" "et";
        in_oneshot: "in" "oneshot";
        in_et_oneshot: "in" "et" "oneshot";
        in_exclusive: "in" "exclusive";
        out: "out";
        out_et: "out" "et";
        out_oneshot: "out" "oneshot";
        out_et_oneshot: "out" "et" "oneshot";
        out_exclusive: "out" "exclusive";
        in_out: "in" "out";
        in_out_et: "in" "out" "et";
        in_out_oneshot: "in" "out" "oneshot";
        in_out_et_oneshot: "in" "out" "et" "oneshot";
        in_out_exclusive: "in" "out" "exclusive";
        pri: "pri";
        pri_et: "pri" "et";
        pri_oneshot: "pri" "oneshot";
        pri_et_oneshot: "pri" "et" "oneshot";
        pri_exclusive: "pri" "exclusive";
        rdhup: "rdhup";
        rdhup_et: "rdhup" "et";
        rdhup_oneshot: "rdhup" "oneshot";
        rdhup_et_oneshot: "rdhup" "et" "oneshot";
        rdhup_exclusive: "rdhup" "exclusive";
        rdnorm: "rdnorm";
        rdnorm_et: "rdnorm" "et";
        rdnorm_oneshot: "rdnorm" "oneshot";
        rdnorm_et_oneshot: "rdnorm" "et" "oneshot";
        rdnorm_exclusive: "rdnorm" "exclusive";
        in_rdnorm: "in" "rdnorm";
        in_rdnorm_et: "in" "rdnorm" "et";
        in_rdnorm_oneshot: "in" "rdnorm" "oneshot";
        in_rdnorm_et_oneshot: "in" "rdnorm" "et" "oneshot";
        in_rdnorm_exclusive: "in" "rdnorm" "exclusive";
        none: "none";
        none_et: "none" "et";
        none_oneshot: "none" "oneshot";
        none_et_oneshot: "none" "et" "oneshot";
        none_exclusive: "none" "exclusive";
        in_et_exclusive: "in" "et" "exclusive";
        in_out_et_exclusive: "in" "out" "et" "exclusive";
        oneshot_exclusive_in: "oneshot" "exclusive" "in";
        in_wakeup: "in" "wakeup";
        in_msg_rdband: "in" "msg" "rdband";
        wrnorm: "wrnorm";
        err_hup: "err" "hup";
    }
}

mod wait_arguments {
    use super::matrix;

    matrix! {
        "wait_arguments", rx 1 tx 0:
        poll: "poll";
        ppoll: "ppoll";
        select: "select";
        pselect: "pselect";
        epoll_wait: "epoll_wait";
        epoll_pwait: "epoll_pwait";
        epoll_pwait2: "epoll_pwait2";
    }
}
