/* steady ROLE CALL: two hosts exchange a datagram over and over for three seconds; the calls
 * are of the family CALL. Prints how often, and how often the thread asked for memory once
 * it was under way. */
#include "common.h"

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static __thread bool counting;
static unsigned long asked;

void *malloc(size_t size)
{
	asked += counting;
	return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	asked += counting;
	return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size)
{
	asked += counting;
	return __libc_realloc(old, size);
}

static const char *how;
static int fd, set;

static long take(char *data, size_t size, int flags)
{
	struct sockaddr_in from;
	struct iovec io = {data, size};
	struct mmsghdr m = {.msg_hdr = {.msg_name = &from, .msg_namelen = sizeof from,
					.msg_iov = &io, .msg_iovlen = 1}};
	socklen_t length = sizeof from;
	if (!strcmp(how, "read"))
		return read(fd, data, size);
	if (!strcmp(how, "recvmsg"))
		return recvmsg(fd, &m.msg_hdr, flags);
	if (!strcmp(how, "recvmmsg"))
		return recvmmsg(fd, &m, 1, flags, NULL) == 1 ? (long)m.msg_len : -1;
	return recvfrom(fd, data, size, flags, (struct sockaddr *)&from, &length);
}

/* Waits as the family does; a readiness call may come back for nothing. */
static long receive(char *data, size_t size)
{
	for (;;) {
		int flags = MSG_DONTWAIT;
		if (!strcmp(how, "poll")) {
			struct pollfd one = {.fd = fd, .events = POLLIN};
			MUST(poll(&one, 1, -1));
		} else if (!strcmp(how, "select")) {
			fd_set ready;
			FD_ZERO(&ready);
			FD_SET(fd, &ready);
			MUST(select(fd + 1, &ready, NULL, NULL, NULL));
		} else if (!strcmp(how, "epoll_wait")) {
			struct epoll_event events[8];
			MUST(epoll_wait(set, events, 8, -1));
		} else if (!strcmp(how, "epoll_turns")) {
			struct epoll_event events[8];
			while (MUST(epoll_wait(set, events, 8, 0)) == 0)
				;
		} else if (strcmp(how, "nonblock")) {
			flags = 0;
		}
		long n = take(data, size, flags);
		if (n >= 0 || errno != EAGAIN)
			return n;
	}
}

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	char data[64] = {0};
	begin(30);
	if (argc < 3)
		die("arguments");
	bool client = !strcmp(argv[1], "client");
	how = argv[2];
	fd = udp_bound("0.0.0.0", client ? PEER_PORT : PORT);
	struct sockaddr_in to = client ? addr4(NEAR, PORT) : addr4(FAR, PEER_PORT);
	set = (int)MUST(epoll_create1(0));
	struct epoll_event wanted = {.events = EPOLLIN};
	/* Whoever might wait in the kernel for a set would have to be woken. */
	if (!strncmp(how, "epoll", 5))
		MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &wanted));
	say("ready");
	double start = now(), from = 0;
	unsigned long turns = 0, settled = 0;
	for (;; turns++) {
		if (client) {
			data[0] = now() - start > 3.0 ? 'e' : 'x';
			MUST(sendto(fd, data, sizeof data, 0, SA(to)));
		}
		MUST(receive(data, sizeof data));
		if (!client)
			MUST(sendto(fd, data, sizeof data, 0, SA(to)));
		if (data[0] == 'e')
			break;
		if (turns == 100) {
			from = now();
			settled = turns;
			counting = true;
		}
	}
	counting = false;
	say("turns %lu", turns - settled);
	say("allocations %lu", from > 0 ? asked : 99999);
	return done();
}
