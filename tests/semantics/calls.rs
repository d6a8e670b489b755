//! Sending, receiving, options and errors.

use engine::error::Reason;
use tests::backend::Backend;
use tests::check::Case;

macro_rules! echo {
    ($($name:ident $fortified:ident $family:literal;)+) => { $(
        #[test]
        fn $name() {
            Case::new("echo").args(&[$family]).engine(4, 3).run();
        }
        #[test]
        fn $fortified() {
            Case::new("echo").args(&[$family]).fortified().engine(4, 3).run();
        }
    )+ };
}

echo! {
    recvfrom_sendto fortified_recvfrom_sendto "recvfrom";
    recv_send fortified_recv_send "recv";
    read_write fortified_read_write "read";
    readv_writev fortified_readv_writev "readv";
    recvmsg_sendmsg fortified_recvmsg_sendmsg "recvmsg";
    recvmmsg_sendmmsg fortified_recvmmsg_sendmmsg "recvmmsg";
}

macro_rules! engine {
    ($($name:ident rx $rx:literal tx $tx:literal;)+) => { $(
        #[test]
        fn $name() {
            Case::new(stringify!($name)).engine($rx, $tx).run();
        }
    )+ };
}

engine! {
    truncate rx 6 tx 0;
    peek rx 2 tx 0;
    nonblock rx 2 tx 0;
    zero_length rx 4 tx 4;
    fionread rx 2 tx 0;
    too_big rx 0 tx 1;
    rcvtimeo rx 2 tx 0;
    eintr rx 2 tx 0;
    recvmmsg rx 11 tx 0;
    close_other_thread rx 1 tx 0;
    many_threads rx 4000 tx 800;
    errno_hammer rx 1000 tx 0;
    refused rx 1 tx 1;
    unconnect rx 2 tx 1;
    connect_filter rx 2 tx 1;
    send_self rx 1 tx 0;
    dualstack rx 3 tx 2;
    dup rx 7 tx 1;
    bad_arguments rx 1 tx 0;
    pktinfo rx 7 tx 1;
    slow_reader rx 6 tx 0;
    autobind rx 2 tx 1;
    cork rx 0 tx 1;
    own_gso rx 0 tx 0;
    cancel rx 3 tx 0;
    in_handler rx 5 tx 4;
    handler_storm rx 16000 tx 100;
    pending_limit rx 2 tx 0;
    masks rx 8 tx 0;
    handler_jump rx 40 tx 0;
    dispositions rx 3 tx 0;
    cancel_ways rx 200 tx 1;
}

#[test]
fn handler_malloc() {
    if Backend::current() == Backend::Verbs {
        eprintln!("skipped: libibverbs allocates from the program's heap (README, Processes)");
        return;
    }
    Case::new("handler_malloc").engine(2, 0).run();
}

#[test]
fn native_v6() {
    Case::new("native_v6").kernel(Reason::NativeV6).run();
}

#[test]
fn own_filter() {
    Case::new("own_filter").kernel(Reason::OwnFilter).run();
}

#[test]
fn bind_conflict() {
    Case::new("bind_conflict").kernel(Reason::SharedPort).run();
}

/// It sets SO_REUSEADDR and SO_REUSEPORT among the others.
#[test]
fn options() {
    Case::new("options").kernel(Reason::SharedPort).run();
}

#[test]
fn shutdown() {
    Case::new("shutdown").kernel(Reason::Option).run();
}

#[test]
fn wild_pointers() {
    Case::new("wild_pointers").engine(0, 0).run();
}

/// The kernel receives, rings send.
#[test]
fn reuse_send() {
    Case::new("reuse_send").engine(0, 5).run();
}

#[test]
fn reuseport() {
    Case::new("reuseport").kernel(Reason::SharedPort).run();
}

#[test]
fn recverr() {
    Case::new("recverr")
        .unobserved("whether the error queue keeps the socket on the kernel is the engine's choice")
        .run();
}

#[test]
fn timestamp() {
    Case::new("timestamp")
        .unobserved("whether time stamps keep the socket on the kernel is the engine's choice")
        .run();
}

#[test]
fn first_send_race() {
    Case::new("first_send_race")
        .unobserved("which path a socket takes depends on which thread was first")
        .run();
}
