/* EPOLLONESHOT: one event, then nothing until armed again. */
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
	struct epoll_event e = {.events = EPOLLIN | EPOLLONESHOT};
	struct sockaddr_in self = addr4(NEAR, PORT);
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	peer_send(NEAR, PORT, "one");
	wait_once(ep, 1000);
	peer_send(NEAR, PORT, "two");
	wait_once(ep, 50);
	fd_set set;
	struct timeval none = {0, 0};
	FD_ZERO(&set);
	FD_SET(fd, &set);
	CALL(select(fd + 1, &set, NULL, NULL, &none));
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	wait_once(ep, 1000);
	wait_once(ep, 20);
	while (recv(fd, data, sizeof data, MSG_DONTWAIT) > 0)
		;
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	wait_once(ep, 20);
	/* From the wire and from our own host at once: still one event. */
	peer_send(NEAR, PORT, "wire");
	CALL(sendto(fd, "self", 4, 0, SA(self)));
	wait_once(ep, 1000);
	wait_once(ep, 30);
	report();
	return done();
}
