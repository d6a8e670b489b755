/* A thread waits, in the call that argv[1] names, on a socket that has no port yet; another thread
 * sends the first datagram (argv[2] "send") or binds it (argv[2] "bind"). The answer must come. */
#include "common.h"

static int fd;
static const char *how;

static void *waiter(void *unused)
{
	struct epoll_event e = {.events = EPOLLIN};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	fd_set set;
	(void)unused;
	if (!strcmp(how, "epoll")) {
		int ep = MUST(epoll_create1(0));
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
		CALL(epoll_wait(ep, &e, 1, -1));
	} else if (!strcmp(how, "poll")) {
		CALL(poll(&p, 1, -1));
	} else if (!strcmp(how, "select")) {
		FD_ZERO(&set);
		FD_SET(fd, &set);
		CALL(select(fd + 1, &set, NULL, NULL, NULL));
	}
	say_recv("waiter", fd, strcmp(how, "recv") ? MSG_DONTWAIT : 0);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;
	begin(10);
	if (argc != 3)
		return 2;
	how = argv[1];
	peer_start();
	fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	pthread_create(&t, NULL, waiter, NULL);
	sleep_ms(60);
	struct sockaddr_in to = addr4(FAR, PEER_PORT), own = addr4("0.0.0.0", PORT);
	socklen_t length = sizeof own;
	if (!strcmp(argv[2], "send"))
		MUST(sendto(fd, "question", 8, 0, SA(to)));
	else
		MUST(bind(fd, SA(own)));
	MUST(getsockname(fd, (struct sockaddr *)&own, &length));
	sleep_ms(60);
	peer_send(NEAR, ntohs(own.sin_port), "answer");
	pthread_join(t, NULL);
	/* Then it goes on as usual. */
	peer_send(NEAR, ntohs(own.sin_port), "next");
	say_recv("main", fd, 0);
	report();
	return done();
}
