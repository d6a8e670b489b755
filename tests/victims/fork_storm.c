/* Forks while other threads are inside every kind of call: no child hangs, and each can use
 * what it inherited and what it opens. Arguments: who forks (main, threads or handler), how often. */
#include "common.h"

static int fd, ep, total;
static volatile int stop, started, children, good;

static void *receiver(void *unused)
{
	char data[256];
	(void)unused;
	started++;
	while (!stop)
		recv(fd, data, sizeof data, 0);
	return NULL;
}

static void *poller(void *unused)
{
	char data[256];
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event e;
	(void)unused;
	started++;
	while (!stop) {
		poll(&p, 1, 1);
		recv(fd, data, sizeof data, MSG_DONTWAIT);
		epoll_wait(ep, &e, 1, 1);
	}
	return NULL;
}

static void *sender(void *unused)
{
	struct sockaddr_in to = addr4(FAR, PEER_PORT + 9);
	(void)unused;
	started++;
	while (!stop) {
		sendto(fd, "out", 3, 0, SA(to));
		usleep(200);
	}
	return NULL;
}

static void *changer(void *unused)
{
	(void)unused;
	started++;
	while (!stop) {
		int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		struct sockaddr_in any = addr4("0.0.0.0", 0);
		struct epoll_event e = {.events = EPOLLIN};
		bind(s, SA(any));
		join(s, GROUP);
		epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
		int copy = dup(s);
		epoll_ctl(ep, EPOLL_CTL_DEL, s, &e);
		close(s);
		close(copy);
	}
	return NULL;
}

/* What a child does with it all. */
static void child(int number)
{
	char data[256];
	struct sockaddr_in to = addr4(FAR, PEER_PORT + 9);
	struct epoll_event e = {.events = EPOLLIN};
	signal(SIGALRM, SIG_DFL);
	alarm(10);
	recv(fd, data, sizeof data, MSG_DONTWAIT);
	if (sendto(fd, "child", 5, 0, SA(to)) != 5)
		_exit(1);
	int copy = dup(fd);
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	if (poll(&p, 1, 100) != 1 || epoll_wait(ep, &e, 1, 0) < 0)
		_exit(2);
	/* The set is every child's: another one may have the same number in it just now. */
	epoll_ctl(ep, EPOLL_CTL_ADD, copy, &e);
	epoll_ctl(ep, EPOLL_CTL_DEL, copy, &e);
	close(copy);
	if (number % 8 == 0) {
		/* An engine of its own. */
		int own = socket(AF_INET, SOCK_DGRAM, 0);
		struct sockaddr_in any = addr4("0.0.0.0", 0);
		if (bind(own, SA(any)) != 0 || sendto(own, "own", 3, 0, SA(to)) != 3)
			_exit(3);
		if (epoll_ctl(ep, EPOLL_CTL_ADD, own, &e) != 0)
			_exit(4);
		close(own);
	}
	close(fd);
	close(ep);
	_exit(0);
}

static void fork_once(void)
{
	int status = -1, number = __atomic_add_fetch(&children, 1, __ATOMIC_SEQ_CST);
	pid_t pid = fork();
	if (pid == 0)
		child(number);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && status == 0)
		__atomic_add_fetch(&good, 1, __ATOMIC_SEQ_CST);
	else if (pid > 0)
		__atomic_add_fetch(&total, 1000000 + (status & 0xffff), __ATOMIC_SEQ_CST);
}

static void handler(int signal)
{
	int saved = errno;
	(void)signal;
	fork_once();
	errno = saved;
}

static void *forker(void *count)
{
	for (int i = 0; i < (int)(intptr_t)count; i++)
		fork_once();
	return NULL;
}

static pthread_t start(void *(*run)(void *), void *argument)
{
	pthread_t t;
	MUST(pthread_create(&t, NULL, run, argument) == 0 ? 0 : -1);
	return t;
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 200;
	begin(100);
	peer_start();
	fd = udp_shared("0.0.0.0", PORT);
	struct timeval short_while = {0, 20000};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &short_while, sizeof short_while);
	ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event e = {.events = EPOLLIN};
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	pthread_t threads[] = {start(receiver, NULL), start(poller, NULL), start(sender, NULL),
			       start(changer, NULL)};
	while (started < 4)
		sleep_ms(1);
	if (strcmp(argv[1], "threads") == 0) {
		pthread_t forkers[4];
		for (int i = 0; i < 4; i++)
			forkers[i] = start(forker, (void *)(intptr_t)(count / 4));
		for (int i = 0; i < 4; i++)
			pthread_join(forkers[i], NULL);
	} else if (strcmp(argv[1], "handler") == 0) {
		struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
		MUST(sigaction(SIGUSR1, &a, NULL));
		/* Above whatever the thread is in. */
		for (int i = 0; i < count; i++) {
			int before = children;
			pthread_kill(threads[i % 4], SIGUSR1);
			while (children == before)
				usleep(200);
			while (good + (total >= 1000000) < children)
				usleep(200);
			if (total)
				break;
		}
	} else {
		forker((void *)(intptr_t)count);
	}
	stop = 1;
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	say("%d of %d children did all, %d", good, count, total);
	return done();
}
