/* Cancelled, at once or at the next point, in a wait of each kind and in the midst of
 * receives that never wait: cleanup handlers run and nothing stays locked. */
#include "common.h"

static int fd, ep, unbound, kernels;
static volatile int cleaned;
static int asynchronous;

static void cleanup(void *unused)
{
	char data[32];
	(void)unused;
	cleaned++;
	/* It may use the socket itself. */
	recv(fd, data, sizeof data, MSG_DONTWAIT);
}

static void *waits(void *kind)
{
	char data[64];
	struct iovec v = {data, sizeof data};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	int call = (int)(intptr_t)kind;
	if (asynchronous)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	pthread_cleanup_push(cleanup, NULL);
	switch (call) {
	case 5:
		recv(unbound, data, sizeof data, 0);
		break;
	case 6:
		recv(kernels, data, sizeof data, 0);
		break;
	case 7:
		recvmsg(kernels, &m, 0);
		break;
	case 8:
		for (;;)
			if (recv(fd, data, sizeof data, MSG_DONTWAIT) == -1)
				pthread_testcancel();
	default:
		block_in(call, fd, ep);
	}
	pthread_cleanup_pop(0);
	return NULL;
}

int main(void)
{
	static const char *names[] = {"recv",	 "recvmsg",	    "poll",   "select",
				      "epoll_wait", "recv without a port", "recv of the kernel's", "recvmsg of the kernel's", "a loop"};
	begin(60);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	unbound = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	kernels = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
	MUST(enable(kernels, IPPROTO_IPV6, IPV6_V6ONLY));
	struct sockaddr_in6 any = addr6("::", PORT + 1);
	MUST(bind(kernels, SA(any)));
	ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event e = {.events = EPOLLIN};
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	for (asynchronous = 0; asynchronous < 2; asynchronous++)
		for (int call = 0; call < 9; call++) {
			pthread_t t;
			void *result;
			int before = cleaned;
			pthread_create(&t, NULL, waits, (void *)(intptr_t)call);
			sleep_ms(30);
			if (call == 8)
				peer_burst(NEAR, PORT, 200, 40, 0);
			say("%s, asynchronous %d: cancel %d", names[call], asynchronous,
			    pthread_cancel(t));
			pthread_join(t, &result);
			say("  cancelled %d, cleaned up %d", result == PTHREAD_CANCELED,
			    cleaned - before);
			char data[64];
			while (recv(fd, data, sizeof data, MSG_DONTWAIT) >= 0 || call == 8) {
				if (errno == EAGAIN)
					break;
			}
			peer_send(NEAR, PORT, "after");
			say_recv("fd", fd, 0);
		}
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, "out", 3, 0, SA(to)));
	peer_recv(1000);
	report();
	MUST(close(fd));
	int again = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "again");
	say_recv("again", again, 0);
	return done();
}
