/* Blocked without limit in the call that argv[1] names; woken after a while by a datagram, many
 * times over: no wake-up is lost between spinning and sleeping. */
#include "common.h"

int main(int argc, char **argv)
{
	char data[16];
	const char *how = argc > 1 ? argv[1] : "recv";
	int woken = 0;
	begin(20);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), ep = MUST(epoll_create1(0));
	struct epoll_event e = {.events = EPOLLIN};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	for (int i = 0; i < 60; i++) {
		fd_set set;
		FD_ZERO(&set);
		FD_SET(fd, &set);
		peer_send_later(i % 7, NEAR, PORT, "wake");
		if (!strcmp(how, "epoll"))
			MUST(epoll_wait(ep, &e, 1, -1));
		else if (!strcmp(how, "poll"))
			MUST(poll(&p, 1, -1));
		else if (!strcmp(how, "select"))
			MUST(select(fd + 1, &set, NULL, NULL, NULL));
		woken += recv(fd, data, sizeof data, strcmp(how, "recv") ? MSG_DONTWAIT : 0) == 4;
	}
	say("woken %d times", woken);
	report();
	return done();
}
