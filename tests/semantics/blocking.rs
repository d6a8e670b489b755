//! Calls that wait: signals, other threads, shutdown.

use tests::matrix;

mod interrupted {
    use super::matrix;

    matrix! {
        "interrupted", rx 2 tx 0:
        recv: "recv";
        recv_restart: "recv" "restart";
        read: "read";
        read_restart: "read" "restart";
        readv: "readv";
        readv_restart: "readv" "restart";
        peek: "peek";
        peek_restart: "peek" "restart";
        recvmsg: "recvmsg";
        recvmsg_restart: "recvmsg" "restart";
        recvmmsg: "recvmmsg";
        recvmmsg_restart: "recvmmsg" "restart";
        poll: "poll";
        poll_restart: "poll" "restart";
        poll_ever: "poll_ever";
        poll_ever_restart: "poll_ever" "restart";
        ppoll: "ppoll";
        ppoll_restart: "ppoll" "restart";
        select: "select";
        select_restart: "select" "restart";
        pselect: "pselect";
        pselect_restart: "pselect" "restart";
        epoll_wait: "epoll_wait";
        epoll_wait_restart: "epoll_wait" "restart";
        epoll_ever: "epoll_ever";
        epoll_ever_restart: "epoll_ever" "restart";
        recv_timeout: "recv" "timeout";
        recv_restart_timeout: "recv" "restart" "timeout";
        recv_ignored: "recv" "ignored";
        recvmsg_timeout: "recvmsg" "timeout";
        recvmsg_restart_timeout: "recvmsg" "restart" "timeout";
        recvmsg_ignored: "recvmsg" "ignored";
        recvmmsg_timeout: "recvmmsg" "timeout";
        recvmmsg_restart_timeout: "recvmmsg" "restart" "timeout";
        recvmmsg_ignored: "recvmmsg" "ignored";
    }
}

mod under_reader {
    use super::matrix;

    matrix! {
        "under_reader", rx 1 tx 0:
        close_recv: "close" "recv";
        close_recvmmsg: "close" "recvmmsg";
        close_epoll: "close" "epoll";
        dup2_recv: "dup2" "recv";
        dup2_recvmmsg: "dup2" "recvmmsg";
        dup2_poll: "dup2" "poll";
        dup2_select: "dup2" "select";
        dup2_epoll: "dup2" "epoll";
        shutdown_rd_recv: "shutdown_rd" "recv";
        shutdown_rd_recvmmsg: "shutdown_rd" "recvmmsg";
        shutdown_rd_poll: "shutdown_rd" "poll";
        shutdown_rd_select: "shutdown_rd" "select";
        shutdown_rd_epoll: "shutdown_rd" "epoll";
        shutdown_rdwr_recv: "shutdown_rdwr" "recv";
        shutdown_rdwr_recvmmsg: "shutdown_rdwr" "recvmmsg";
        shutdown_rdwr_poll: "shutdown_rdwr" "poll";
        shutdown_rdwr_select: "shutdown_rdwr" "select";
        shutdown_rdwr_epoll: "shutdown_rdwr" "epoll";
        shutdown_rdwr_connected_recv: "shutdown_rdwr_connected" "recv";
        shutdown_rdwr_connected_recvmmsg: "shutdown_rdwr_connected" "recvmmsg";
        shutdown_rdwr_connected_poll: "shutdown_rdwr_connected" "poll";
        shutdown_rdwr_connected_select: "shutdown_rdwr_connected" "select";
        shutdown_rdwr_connected_epoll: "shutdown_rdwr_connected" "epoll";
        nonblock_recv: "nonblock" "recv";
        nonblock_recvmmsg: "nonblock" "recvmmsg";
        nonblock_poll: "nonblock" "poll";
        nonblock_select: "nonblock" "select";
        nonblock_epoll: "nonblock" "epoll";
        unconnect_connected_recv: "unconnect_connected" "recv";
        unconnect_connected_recvmmsg: "unconnect_connected" "recvmmsg";
        unconnect_connected_poll: "unconnect_connected" "poll";
        unconnect_connected_select: "unconnect_connected" "select";
        unconnect_connected_epoll: "unconnect_connected" "epoll";
        timeout_recv: "timeout" "recv";
        timeout_recvmmsg: "timeout" "recvmmsg";
        timeout_poll: "timeout" "poll";
        timeout_select: "timeout" "select";
        timeout_epoll: "timeout" "epoll";
        shutdown_wr_recv: "shutdown_wr" "recv";
        shutdown_wr_epoll: "shutdown_wr" "epoll";
        reconnect_recv: "reconnect" "recv";
        reconnect_epoll: "reconnect" "epoll";
        filter_recv: "filter" "recv";
        filter_epoll: "filter" "epoll";
        dup_recv: "dup" "recv";
        dup_epoll: "dup" "epoll";
    }

    matrix! {
        "under_reader", rx 2 tx 1:
        send_recv: "send" "recv";
        send_recvmmsg: "send" "recvmmsg";
        send_poll: "send" "poll";
        send_select: "send" "select";
        send_epoll: "send" "epoll";
    }
}

mod jvm {
    use super::matrix;

    matrix! {
        "close_as_java", rx 1 tx 0:
        closes: ;
        leaves_and_closes: "leaves";
    }
}

mod shut {
    use super::matrix;

    matrix! {
        "shut", rx 2 tx 0:
        rd: "rd";
        rd_connected: "rd" "connected";
        wr: "wr";
        wr_connected: "wr" "connected";
        rdwr: "rdwr";
        rdwr_connected: "rdwr" "connected";
        bad: "bad";
        bad_connected: "bad" "connected";
    }
}
