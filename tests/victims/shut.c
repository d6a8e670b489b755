/* shut HOW [connected]: every call on a socket that was shut down. */
#include "common.h"

static void piped(int number)
{
	(void)number;
	say("  SIGPIPE");
}

int main(int argc, char **argv)
{
	char data[64];
	begin(10);
	int how = !strcmp(argv[1], "rd") ? SHUT_RD : !strcmp(argv[1], "wr") ? SHUT_WR : !strcmp(argv[1], "rdwr") ? SHUT_RDWR : 7;
	bool connected = argc > 2;
	signal(SIGPIPE, piped);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), ep = MUST(epoll_create1(0));
	struct sockaddr_in far = addr4(FAR, PEER_PORT);
	struct iovec io = {data, sizeof data};
	struct mmsghdr m = {.msg_hdr = {.msg_iov = &io, .msg_iovlen = 1}};
	struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP};
	if (connected)
		MUST(connect(fd, SA(far)));
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	peer_send(NEAR, PORT, "one");
	peer_send(NEAR, PORT, "two");
	say_recv("one", fd, 0);
	report();
	CALL(shutdown(fd, how));
	CALL(shutdown(fd, how));
	for (int round = 0; round < 2; round++) {
		struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
		int queued = -1;
		CALL(poll(&p, 1, 20));
		say("  %s", event_names((unsigned short)p.revents));
		CALL(epoll_wait(ep, &e, 1, 20));
		say("  %s", event_names(e.events));
		CALL(ioctl(fd, FIONREAD, &queued));
		say("  %d", queued);
		CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
		CALL(recvmsg(fd, &m.msg_hdr, MSG_DONTWAIT));
		CALL(recvmmsg(fd, &m, 1, MSG_DONTWAIT, NULL));
		CALL(recv(fd, data, sizeof data, how == SHUT_WR || how == 7 ? MSG_DONTWAIT : 0));
		CALL(sendto(fd, "out", 3, 0, SA(far)));
		CALL(sendto(fd, "out", 3, MSG_NOSIGNAL, SA(far)));
		CALL(send(fd, "out", 3, 0));
		CALL(write(fd, "out", 3));
		peer_recv(30);
		peer_send(NEAR, PORT, "three");
		sleep_ms(5);
	}
	say_recv("left", fd, MSG_DONTWAIT);
	say_recv("left", fd, MSG_DONTWAIT);
	say_recv("left", fd, MSG_DONTWAIT);
	/* connect does not undo it, and neither does bind. */
	CALL(connect(fd, SA(far)));
	CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
	report();
	return done();
}
