/* No signal more may be pending (RLIMIT_SIGPENDING) than those of a timer, which has its own
 * room: its handler uses sockets, as the program does all the time, and gets what it was sent. */
#include "common.h"
#include <sys/resource.h>

static int fd;
static volatile int handled, failed, other, standard;

static int one_life(void)
{
	struct sockaddr_in any = {.sin_family = AF_INET}, to = addr4(FAR, PEER_PORT);
	int wrong = 0, s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	wrong += bind(s, SA(any)) != 0;
	wrong += connect(s, SA(to)) != 0;
	wrong += send(s, "x", 1, 0) != 1;
	wrong += close(s) != 0;
	return wrong;
}

static void handler(int signal, siginfo_t *info, void *context)
{
	int saved = errno;
	(void)context;
	int value = signal == SIGUSR2 ? 55 : 77;
	other += info->si_code != SI_TIMER || info->si_value.sival_int != value;
	standard += signal == SIGUSR2;
	failed += one_life();
	handled++;
	errno = saved;
}

int main(void)
{
	begin(60);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "first");
	say_recv("fd", fd, 0);
	struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
	sigaddset(&a.sa_mask, SIGUSR2);
	sigaddset(&a.sa_mask, SIGRTMIN + 3);
	MUST(sigaction(SIGRTMIN + 3, &a, NULL));
	MUST(sigaction(SIGUSR2, &a, NULL));
	timer_t timer, second;
	struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL,
	                      .sigev_signo = SIGRTMIN + 3,
	                      .sigev_value = {.sival_int = 77}};
	struct itimerspec every = {{0, 2000000}, {0, 2000000}}, never = {{0, 0}, {0, 0}};
	MUST(timer_create(CLOCK_MONOTONIC, &ev, &timer));
	ev.sigev_signo = SIGUSR2;
	ev.sigev_value.sival_int = 55;
	MUST(timer_create(CLOCK_MONOTONIC, &ev, &second));
	struct rlimit none = {0, 0};
	MUST(setrlimit(RLIMIT_SIGPENDING, &none));
	MUST(timer_settime(timer, 0, &every, NULL));
	every.it_value.tv_nsec = every.it_interval.tv_nsec = 2300000;
	MUST(timer_settime(second, 0, &every, NULL));
	int wrong = 0;
	while (handled - standard < 100 || standard < 100)
		wrong += one_life();
	MUST(timer_settime(timer, 0, &never, NULL));
	MUST(timer_settime(second, 0, &never, NULL));
	say("%d wrong, %d failed in handlers, %d other signals", wrong, failed, other);
	peer_send(NEAR, PORT, "last");
	say_recv("fd", fd, 0);
	report();
	return done();
}
