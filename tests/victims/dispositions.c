/* What a program has set for a signal is what it is told, and what happens. */
#include "common.h"
#include <stdatomic.h>
#include <sys/syscall.h>
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

__sighandler_t bsd_signal(int signal, __sighandler_t handler);

static int fd;
static volatile sig_atomic_t caught, got_value, got_code, nested, on_own_stack;
static char *own_stack;

static void plain(int signal)
{
	(void)signal;
	caught++;
}

static void informed(int signal, siginfo_t *info, void *context)
{
	char here;
	(void)signal;
	caught++;
	got_code = info->si_code;
	got_value = info->si_value.sival_int;
	on_own_stack = own_stack && &here > own_stack && &here < own_stack + SIGSTKSZ;
	if (context == NULL)
		got_code = -99;
}

static void again(int signal)
{
	if (nested++ == 0)
		raise(signal);
}

static void show(const char *what, int signal)
{
	struct sigaction a;
	MUST(sigaction(signal, NULL, &a));
	say("%s: handler %s, flags %#x, blocks USR2 %d", what,
	    a.sa_handler == SIG_DFL			    ? "default"
	    : a.sa_handler == SIG_IGN		    ? "ignored"
	    : a.sa_handler == plain			    ? "plain"
	    : a.sa_sigaction == informed		    ? "informed"
	    : a.sa_handler == again			    ? "again"
							    : "another",
	    (unsigned)a.sa_flags, sigismember(&a.sa_mask, SIGUSR2));
}

#define SETS(call)                                                                          \
	do {                                                                                \
		void *old_ = (void *)(call);                                                \
		say("%s: before it %s", #call,                                              \
		    old_ == (void *)SIG_DFL    ? "default"                                  \
		    : old_ == (void *)SIG_IGN  ? "ignored"                                  \
		    : old_ == (void *)SIG_ERR  ? strerrorname_np(errno)                     \
		    : old_ == (void *)plain    ? "plain"                                    \
		    : old_ == (void *)informed ? "informed"                                 \
		    : old_ == (void *)SIG_HOLD ? "held"                                     \
							    : "another");                         \
		show("  now", SIGUSR1);                                                     \
	} while (0)

static void wait_with_a_signal(void)
{
	char data[32];
	pthread_t self = pthread_self();
	(void)self;
	/* Interrupted or restarted: the datagram ends it in any case. */
	pid_t child = fork();
	if (child == 0) {
		usleep(40000);
		kill(getppid(), SIGUSR1);
		_exit(0);
	}
	peer_send_later(150, NEAR, PORT, "data");
	long n = recv(fd, data, sizeof data, 0);
	say("  recv: %s", n >= 0 ? "restarted" : strerrorname_np(errno));
	if (n < 0)
		say_recv("  then", fd, 0);
	while (waitpid(child, NULL, 0) == -1 && errno == EINTR)
		;
	say("  caught %d", caught);
}

/* The kernel's own word for the handler, while signal(3) sets it over and over: there is never
 * another one for a moment. */
static atomic_bool setting = true;
static atomic_int others;

static void *look(void *unused)
{
	struct { void *handler; unsigned long flags; void *restorer; uint64_t mask; } first, now;
	MUST(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &first, 8));
	while (atomic_load(&setting)) {
		MUST(syscall(SYS_rt_sigaction, SIGUSR2, NULL, &now, 8));
		others += now.handler != first.handler;
	}
	return unused;
}

static void set_over_and_over(void)
{
	pthread_t looker;
	signal(SIGUSR2, plain);
	MUST(pthread_create(&looker, NULL, look, NULL));
	for (int i = 0; i < 100000; i++) {
		signal(SIGUSR2, plain);
		sysv_signal(SIGUSR2, plain);
		sigset(SIGUSR2, plain);
	}
	setting = false;
	pthread_join(looker, NULL);
	say("another handler %d times", others);
}

int main(void)
{
	begin(30);
	/* One before the engine starts, and one after. */
	struct sigaction before = {.sa_handler = plain, .sa_flags = SA_RESTART | SA_NODEFER}, old;
	sigaddset(&before.sa_mask, SIGUSR2);
	MUST(sigaction(SIGHUP, &before, NULL));
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	show("set before", SIGHUP);
	show("never set", SIGUSR1);
	SETS(signal(SIGUSR1, plain));
	wait_with_a_signal();
	CALL(siginterrupt(SIGUSR1, 1));
	show("interrupting", SIGUSR1);
	wait_with_a_signal();
	SETS(signal(SIGUSR1, plain));
	CALL(siginterrupt(SIGUSR1, 0));
	show("restarting", SIGUSR1);
	SETS(bsd_signal(SIGUSR1, SIG_IGN));
	SETS(bsd_signal(SIGUSR1, plain));
	SETS(ssignal(SIGUSR1, plain));
	SETS(sysv_signal(SIGUSR1, plain));
	raise(SIGUSR1);
	say("caught %d", caught);
	show("good for once", SIGUSR1);
	SETS(sigset(SIGUSR1, plain));
	SETS(sigset(SIGUSR1, SIG_HOLD));
	SETS(sigset(SIGUSR1, plain));
	SETS(signal(SIGKILL, plain));
	SETS(signal(SIGUSR1, SIG_DFL));

	struct sigaction a = {.sa_sigaction = informed, .sa_flags = SA_SIGINFO | SA_RESETHAND};
	CALL(sigaction(SIGUSR1, &a, &old));
	show("informed", SIGUSR1);
	union sigval value = {.sival_int = 4711};
	CALL(sigqueue(getpid(), SIGUSR1, value));
	say("code %d value %d", got_code, got_value);
	show("after it", SIGUSR1);

	/* In the midst of a wait, on a stack of its own. */
	own_stack = malloc(SIGSTKSZ);
	stack_t s = {.ss_sp = own_stack, .ss_size = SIGSTKSZ};
	MUST(sigaltstack(&s, NULL));
	a.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
	sigaddset(&a.sa_mask, SIGUSR2);
	CALL(sigaction(SIGUSR1, &a, &old));
	say("old flags %#x", (unsigned)old.sa_flags);
	show("on a stack", SIGUSR1);
	wait_with_a_signal();
	say("code %d, own stack %d", got_code, on_own_stack);

	struct sigaction n = {.sa_handler = again, .sa_flags = SA_NODEFER};
	CALL(sigaction(SIGUSR1, &n, NULL));
	show("nodefer", SIGUSR1);
	raise(SIGUSR1);
	say("nested %d", nested);
	set_over_and_over();
	CALL(sigaction(99, &n, NULL));
	show("after an error", SIGUSR1);
	report();
	return done();
}
