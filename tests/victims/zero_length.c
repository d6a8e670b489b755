/* Empty datagrams are datagrams. */
#include "common.h"

int main(void)
{
	char data[16];
	int waiting = -1;
	struct iovec io = {data, 0};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	peer_send(NEAR, PORT, "");
	peer_send(NEAR, PORT, "next");
	CALL(poll(&p, 1, 1000));
	CALL(ioctl(fd, FIONREAD, &waiting));
	say("  waiting %d", waiting);
	say_recv("first", fd, 0);
	say_recv("second", fd, 0);
	/* A buffer of no size takes a datagram all the same. */
	peer_send(NEAR, PORT, "lost");
	CALL(recv(fd, data, 0, 0));
	CALL(recv(fd, data, 0, MSG_DONTWAIT));
	peer_send(NEAR, PORT, "kept");
	CALL(read(fd, data, 0));
	CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, NULL, 0, 0, SA(to)));
	peer_recv(1000);
	CALL(connect(fd, SA(to)));
	CALL(send(fd, "", 0, 0));
	peer_recv(1000);
	CALL(sendmsg(fd, &m, 0));
	peer_recv(1000);
	m.msg_iovlen = 0;
	CALL(sendmsg(fd, &m, 0));
	peer_recv(1000);
	CALL(write(fd, "", 0));
	peer_recv(100);
	report();
	return done();
}
