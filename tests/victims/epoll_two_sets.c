/* One socket in two sets, by the same and by another descriptor. */
#include "common.h"

static void wait_once(int ep, int ms)
{
	struct epoll_event e[4] = {0};
	long n = CALL(epoll_wait(ep, e, 4, ms));
	for (long i = 0; i < n; i++)
		say("  %s data %llu", event_names(e[i].events), (unsigned long long)e[i].data.u64);
}

int main(void)
{
	char data[16];
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), again = MUST(dup(fd));
	int one = MUST(epoll_create1(0)), two = MUST(epoll_create1(0));
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = 1};
	CALL(epoll_ctl(one, EPOLL_CTL_ADD, fd, &e));
	e.data.u64 = 2;
	CALL(epoll_ctl(two, EPOLL_CTL_ADD, fd, &e));
	peer_send(NEAR, PORT, "data");
	wait_once(one, 1000);
	wait_once(two, 1000);
	e.data.u64 = 3;
	CALL(epoll_ctl(one, EPOLL_CTL_ADD, again, &e));
	wait_once(one, 1000);
	CALL(recv(fd, data, sizeof data, 0));
	wait_once(one, 20);
	wait_once(two, 20);
	CALL(close(one));
	peer_send(NEAR, PORT, "more");
	wait_once(two, 1000);
	/* The set keeps the socket under the closed descriptor's entry while a dup lives. */
	CALL(close(fd));
	wait_once(two, 100);
	CALL(recv(again, data, sizeof data, 0));
	wait_once(two, 20);
	report();
	return done();
}
