/* interrupted CALL [restart] [timeout] [ignored]: a signal in a call that waits. */
#include "common.h"

static volatile sig_atomic_t came;
static int64_t start;
static pthread_t waiter;

static void handler(int number)
{
	(void)number;
	came++;
}

static void *signaller(void *ms)
{
	sleep_ms((int)(long)ms);
	pthread_kill(waiter, SIGUSR1);
	return NULL;
}

int main(int argc, char **argv)
{
	bool restart = false, timeout = false, ignored = false;
	const char *call = argv[1];
	char data[64];
	begin(10);
	for (int i = 2; i < argc; i++) {
		restart |= !strcmp(argv[i], "restart");
		timeout |= !strcmp(argv[i], "timeout");
		ignored |= !strcmp(argv[i], "ignored");
	}
	struct sigaction s = {.sa_handler = ignored ? SIG_IGN : handler, .sa_flags = restart ? SA_RESTART : 0};
	MUST(sigaction(SIGUSR1, &s, NULL));
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), ep = MUST(epoll_create1(0));
	struct epoll_event e = {.events = EPOLLIN}, got;
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	struct timeval t = {.tv_usec = 400000};
	if (timeout)
		MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
	for (int round = 0; round < 2; round++) {
		struct iovec io = {data, sizeof data};
		struct mmsghdr m = {.msg_hdr = {.msg_iov = &io, .msg_iovlen = 1}};
		struct pollfd p = {.fd = fd, .events = POLLIN};
		struct timespec ts = {0, 300000000};
		struct timeval tv = {0, 300000};
		pthread_t other;
		fd_set r;
		FD_ZERO(&r);
		FD_SET(fd, &r);
		waiter = pthread_self();
		pthread_create(&other, NULL, signaller, (void *)50L);
		peer_send_later(150, NEAR, PORT, "after");
		start = now_us();
		if (!strcmp(call, "recv"))
			CALL(recv(fd, data, sizeof data, 0));
		else if (!strcmp(call, "read"))
			CALL(read(fd, data, sizeof data));
		else if (!strcmp(call, "readv"))
			CALL(readv(fd, &io, 1));
		else if (!strcmp(call, "peek"))
			CALL(recv(fd, data, sizeof data, MSG_PEEK));
		else if (!strcmp(call, "recvmsg"))
			CALL(recvmsg(fd, &m.msg_hdr, 0));
		else if (!strcmp(call, "recvmmsg"))
			CALL(recvmmsg(fd, &m, 1, 0, NULL));
		else if (!strcmp(call, "poll"))
			CALL(poll(&p, 1, 300));
		else if (!strcmp(call, "poll_ever"))
			CALL(poll(&p, 1, -1));
		else if (!strcmp(call, "ppoll"))
			CALL(ppoll(&p, 1, &ts, NULL));
		else if (!strcmp(call, "select"))
			CALL(select(fd + 1, &r, NULL, NULL, &tv));
		else if (!strcmp(call, "pselect"))
			CALL(pselect(fd + 1, &r, NULL, NULL, &ts, NULL));
		else if (!strcmp(call, "epoll_wait"))
			CALL(epoll_wait(ep, &got, 1, 300));
		else if (!strcmp(call, "epoll_ever"))
			CALL(epoll_wait(ep, &got, 1, -1));
		else
			die(call);
		int64_t took = now_us() - start;
		say("  %s, %d handled", took < 100000 ? "at the signal" : took < 280000 ? "at the datagram" : "later", (int)came);
		pthread_join(other, NULL);
		sleep_ms(130);
		while (say_recv("rest", fd, MSG_DONTWAIT) >= 0)
			;
	}
	report();
	return done();
}
