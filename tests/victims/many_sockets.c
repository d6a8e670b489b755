/* Binds and closes many sockets, a few hundred and some thousand: what one costs must
 * not grow with their number. Says the time of each on standard error. */
#include "common.h"
#include <sys/resource.h>

/* Of this process: the machine may have other things to do. */
static int64_t cpu_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static double cycle(int count)
{
	static int fds[8000];
	int64_t start = cpu_us();
	for (int i = 0; i < count; i++) {
		struct sockaddr_in a = addr4("0.0.0.0", 10000 + i);
		fds[i] = MUST(socket(AF_INET, SOCK_DGRAM, 0));
		MUST(bind(fds[i], SA(a)));
	}
	int64_t bound = cpu_us();
	for (int i = 0; i < count; i++)
		MUST(close(fds[i]));
	int64_t closed = cpu_us();
	fprintf(stderr, "%d sockets: bind %.1f ms, close %.1f ms\n", count,
		(double)(bound - start) / 1000, (double)(closed - bound) / 1000);
	return (double)(closed - start) / count;
}

int main(void)
{
	struct rlimit limit;
	begin(60);
	peer_start();
	MUST(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = limit.rlim_max;
	MUST(setrlimit(RLIMIT_NOFILE, &limit));
	/* The first opens what the others share. */
	int first = udp_bound("0.0.0.0", PORT);
	cycle(200);
	double few = cycle(200), many = cycle(8000);
	fprintf(stderr, "a socket of 200: %.2f us, of 8000: %.2f us\n", few, many);
	say("scales %s", many < 3 * few ? "yes" : "no");
	peer_send(NEAR, PORT, "data");
	say_recv("fd", first, 0);
	report();
	return done();
}
