/* A socket that is never drained does not starve an eventfd and a timerfd. */
#include "common.h"

static volatile int stop;

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static void *stream(void *unused)
{
	(void)unused;
	while (!stop)
		peer_burst(NEAR, PORT, 200, 64, 0);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t;
	char data[64];
	uint64_t count, one = 1;
	int ticks = 0, events = 0, datagrams = 0;
	const char *how = argc > 1 ? argv[1] : "epoll";
	begin(15);
	peer_start();
	int udp = udp_bound("0.0.0.0", PORT), event = MUST(eventfd(0, EFD_NONBLOCK));
	int timer = MUST(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK));
	int ep = MUST(epoll_create1(0)), fds[3] = {udp, event, timer};
	for (int i = 0; i < 3; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.fd = fds[i]};
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e));
	}
	struct itimerspec every = {{0, 10000000}, {0, 10000000}};
	MUST(timerfd_settime(timer, 0, &every, NULL));
	pthread_create(&t, NULL, stream, NULL);
	int64_t start = now_us(), took[64], written = 0;
	while (now_us() - start < 500000 && events < 64) {
		unsigned ready = 0;
		if (!written && now_us() - start > 20000 * (events + 1)) {
			written = now_us();
			MUST(write(event, &one, 8));
		}
		if (!strcmp(how, "epoll")) {
			struct epoll_event e[1];
			/* One event at a time: the set has to take turns. */
			if (epoll_wait(ep, e, 1, 100) == 1)
				for (int i = 0; i < 3; i++)
					ready |= e[0].data.fd == fds[i] ? 1U << i : 0;
		} else if (!strcmp(how, "poll")) {
			struct pollfd p[3];
			for (int i = 0; i < 3; i++)
				p[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
			poll(p, 3, 100);
			for (int i = 0; i < 3; i++)
				ready |= p[i].revents ? 1U << i : 0;
		} else {
			fd_set set;
			struct timeval limit = {0, 100000};
			FD_ZERO(&set);
			for (int i = 0; i < 3; i++)
				FD_SET(fds[i], &set);
			select(timer + ep + 1, &set, NULL, NULL, &limit);
			for (int i = 0; i < 3; i++)
				ready |= FD_ISSET(fds[i], &set) ? 1U << i : 0;
		}
		if (ready & 1 && recv(udp, data, sizeof data, MSG_DONTWAIT) > 0)
			datagrams++;
		if (ready & 2 && read(event, &count, 8) == 8) {
			took[events++] = now_us() - written;
			written = 0;
		}
		if (ready & 4 && read(timer, &count, 8) == 8)
			ticks += (int)count;
	}
	report();
	stop = 1;
	pthread_join(t, NULL);
	/* The bounds are for a crowded machine: a starved descriptor is not seen at all. */
	say("ticks %s, events %s, datagrams %s", ticks >= 40 ? "all" : "missing",
	    events >= 12 ? "all" : "missing", datagrams > 1000 ? "many" : "few");
	qsort(took, events, sizeof *took, compare);
	say("usual event %s, slowest %s", took[events / 2] < 3000 ? "soon" : "late",
	    took[events - 1] < 100000 ? "bearable" : "late");
	return done();
}
