/* A signal in a wait: with and without SA_RESTART, and nothing sticks. */
#include "common.h"

static volatile sig_atomic_t caught;

static void handler(int signal)
{
	(void)signal;
	caught++;
}

static void install(int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
	MUST(sigaction(SIGUSR1, &a, NULL));
}

static pthread_t waiter;

static void *sender(void *ms)
{
	sleep_ms((int)(intptr_t)ms);
	pthread_kill(waiter, SIGUSR1);
	return NULL;
}

static pthread_t signal_in(int ms)
{
	pthread_t t;
	pthread_create(&t, NULL, sender, (void *)(intptr_t)ms);
	return t;
}

int main(void)
{
	char data[16];
	struct timeval second = {1, 0}, none = {0, 0};
	begin(20);
	peer_start();
	waiter = pthread_self();
	int fd = udp_bound("0.0.0.0", PORT);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event e = {.events = EPOLLIN};
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));

	install(0);
	pthread_t t = signal_in(60);
	CALL(recv(fd, data, sizeof data, 0));
	pthread_join(t, NULL);
	say("  caught %d", (int)caught);

	install(SA_RESTART);
	t = signal_in(60);
	peer_send_later(150, NEAR, PORT, "restarted");
	CALL(recv(fd, data, sizeof data, 0));
	pthread_join(t, NULL);
	say("  caught %d", (int)caught);

	CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second));
	t = signal_in(60);
	CALL(recv(fd, data, sizeof data, 0));
	pthread_join(t, NULL);
	CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none));

	/* Readiness calls never restart. */
	t = signal_in(60);
	CALL(poll(&p, 1, 2000));
	pthread_join(t, NULL);
	t = signal_in(60);
	CALL(epoll_wait(ep, &e, 1, 2000));
	pthread_join(t, NULL);
	t = signal_in(60);
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	struct timeval two = {2, 0};
	CALL(select(fd + 1, &set, NULL, NULL, &two));
	pthread_join(t, NULL);
	say("  caught %d", (int)caught);

	/* A mask that only holds during the wait. */
	sigset_t block, open;
	sigemptyset(&open);
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	MUST(pthread_sigmask(SIG_BLOCK, &block, NULL));
	raise(SIGUSR1);
	struct timespec one = {1, 0};
	CALL(ppoll(&p, 1, &one, &open));
	raise(SIGUSR1);
	CALL(epoll_pwait(ep, &e, 1, 1000, &open));
	raise(SIGUSR1);
	FD_SET(fd, &set);
	CALL(pselect(fd + 1, &set, NULL, NULL, &one, &open));
	say("  caught %d", (int)caught);
	MUST(pthread_sigmask(SIG_UNBLOCK, &block, NULL));

	peer_send(NEAR, PORT, "ordinary");
	CALL(recv(fd, data, sizeof data, 0));
	report();
	return done();
}
