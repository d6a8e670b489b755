//! What a single socket does: each victim natively and under the library.

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
