/* MSG_TRUNC on input: each call takes one datagram and tells its full length. */
#include "common.h"

int main(void)
{
	char data[16] = "...............";
	struct iovec io = {data, 3};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	for (int i = 0; i < 6; i++)
		peer_send(NEAR, PORT, "1234567");
	CALL(recv(fd, NULL, 0, MSG_TRUNC));
	CALL(recv(fd, data, 1, MSG_TRUNC));
	say_bytes("data", data, 4);
	CALL(recv(fd, data, 2, 0));
	say_bytes("data", data, 4);
	CALL(recvmsg(fd, &m, 0));
	say_bytes("data", data, 4);
	say_flags(m.msg_flags);
	CALL(recvmsg(fd, &m, MSG_TRUNC));
	say_flags(m.msg_flags);
	m.msg_iovlen = 0;
	CALL(recvmsg(fd, &m, 0));
	say_flags(m.msg_flags);
	CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
	report();
	return done();
}
