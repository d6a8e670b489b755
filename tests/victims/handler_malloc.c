/* A handler that opens, binds, joins, changes and closes sockets, while the program allocates
 * all the time: it never waits for the heap that it interrupted. */
#include "common.h"

static int fd, ep;
static volatile int handled, failed;

static void handler(int signal)
{
	int saved = errno, on = 1;
	struct sockaddr_in any = {.sin_family = AF_INET}, to = addr4(FAR, PEER_PORT);
	struct epoll_event e = {.events = EPOLLIN};
	(void)signal;
	handled++;
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	failed += bind(s, SA(any)) != 0;
	failed += setsockopt(s, IPPROTO_IP, IP_RECVTTL, &on, sizeof on) != 0;
	failed += epoll_ctl(ep, EPOLL_CTL_ADD, s, &e) != 0;
	failed += connect(s, SA(to)) != 0;
	failed += send(s, "x", 1, 0) != 1;
	int copy = dup(s);
	struct pollfd p = {.fd = copy, .events = POLLIN};
	failed += poll(&p, 1, 0) != 0;
	close(s);
	close(copy);
	errno = saved;
}

int main(void)
{
	begin(60);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	peer_send(NEAR, PORT, "first");
	say_recv("fd", fd, 0);
	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
	MUST(sigaction(SIGUSR1, &a, NULL));
	timer_t timer;
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec every = {{0, 2000000}, {0, 2000000}}, never = {{0, 0}, {0, 0}};
	MUST(timer_create(CLOCK_MONOTONIC, &ev, &timer));
	MUST(timer_settime(timer, 0, &every, NULL));
	void *blocks[64] = {NULL};
	unsigned seed = 1;
	while (handled < 300) {
		seed = seed * 1103515245 + 12345;
		void **block = &blocks[seed >> 16 & 63];
		free(*block);
		*block = malloc(200 + (seed >> 8 & 0x3fff));
		memset(*block, 1, 200);
	}
	MUST(timer_settime(timer, 0, &never, NULL));
	say("%d failed", failed);
	peer_send(NEAR, PORT, "last");
	say_recv("fd", fd, 0);
	report();
	return done();
}
