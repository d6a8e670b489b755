/* A timer's handler, some thousand times a second, sends and receives on the engine's sockets
 * above all calls that the program makes; what the peer has numbered comes once, in order. */
#include "common.h"
#include <sys/time.h>

enum { MESSAGES = 2000, ROUNDS = 4 };

static int main_fd, handler_fd, extra_fd;
static volatile int handled, sent;
static volatile unsigned next_main, next_handler;
static volatile int wrong;
static struct sockaddr_in to;

/* The peer numbers its datagrams by eight digits in front. */
static void take(const char *data, long n, volatile unsigned *next)
{
	unsigned number = 0;
	for (int i = 0; i < 8 && i < n; i++)
		number = number * 10 + (unsigned)(data[i] - '0');
	if (n < 8 || number != *next)
		wrong++;
	*next = number + 1;
}

static void handler(int signal)
{
	char data[128];
	long n;
	int saved = errno;
	(void)signal;
	handled++;
	while ((n = recv(handler_fd, data, sizeof data, MSG_DONTWAIT)) >= 0)
		take(data, n, &next_handler);
	if (handled % 16 == 0 && sendto(handler_fd, "handled", 7, MSG_DONTWAIT, SA(to)) == 7)
		sent++;
	/* Something that changes the engine's state. */
	if (handled % 64 == 0) {
		int on = 1;
		setsockopt(extra_fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof on);
		int copy = dup(extra_fd);
		close(copy);
	}
	errno = saved;
}

int main(void)
{
	char data[128];
	begin(60);
	peer_start();
	to = addr4(FAR, PEER_PORT + 9);
	main_fd = udp_bound("0.0.0.0", PORT);
	handler_fd = udp_bound("0.0.0.0", PORT + 1);
	extra_fd = udp_bound("0.0.0.0", PORT + 2);
	int big = 4 << 20;
	setsockopt(main_fd, SOL_SOCKET, SO_RCVBUF, &big, sizeof big);
	setsockopt(handler_fd, SOL_SOCKET, SO_RCVBUF, &big, sizeof big);
	int ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event e = {.events = EPOLLIN};
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, main_fd, &e));
	struct pollfd p = {.fd = main_fd, .events = POLLIN};

	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
	MUST(sigaction(SIGUSR1, &a, NULL));
	timer_t timer;
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec every = {{0, 250000}, {0, 250000}}, never = {{0, 0}, {0, 0}};
	MUST(timer_create(CLOCK_MONOTONIC, &ev, &timer));

	for (int round = 0; round < ROUNDS; round++) {
		next_main = next_handler = 0;
		MUST(timer_settime(timer, 0, &every, NULL));
		PEER_DO("", 0, "stream 0 %s %d %d 64 150", NEAR, PORT, MESSAGES);
		PEER_DO("", 0, "stream 0 %s %d %d 64 150", NEAR, PORT + 1, MESSAGES);
		int64_t end = now_us() + 8000000;
		while ((next_main < MESSAGES || next_handler < MESSAGES) && now_us() < end) {
			long n;
			switch (round) {
			case 0:
				n = recv(main_fd, data, sizeof data, next_main < MESSAGES ? 0 : MSG_DONTWAIT);
				break;
			case 1:
				if (poll(&p, 1, 20) != 1)
					continue;
				n = recv(main_fd, data, sizeof data, MSG_DONTWAIT);
				break;
			case 2:
				if (epoll_wait(ep, &e, 1, 20) != 1)
					continue;
				n = recv(main_fd, data, sizeof data, MSG_DONTWAIT);
				break;
			default:
				free(malloc(100));
				sendto(main_fd, "main", 4, 0, SA(to));
				n = recv(main_fd, data, sizeof data, MSG_DONTWAIT);
			}
			if (n >= 0)
				take(data, n, &next_main);
		}
		MUST(timer_settime(timer, 0, &never, NULL));
		say("round %d: %u for main, %u for the handler, %d wrong", round, next_main, next_handler,
		    wrong);
	}
	say("the handler ran often: %d, sent: %d", handled > 1000, sent > 10);
	report();
	return done();
}
