/* select and poll as a sleep: the time is right and the processor idle. */
#include "common.h"
#include <sys/resource.h>

static int64_t cpu_us(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000LL + u.ru_utime.tv_usec + u.ru_stime.tv_usec;
}

int main(void)
{
	int p[2];
	fd_set set;
	begin(10);
	peer_start();
	/* A bound socket is there, but nobody waits for it. */
	int fd = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "warm");
	say_recv("fd", fd, 0);
	MUST(pipe(p));
	struct pollfd f = {.fd = p[0], .events = POLLIN};
	struct timeval t = {0, 150000};
	struct timespec ts = {0, 150000000};
	int64_t start = now_us(), cpu = cpu_us();
	CALL(select(0, NULL, NULL, NULL, &t));
	say_took(start, 150, 1000);
	say("  left %ld.%06ld", t.tv_sec, t.tv_usec);
	start = now_us();
	CALL(poll(NULL, 0, 150));
	say_took(start, 150, 1000);
	start = now_us();
	CALL(poll(&f, 1, 150));
	say_took(start, 150, 1000);
	start = now_us();
	FD_ZERO(&set);
	FD_SET(p[0], &set);
	CALL(pselect(p[0] + 1, &set, NULL, NULL, &ts, NULL));
	say_took(start, 150, 1000);
	say("  left %ld.%09ld", ts.tv_sec, ts.tv_nsec);
	say("processor %s", cpu_us() - cpu < 100000 ? "idle" : "busy");
	/* Linux's select tells how much was left. */
	t = (struct timeval){2, 0};
	FD_ZERO(&set);
	FD_SET(fd, &set);
	peer_send_later(50, NEAR, PORT, "data");
	CALL(select(fd + 1, &set, NULL, NULL, &t));
	say("  left %s", t.tv_sec == 1 && t.tv_usec > 500000 ? "the rest" : "something else");
	report();
	return done();
}
