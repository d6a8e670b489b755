/* An entry that goes before the first wait is never reported. */
#include "common.h"

int main(void)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = 0x1234}, got = {0};
	begin(10);
	peer_start();
	int ep = MUST(epoll_create1(0));
	int fd = udp_bound("0.0.0.0", PORT);
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	CALL(close(fd));
	CALL(epoll_wait(ep, &got, 1, 20));
	fd = udp_bound("0.0.0.0", PORT);
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, fd, &e));
	peer_send(NEAR, PORT, "nobody asks");
	say_recv("arrives", fd, 0);
	CALL(epoll_wait(ep, &got, 1, 20));
	report();
	return done();
}
