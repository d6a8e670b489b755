/* select's count, its bits, and its errors. */
#include "common.h"

static void show(const char *what, fd_set *set, int top)
{
	printf("  %s:", what);
	for (int i = 0; i < top; i++)
		if (FD_ISSET(i, set))
			printf(" %d", i);
	say("%s", "");
}

int main(void)
{
	int p[2];
	fd_set in, out, except;
	struct timeval none = {0, 0}, bad = {-1, 0};
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), idle = udp_bound("0.0.0.0", PORT + 1);
	MUST(pipe(p));
	peer_send(NEAR, PORT, "data");
	FD_ZERO(&in);
	FD_SET(fd, &in);
	FD_SET(idle, &in);
	FD_SET(p[0], &in);
	out = in;
	FD_CLR(p[0], &out);
	FD_SET(p[1], &out);
	except = in;
	CALL(select(p[1] + 1, &in, &out, &except, &none));
	show("in", &in, p[1] + 1);
	show("out", &out, p[1] + 1);
	show("except", &except, p[1] + 1);
	FD_ZERO(&in);
	FD_SET(fd, &in);
	CALL(select(fd, &in, NULL, NULL, &none));
	show("in", &in, p[1] + 1);
	FD_SET(fd, &in);
	CALL(select(fd + 1, NULL, &in, NULL, NULL));
	CALL(select(fd + 1, &in, NULL, NULL, &bad));
	volatile int negative = -1;
	CALL(select(negative, &in, NULL, NULL, &none));
	FD_SET(600, &in);
	CALL(select(601, &in, NULL, NULL, &none));
	struct pollfd f[4] = {{fd, POLLIN | POLLOUT, 0}, {-1, POLLIN, 77}, {600, POLLIN, 0}, {idle, POLLIN, 77}};
	CALL(poll(f, 4, 0));
	for (int i = 0; i < 4; i++)
		say("  %s", event_names((unsigned short)f[i].revents));
	f[0].events = POLLRDNORM | POLLWRNORM;
	CALL(poll(f, 1, 0));
	say("  %s", event_names((unsigned short)f[0].revents));
	/* A hang-up is nothing exceptional: the wait goes on. */
	int hung[2];
	MUST(pipe(hung));
	MUST(close(hung[1]));
	FD_ZERO(&in);
	FD_ZERO(&except);
	FD_SET(idle, &in);
	FD_SET(hung[0], &except);
	struct timeval wait = {0, 100000};
	int64_t start = now_us();
	CALL(select((hung[0] > idle ? hung[0] : idle) + 1, &in, NULL, &except, &wait));
	say_took(start, 100, 1000);
	struct timespec wrong = {0, -1};
	CALL(ppoll(f, 1, &wrong, NULL));
	report();
	return done();
}
