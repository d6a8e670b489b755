/* Wrong arguments: the errors are Linux's. Null pointers here; wilder ones in wild_pointers. */
#include "common.h"

int main(void)
{
	char data[16] = "data";
	void *volatile nowhere = NULL;
	struct iovec io = {data, 4}, bad = {nowhere, 4};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1}, b = {.msg_iov = &bad, .msg_iovlen = 1};
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT), six = to, zero_port = addr4(FAR, 0);
	six.sin_family = AF_INET6;
	CALL(send(fd, data, 4, 0));
	CALL(sendmsg(fd, &m, 0));
	CALL(write(fd, data, 4));
	CALL(sendto(fd, data, 4, 0, (struct sockaddr *)&to, 4));
	CALL(sendto(fd, data, 4, 0, SA(six)));
	CALL(sendto(fd, data, 4, 0, SA(zero_port)));
	CALL(sendto(fd, nowhere, 4, 0, SA(to)));
	CALL(sendto(fd, data, 4, 0, nowhere, sizeof to));
	CALL(sendto(fd, data, 4, MSG_OOB, SA(to)));
	CALL(sendto(-1, data, 4, 0, SA(to)));
	CALL(sendto(600, data, 4, 0, SA(to)));
	m.msg_name = &to;
	m.msg_namelen = sizeof to;
	m.msg_iovlen = 2000;
	CALL(sendmsg(fd, &m, 0));
	b.msg_name = &to;
	b.msg_namelen = sizeof to;
	CALL(sendmsg(fd, &b, 0));
	CALL(sendmsg(fd, nowhere, 0));
	peer_recv(30);
	/* A datagram whose copy faults is gone. */
	peer_burst(NEAR, PORT, 4, 8, 0);
	CALL(recv(fd, nowhere, 4, 0));
	CALL(recvmsg(fd, nowhere, 0));
	b.msg_name = NULL;
	CALL(recvmsg(fd, &b, 0));
	say_recv("next", fd, MSG_DONTWAIT);
	say_recv("next", fd, MSG_DONTWAIT);
	CALL(recv(fd, data, 4, MSG_OOB | MSG_DONTWAIT));
	CALL(recv(-1, data, 4, 0));
	CALL(recvfrom(600, data, 4, 0, NULL, NULL));
	struct iovec many[2] = {{data, (size_t)-1}, {data, 1}};
	CALL(readv(fd, many, 2));
	volatile int negative = -1;
	CALL(readv(fd, many, negative));
	CALL(listen(fd, 1));
	CALL(accept(fd, NULL, NULL));
	int value = 1;
	CALL(setsockopt(fd, SOL_SOCKET, 9999, &value, sizeof value));
	CALL(setsockopt(fd, 12345, 1, &value, sizeof value));
	CALL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, 1));
	CALL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, nowhere, 4));
	CALL(bind(fd, SA(to)));
	CALL(close(-1));
	CALL(close(600));
	CALL(socket(AF_INET, SOCK_DGRAM, IPPROTO_TCP));
	CALL(socket(AF_INET, SOCK_DGRAM, IPPROTO_UDP));
	CALL(socket(77, SOCK_DGRAM, 0));
	report();
	return done();
}
