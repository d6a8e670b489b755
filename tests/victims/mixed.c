/* One wait over a UDP socket, a pipe, an eventfd, a timerfd and TCP, by the call that argv[1]
 * names: each wakes it alone, and of several ready ones each is reported within a few calls. */
#include "common.h"

enum { UDP, PIPE, EVENT, TIMER, TCP, KINDS };
static const char *names[KINDS] = {"udp", "pipe", "event", "timer", "tcp"};
static int fds[KINDS], pipe_in, tcp_in, ep;

static unsigned by_select(int ms)
{
	fd_set set;
	unsigned ready = 0;
	int top = 0;
	struct timeval t = {ms / 1000, ms % 1000 * 1000};
	FD_ZERO(&set);
	for (int i = 0; i < KINDS; i++) {
		FD_SET(fds[i], &set);
		top = fds[i] > top ? fds[i] : top;
	}
	MUST(select(top + 1, &set, NULL, NULL, ms < 0 ? NULL : &t));
	for (int i = 0; i < KINDS; i++)
		ready |= FD_ISSET(fds[i], &set) ? 1U << i : 0;
	return ready;
}

static unsigned by_poll(int ms)
{
	struct pollfd p[KINDS];
	unsigned ready = 0;
	for (int i = 0; i < KINDS; i++)
		p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	MUST(poll(p, KINDS, ms));
	for (int i = 0; i < KINDS; i++)
		ready |= p[i].revents == POLLIN ? 1U << i : 0;
	return ready;
}

static unsigned by_epoll(int ms)
{
	struct epoll_event e[KINDS];
	unsigned ready = 0;
	long n = MUST(epoll_wait(ep, e, KINDS, ms));
	for (long i = 0; i < n; i++)
		ready |= 1U << e[i].data.u32;
	return ready;
}

static unsigned (*look)(int);

/* A call may report some of what is ready (POSIX does not say which), but nothing else, and none
 * may be kept back for long. */
static void show(int ms, unsigned expected)
{
	unsigned ready = 0;
	int calls = 0;
	do
		ready |= look(ms);
	while (++calls < 60 && (ready & expected) != expected);
	printf("  ready:");
	for (int i = 0; i < KINDS; i++)
		if (ready & 1U << i)
			printf(" %s", names[i]);
	say("%s", "");
}

static void provoke(int kind)
{
	uint64_t one = 1;
	struct itimerspec t = {.it_value = {0, 1000000}};
	if (kind == UDP)
		peer_send(NEAR, PORT, "x");
	else if (kind == PIPE)
		MUST(write(pipe_in, "x", 1));
	else if (kind == EVENT)
		MUST(write(fds[EVENT], &one, 8));
	else if (kind == TIMER)
		MUST(timerfd_settime(fds[TIMER], 0, &t, NULL));
	else
		MUST(send(tcp_in, "x", 1, 0));
}

static void drain(int kind)
{
	char data[8];
	MUST(read(fds[kind], data, sizeof data));
}

static void *later(void *kind)
{
	sleep_ms(50);
	provoke((int)(intptr_t)kind);
	return NULL;
}

int main(int argc, char **argv)
{
	int p[2];
	begin(15);
	look = argc > 1 && !strcmp(argv[1], "select") ? by_select
	       : argc > 1 && !strcmp(argv[1], "poll") ? by_poll : by_epoll;
	peer_start();
	fds[UDP] = udp_bound("0.0.0.0", PORT);
	MUST(pipe(p));
	fds[PIPE] = p[0];
	pipe_in = p[1];
	fds[EVENT] = MUST(eventfd(0, 0));
	fds[TIMER] = MUST(timerfd_create(CLOCK_MONOTONIC, 0));
	int listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
	struct sockaddr_in a = addr4("127.0.0.1", PORT);
	CALL(bind(listener, SA(a)));
	CALL(listen(listener, 1));
	tcp_in = CALL(socket(AF_INET, SOCK_STREAM, 0));
	CALL(connect(tcp_in, SA(a)));
	fds[TCP] = CALL(accept(listener, NULL, NULL));
	ep = MUST(epoll_create1(0));
	for (int i = 0; i < KINDS; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.u32 = (unsigned)i};
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e));
	}
	show(0, 0);
	int64_t start = now_us();
	show(40, 0);
	say_took(start, 40, 1000);
	for (int i = 0; i < KINDS; i++) {
		pthread_t t;
		pthread_create(&t, NULL, later, (void *)(intptr_t)i);
		show(5000, 1U << i);
		pthread_join(t, NULL);
		drain(i);
		show(0, 0);
	}
	for (int i = 0; i < KINDS; i++)
		provoke(i);
	sleep_ms(30);
	unsigned all = (1U << KINDS) - 1;
	show(0, all);
	for (int i = 0; i < KINDS; i++) {
		drain(i);
		all &= ~(1U << i);
		show(all ? 1000 : 0, all);
	}
	report();
	return done();
}
