/* A send that waits for its device lets handlers run: it is one that ends the wait. */
#include "common.h"

static int control;
static volatile sig_atomic_t ran;

static void tell(const char *line)
{
	if (write(control, line, strlen(line)) < 0)
		_exit(3);
}

static void handler(int signal UNUSED)
{
	if (++ran == 100)
		tell("fail=post_send:0:12\n");
}

int main(void)
{
	begin(8);
	control = MUST(open(getenv("SOFTVERBS_CONTROL"), O_WRONLY | O_APPEND));
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(GROUP, PORT + 1);
	for (int i = 0; i < 5; i++) {
		MUST(sendto(fd, "before", 6, 0, SA(to)));
		sleep_ms(20);
	}
	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
	MUST(sigaction(SIGUSR1, &a, NULL));
	timer_t timer;
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct itimerspec every = {{0, 1000003}, {0, 1000003}}, never = {{0, 0}, {0, 0}};
	MUST(timer_create(CLOCK_MONOTONIC, &ev, &timer));
	tell("fail=post_send:*:12\n");
	sleep_ms(50);
	MUST(timer_settime(timer, 0, &every, NULL));
	CALL(sendto(fd, "waits", 5, 0, SA(to)));
	MUST(timer_settime(timer, 0, &never, NULL));
	say("ran %d", ran >= 100);
	/* And one that interrupts ends the call. */
	tell("fail=post_send:*:12\n");
	sleep_ms(50);
	a.sa_flags = 0;
	MUST(sigaction(SIGUSR1, &a, NULL));
	MUST(timer_settime(timer, 0, &every, NULL));
	CALL(sendto(fd, "waits", 5, 0, SA(to)));
	return done();
}
