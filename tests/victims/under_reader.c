/* under_reader ACTION CALL: what another thread does to the socket under a call that waits. */
#include "common.h"

static int fd, ep;
static const char *call;
static volatile bool over, told;

/* Said when the action is, so that the order of the lines is one. */
#define WAIT(expression)                               \
	({                                             \
		errno = 0;                             \
		long result_ = (long)(expression);     \
		int error_ = errno;                    \
		over = true;                           \
		while (!told)                          \
			sleep_ms(1);                   \
		errno = error_;                        \
		say_call(#expression, result_);        \
	})

static void *wait_in(void *unused)
{
	char data[64];
	struct iovec io = {data, sizeof data};
	struct mmsghdr m = {.msg_hdr = {.msg_iov = &io, .msg_iovlen = 1}};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event e[2];
	struct timeval tv = {1, 0};
	fd_set r;
	FD_ZERO(&r);
	FD_SET(fd, &r);
	if (!strcmp(call, "recv"))
		WAIT(recv(fd, data, sizeof data, 0));
	else if (!strcmp(call, "read"))
		WAIT(read(fd, data, sizeof data));
	else if (!strcmp(call, "recvmmsg"))
		WAIT(recvmmsg(fd, &m, 1, 0, NULL));
	else if (!strcmp(call, "poll")) {
		WAIT(poll(&p, 1, 1000));
		say("  %s", event_names((unsigned short)p.revents));
	} else if (!strcmp(call, "select")) {
		WAIT(select(fd + 1, &r, NULL, NULL, &tv));
		say("  %d", FD_ISSET(fd, &r) != 0);
	} else {
		long n = WAIT(epoll_wait(ep, e, 2, 1000));
		for (long i = 0; i < n; i++)
			say("  %s", event_names(e[i].events));
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t waiter;
	begin(15);
	if (argc < 3)
		die("arguments");
	const char *action = argv[1];
	call = argv[2];
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	int other = udp_bound("0.0.0.0", PORT + 1);
	struct sockaddr_in far = addr4(FAR, PEER_PORT), elsewhere = addr4(FAR, 9);
	if (strstr(action, "connected"))
		MUST(connect(fd, SA(far)));
	ep = MUST(epoll_create1(0));
	struct epoll_event e = {.events = EPOLLIN};
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	peer_send(NEAR, PORT, "warm");
	say_recv("warm", fd, 0);
	report();
	pthread_create(&waiter, NULL, wait_in, NULL);
	sleep_ms(80);
	if (strstr(action, "close"))
		CALL(close(fd));
	else if (strstr(action, "dup2"))
		CALL(dup2(other, fd));
	else if (strstr(action, "shutdown_rdwr"))
		CALL(shutdown(fd, SHUT_RDWR));
	else if (strstr(action, "shutdown_rd"))
		CALL(shutdown(fd, SHUT_RD));
	else if (strstr(action, "shutdown_wr"))
		CALL(shutdown(fd, SHUT_WR));
	else if (strstr(action, "nonblock"))
		set_nonblock(fd, true);
	else if (strstr(action, "unconnect")) {
		struct sockaddr_in none = {.sin_family = AF_UNSPEC};
		CALL(connect(fd, SA(none)));
	} else if (strstr(action, "reconnect"))
		CALL(connect(fd, SA(elsewhere)));
	else if (strstr(action, "timeout")) {
		struct timeval t = {.tv_usec = 1000};
		CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
	} else if (strstr(action, "filter"))
		CALL(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMP, &(int){1}, sizeof(int)));
	else if (strstr(action, "send"))
		CALL(sendto(fd, "out", 3, 0, SA(far)));
	else if (strstr(action, "dup"))
		CALL(dup(fd));
	else
		die(action);
	sleep_ms(120);
	say(over ? "woken" : "still waiting");
	peer_send(NEAR, PORT, "first");
	sleep_ms(60);
	say(over ? "over" : "still waiting");
	if (!over && (strstr(action, "unconnect") || strstr(action, "reconnect"))) {
		MUST(connect(fd, SA(far)));
		peer_send(NEAR, PORT, "second");
	}
	told = true;
	pthread_join(waiter, NULL);
	if (!strstr(action, "close"))
		say_recv("after", fd, MSG_DONTWAIT);
	report();
	return done();
}
