/* The signal mask that ppoll, pselect, epoll_pwait and epoll_pwait2 have for the time of the
 * call: what it lets in ends a wait, what it keeps out waits for the end of the call. */
#include "common.h"
#include <sys/signalfd.h>

static int fd, ep;
static volatile sig_atomic_t caught;
static pthread_t waiter;

static void handler(int signal)
{
	(void)signal;
	caught++;
}

static void *sender(void *unused)
{
	(void)unused;
	sleep_ms(40);
	pthread_kill(waiter, SIGUSR1);
	return NULL;
}

static const char *names[] = {"ppoll", "pselect", "epoll_pwait", "epoll_pwait2"};

static int wait_for(int call, int ms, const sigset_t *mask)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event e;
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	switch (call) {
	case 0:
		return ppoll(&p, 1, &t, mask);
	case 1:
		return pselect(fd + 1, &set, NULL, NULL, &t, mask);
	case 2:
		return epoll_pwait(ep, &e, 1, ms, mask);
	default:
		return epoll_pwait2(ep, &e, 1, &t, mask);
	}
}

static void show(const char *what, int call, int result)
{
	int error = errno;
	sigset_t pending, now;
	sigpending(&pending);
	pthread_sigmask(SIG_SETMASK, NULL, &now);
	say("%s %s: %d %s, caught %d, pending %d, blocked %d", names[call], what, result,
	    result < 0 ? strerrorname_np(error) : "", caught, sigismember(&pending, SIGUSR1),
	    sigismember(&now, SIGUSR1));
	caught = 0;
}

int main(void)
{
	char data[32];
	begin(30);
	peer_start();
	waiter = pthread_self();
	fd = udp_bound("0.0.0.0", PORT);
	ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event e = {.events = EPOLLIN};
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
	MUST(sigaction(SIGUSR1, &a, NULL));
	sigset_t open, shut;
	sigemptyset(&open);
	sigemptyset(&shut);
	sigaddset(&shut, SIGUSR1);
	for (int call = 0; call < 4; call++) {
		pthread_t t;
		pthread_sigmask(SIG_SETMASK, &shut, NULL);
		raise(SIGUSR1);
		show("at once, a signal waits", call, wait_for(call, 0, &open));
		pthread_sigmask(SIG_SETMASK, &open, NULL);
		pthread_sigmask(SIG_SETMASK, &shut, NULL);
		caught = 0;
		peer_send(NEAR, PORT, "ready");
		sleep_ms(30);
		raise(SIGUSR1);
		show("ready, a signal waits", call, wait_for(call, 0, &open));
		show("ready, with time", call, wait_for(call, 100, &open));
		recv(fd, data, sizeof data, 0);
		show("with time", call, wait_for(call, 100, &open));
		pthread_sigmask(SIG_SETMASK, &open, NULL);
		caught = 0;
		pthread_sigmask(SIG_SETMASK, &shut, NULL);
		pthread_create(&t, NULL, sender, NULL);
		show("let in meanwhile", call, wait_for(call, 1000, &open));
		pthread_join(t, NULL);
		pthread_sigmask(SIG_SETMASK, &open, NULL);
		pthread_create(&t, NULL, sender, NULL);
		show("kept out meanwhile", call, wait_for(call, 150, &shut));
		pthread_join(t, NULL);
		show("data", call, (peer_send(NEAR, PORT, "data"), wait_for(call, 1000, &shut)));
		recv(fd, data, sizeof data, 0);
	}
	/* Signals that are fetched, beside a socket. */
	pthread_sigmask(SIG_SETMASK, &shut, NULL);
	int sfd = MUST(signalfd(-1, &shut, SFD_CLOEXEC));
	struct pollfd p[] = {{.fd = fd, .events = POLLIN}, {.fd = sfd, .events = POLLIN}};
	pthread_t t;
	pthread_create(&t, NULL, sender, NULL);
	int n = poll(p, 2, 1000);
	say("signalfd: %d, %s and %s", n, event_names(p[0].revents), event_names(p[1].revents));
	struct signalfd_siginfo info;
	CALL(read(sfd, &info, sizeof info));
	pthread_join(t, NULL);
	pthread_create(&t, NULL, sender, NULL);
	int which = 0;
	CALL(sigwait(&shut, &which));
	say("  %d", which == SIGUSR1);
	pthread_join(t, NULL);
	report();
	return done();
}
