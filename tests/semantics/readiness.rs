//! epoll, poll and select over accelerated sockets and the kernel's descriptors.

use tests::check::Case;

macro_rules! engine {
    ($($name:ident rx $rx:literal tx $tx:literal;)+) => { $(
        #[test]
        fn $name() {
            Case::new(stringify!($name)).engine($rx, $tx).run();
        }
    )+ };
}

engine! {
    epoll_level rx 2 tx 0;
    epoll_edge rx 4 tx 0;
    epoll_oneshot rx 2 tx 0;
    epoll_nested rx 2 tx 0;
    epoll_two_sets rx 2 tx 0;
    epoll_early rx 3 tx 0;
    epoll_gone rx 1 tx 0;
    epoll_arguments rx 0 tx 0;
    epoll_error rx 1 tx 0;
    epoll_ctl_thread rx 0 tx 0;
    epoll_exclusive rx 50 tx 0;
    select_sleep rx 1 tx 0;
    select_bits rx 0 tx 0;
}

macro_rules! by_call {
    ($($name:ident $victim:literal $call:literal rx $rx:literal;)+) => { $(
        #[test]
        fn $name() {
            Case::new($victim).args(&[$call]).engine($rx, 0).run();
        }
    )+ };
}

by_call! {
    mixed_select "mixed" "select" rx 2;
    mixed_poll "mixed" "poll" rx 2;
    mixed_epoll "mixed" "epoll" rx 2;
    no_starvation_select "starvation" "select" rx 1000;
    no_starvation_poll "starvation" "poll" rx 1000;
    no_starvation_epoll "starvation" "epoll" rx 1000;
    wakes_recv "wait_forever" "recv" rx 60;
    wakes_select "wait_forever" "select" rx 60;
    wakes_poll "wait_forever" "poll" rx 60;
    wakes_epoll "wait_forever" "epoll" rx 60;
}

/// The socket becomes accelerated under a thread that waits on it already.
#[test]
fn blocked_before_the_port_is_known() {
    for call in ["recv", "poll", "select", "epoll"] {
        for first in ["send", "bind"] {
            Case::new("blocked_early")
                .args(&[call, first])
                .engine(1, 0)
                .run();
        }
    }
}
