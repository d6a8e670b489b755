/* Pointers into nowhere: Linux answers EFAULT. */
#include "common.h"

int main(void)
{
	char data[16] = "data";
	void *volatile nowhere = (void *)8;
	struct iovec bad = {nowhere, 4};
	struct msghdr b = {.msg_iov = &bad, .msg_iovlen = 1};
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), ep = MUST(epoll_create1(0));
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	struct epoll_event e = {.events = EPOLLIN};
	CALL(sendto(fd, nowhere, 4, 0, SA(to)));
	CALL(sendto(fd, data, 4, 0, nowhere, sizeof to));
	b.msg_name = &to;
	b.msg_namelen = sizeof to;
	CALL(sendmsg(fd, &b, 0));
	CALL(sendmsg(fd, nowhere, 0));
	/* A datagram whose copy faults is gone. */
	peer_burst(NEAR, PORT, 4, 8, 0);
	CALL(recv(fd, nowhere, 4, 0));
	CALL(recvmsg(fd, nowhere, 0));
	b.msg_name = NULL;
	CALL(recvmsg(fd, &b, 0));
	say_recv("next", fd, MSG_DONTWAIT);
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, nowhere));
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	CALL(epoll_wait(ep, nowhere, 4, 1000));
	CALL(epoll_wait(ep, &e, 1, 1000));
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, fd, nowhere));
	CALL(poll(nowhere, 1, 0));
	CALL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, nowhere, 4));
	report();
	return done();
}
