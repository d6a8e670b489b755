/* An epoll set inside another, and poll and select on a set. */
#include "common.h"

static void look(int outer, int inner)
{
	struct epoll_event e[4] = {0};
	struct pollfd p = {.fd = inner, .events = POLLIN};
	struct timeval none = {0, 0};
	fd_set set;
	long n = CALL(epoll_wait(outer, e, 4, 30));
	for (long i = 0; i < n; i++)
		say("  %s data %llu", event_names(e[i].events), (unsigned long long)e[i].data.u64);
	CALL(poll(&p, 1, 0));
	FD_ZERO(&set);
	FD_SET(inner, &set);
	CALL(select(inner + 1, &set, NULL, NULL, &none));
}

int main(void)
{
	char data[16];
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	int inner = MUST(epoll_create1(0)), outer = MUST(epoll_create1(0));
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = 1};
	CALL(epoll_ctl(inner, EPOLL_CTL_ADD, fd, &e));
	e.data.u64 = 2;
	CALL(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &e));
	CALL(epoll_ctl(inner, EPOLL_CTL_ADD, outer, &e));
	look(outer, inner);
	peer_send(NEAR, PORT, "data");
	look(outer, inner);
	look(outer, inner);
	CALL(recv(fd, data, sizeof data, 0));
	look(outer, inner);
	int64_t start = now_us();
	peer_send_later(60, NEAR, PORT, "late");
	CALL(epoll_wait(outer, &e, 1, 3000));
	say_took(start, 50, 2000);
	struct pollfd p = {.fd = inner, .events = POLLIN};
	CALL(poll(&p, 1, 1000));
	CALL(recv(fd, data, sizeof data, 0));
	peer_send_later(60, NEAR, PORT, "later");
	CALL(poll(&p, 1, 3000));
	report();
	return done();
}
