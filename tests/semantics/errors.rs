//! ICMP errors on a connected socket, call by call.

use tests::matrix;

mod icmp {
    use super::matrix;

    matrix! {
        "icmp", rx 1 tx 1:
        send: "send";
        send_recverr: "send" "recverr";
        write: "write";
        write_recverr: "write" "recverr";
        sendmsg: "sendmsg";
        sendmsg_recverr: "sendmsg" "recverr";
        sendmmsg: "sendmmsg";
        sendmmsg_recverr: "sendmmsg" "recverr";
        sendto_other: "sendto_other";
        sendto_other_recverr: "sendto_other" "recverr";
        recv: "recv";
        recv_recverr: "recv" "recverr";
        recv_wait: "recv_wait";
        recv_wait_recverr: "recv_wait" "recverr";
        peek: "peek";
        peek_recverr: "peek" "recverr";
        read: "read";
        read_recverr: "read" "recverr";
        recvmsg: "recvmsg";
        recvmsg_recverr: "recvmsg" "recverr";
        recvmmsg: "recvmmsg";
        recvmmsg_recverr: "recvmmsg" "recverr";
        poll: "poll";
        poll_recverr: "poll" "recverr";
        poll_nothing: "poll_nothing";
        poll_nothing_recverr: "poll_nothing" "recverr";
        poll_out: "poll_out";
        poll_out_recverr: "poll_out" "recverr";
        select: "select";
        select_recverr: "select" "recverr";
        epoll: "epoll";
        epoll_recverr: "epoll" "recverr";
        epoll_edge: "epoll_edge";
        epoll_edge_recverr: "epoll_edge" "recverr";
        epoll_once: "epoll_once";
        epoll_once_recverr: "epoll_once" "recverr";
        epoll_out: "epoll_out";
        epoll_out_recverr: "epoll_out" "recverr";
        so_error: "so_error";
        so_error_recverr: "so_error" "recverr";
        connect: "connect";
        connect_recverr: "connect" "recverr";
        send_v6: "send" "v6";
        recv_v6: "recv" "v6";
        recvmsg_v6: "recvmsg" "v6";
        poll_v6: "poll" "v6";
        epoll_v6: "epoll" "v6";
        so_error_v6: "so_error" "v6";
        errqueue_recverr: "errqueue" "recverr";
        errqueue_recverr_v6: "errqueue" "recverr" "v6";
        recv_recverr_v6: "recv" "recverr" "v6";
    }
}
