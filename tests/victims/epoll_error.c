/* An ICMP error wakes epoll, poll and select although nobody asked for it. */
#include "common.h"

int main(void)
{
	char data[16];
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), ep = MUST(epoll_create1(0));
	struct sockaddr_in closed = addr4(FAR, 7999), open = addr4(FAR, PEER_PORT);
	struct epoll_event e = {.events = EPOLLIN};
	struct pollfd p = {.fd = fd, .events = 0};
	set_nonblock(fd, true);
	CALL(connect(fd, SA(open)));
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	int64_t start = now_us();
	CALL(poll(&p, 1, 30));
	say_took(start, 30, 1000);
	peer_send(NEAR, PORT, "data");
	CALL(poll(&p, 1, 30));
	CALL(epoll_wait(ep, &e, 1, 1000));
	say("  %s", event_names(e.events));
	CALL(recv(fd, data, sizeof data, 0));
	CALL(connect(fd, SA(closed)));
	CALL(send(fd, "x", 1, 0));
	CALL(epoll_wait(ep, &e, 1, 1000));
	say("  %s", event_names(e.events));
	CALL(poll(&p, 1, 1000));
	say("  %s", event_names(p.revents));
	fd_set in, out;
	FD_ZERO(&in);
	FD_ZERO(&out);
	FD_SET(fd, &in);
	struct timeval none = {0, 0};
	CALL(select(fd + 1, &in, &out, NULL, &none));
	CALL(recv(fd, data, sizeof data, 0));
	CALL(recv(fd, data, sizeof data, 0));
	CALL(epoll_wait(ep, &e, 1, 20));
	CALL(poll(&p, 1, 20));
	report();
	return done();
}
