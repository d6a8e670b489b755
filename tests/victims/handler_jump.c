/* Handlers that never return to the call they interrupted: siglongjmp, longjmp and
 * pthread_exit, out of a blocked recv, recvmsg, poll, select and epoll_wait, on the stack of
 * the thread and on one of their own. Nothing of the call that was left stays behind. */
#include "common.h"
#include <setjmp.h>

static int fd, ep;
static sigjmp_buf back;
static jmp_buf plain_back;
static int way;

static void handler(int signal)
{
	(void)signal;
	switch (way) {
	case 0:
		siglongjmp(back, 1);
	case 1:
		longjmp(plain_back, 1);
	default:
		pthread_exit("left");
	}
}

static void wait_on(int call)
{
	block_in(call, fd, ep);
	say("  returned");
}

static const char *names[] = {"recv", "recvmsg", "poll", "select", "epoll_wait"};

static void *waiter(void *call)
{
	static char room[64 << 10] __attribute__((aligned(16)));
	stack_t own = {.ss_sp = room, .ss_size = sizeof room}, none = {.ss_flags = SS_DISABLE};
	MUST(sigaltstack(way == 1 ? &none : &own, NULL));
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	if (way == 0 && sigsetjmp(back, 1) == 0)
		wait_on((int)(intptr_t)call);
	else if (way == 1 && setjmp(plain_back) == 0)
		wait_on((int)(intptr_t)call);
	else if (way == 2)
		wait_on((int)(intptr_t)call);
	pthread_sigmask(SIG_BLOCK, NULL, &set);
	say("  back, the signal is blocked: %d", sigismember(&set, SIGUSR1));
	/* The same thread goes on using sockets. */
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	peer_send(NEAR, PORT, "on");
	say_recv("  the same thread", fd, 0);
	return "returned";
}

int main(void)
{
	begin(60);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event e = {.events = EPOLLIN};
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	for (int stack = 0; stack < 2; stack++) {
		struct sigaction a = {.sa_handler = handler, .sa_flags = stack ? SA_ONSTACK : 0};
		MUST(sigaction(SIGUSR1, &a, NULL));
		for (way = 0; way < 3; way++)
			for (int call = 0; call < 5; call++) {
				pthread_t t;
				void *result;
				say("%s, way %d, stack %d", names[call], way, stack);
				pthread_create(&t, NULL, waiter, (void *)(intptr_t)call);
				sleep_ms(30);
				pthread_kill(t, SIGUSR1);
				pthread_join(t, &result);
				say("  %s", (char *)result);
				peer_send(NEAR, PORT, "after");
				say_recv("  main", fd, 0);
			}
	}
	/* The last number is closed: nobody waits any more who would keep the port. */
	report();
	MUST(close(fd));
	int again = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "again");
	say_recv("again", again, 0);
	return done();
}
