/* Level-triggered epoll: readable until it has been read. */
#include "common.h"

static void wait_once(int ep, int ms)
{
	struct epoll_event e[4] = {0};
	long n = CALL(epoll_wait(ep, e, 4, ms));
	for (long i = 0; i < n; i++)
		say("  %s data %llx", event_names(e[i].events), (unsigned long long)e[i].data.u64);
}

int main(void)
{
	char data[16];
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), ep = CALL(epoll_create1(0));
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = 0x1234567890abcdef};
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	wait_once(ep, 0);
	int64_t start = now_us();
	wait_once(ep, 60);
	say_took(start, 60, 1000);
	peer_send(NEAR, PORT, "one");
	peer_send(NEAR, PORT, "two");
	wait_once(ep, 1000);
	wait_once(ep, 1000);
	CALL(recv(fd, data, sizeof data, 0));
	wait_once(ep, 1000);
	CALL(recv(fd, data, sizeof data, 0));
	wait_once(ep, 0);
	start = now_us();
	peer_send_later(60, NEAR, PORT, "three");
	wait_once(ep, -1);
	say_took(start, 50, 2000);
	e.events = EPOLLIN | EPOLLOUT;
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	wait_once(ep, 1000);
	e.events = 0;
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	wait_once(ep, 20);
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, fd, &e));
	wait_once(ep, 20);
	e.events = EPOLLIN;
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	wait_once(ep, 1000);
	report();
	/* Closing the last descriptor removes it. */
	CALL(close(fd));
	wait_once(ep, 20);
	return done();
}
