/* Edge-triggered epoll: each arrival fires, also while data is still queued. */
#include "common.h"

static void wait_once(int ep, int ms)
{
	struct epoll_event e[4] = {0};
	long n = CALL(epoll_wait(ep, e, 4, ms));
	for (long i = 0; i < n; i++)
		say("  %s", event_names(e[i].events));
}

int main(void)
{
	char data[16];
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), ep = CALL(epoll_create1(0));
	struct epoll_event e = {.events = EPOLLIN | EPOLLET};
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	peer_burst(NEAR, PORT, 3, 8, 0);
	wait_once(ep, 1000);
	CALL(recv(fd, data, sizeof data, 0));
	wait_once(ep, 50);
	peer_send(NEAR, PORT, "again");
	wait_once(ep, 1000);
	wait_once(ep, 20);
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	wait_once(ep, 1000);
	while (recv(fd, data, sizeof data, MSG_DONTWAIT) > 0)
		;
	wait_once(ep, 20);
	peer_send_later(50, NEAR, PORT, "late");
	wait_once(ep, 2000);
	wait_once(ep, 20);
	e.events = EPOLLIN | EPOLLOUT | EPOLLET;
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	wait_once(ep, 1000);
	wait_once(ep, 20);
	peer_send(NEAR, PORT, "both");
	wait_once(ep, 1000);
	/* Already readable when added. */
	int second = MUST(epoll_create1(0));
	e.events = EPOLLIN | EPOLLET;
	CALL(epoll_ctl(second, EPOLL_CTL_ADD, fd, &e));
	wait_once(second, 1000);
	wait_once(second, 20);
	report();
	return done();
}
