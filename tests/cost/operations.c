/* Repeats one operation argv[2] times; only what runs inside counted() is counted
 * (callgrind's --toggle-collect). The datagrams come from a device that reflects: what is
 * sent to the far host comes back from it. */
#include "common.h"

#define LENGTH 64

static int fd, pair[2], ep;
static struct sockaddr_in far_end;
static char data[LENGTH];

static __attribute__((noinline)) long counted(int operation)
{
	struct sockaddr_in from;
	socklen_t length = sizeof from;
	struct epoll_event e;
	switch (operation) {
	case 'r': return recvfrom(fd, data, LENGTH, 0, (struct sockaddr *)&from, &length);
	case 'm': return recvfrom(fd, data, LENGTH, MSG_DONTWAIT, (struct sockaddr *)&from, &length);
	case 's': return sendto(fd, data, LENGTH, 0, (struct sockaddr *)&far_end, sizeof far_end);
	case 'e': return epoll_wait(ep, &e, 1, 0);
	default: return read(pair[0], data, LENGTH);
	}
}

static void expect(const char *what, long got, long wanted)
{
	if (got != wanted) {
		fprintf(stderr, "%s: %ld instead of %ld: %s\n", what, got, wanted, strerror(errno));
		exit(1);
	}
}

static void plain_send(void)
{
	expect("send", sendto(fd, data, LENGTH, 0, SA(far_end)), LENGTH);
}

static void plain_recv(void)
{
	expect("receive", recv(fd, data, LENGTH, 0), LENGTH);
}

static void once(int operation)
{
	switch (operation) {
	case 'r':
		plain_send();
		expect("recvfrom hit", counted('r'), LENGTH);
		break;
	case 'm':
		expect("recvfrom miss", counted('m'), -1);
		break;
	case 's':
		expect("sendto", counted('s'), LENGTH);
		plain_recv();
		break;
	case 'e':
		plain_send();
		expect("epoll_wait hit", counted('e'), 1);
		plain_recv();
		break;
	default:
		expect("write", write(pair[1], data, LENGTH), LENGTH);
		expect("read", counted('p'), LENGTH);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	int operation = argv[1][0], count = atoi(argv[2]);
	alarm(120);
	MUST(pipe(pair));
	if (operation != 'p') {
		fd = udp_bound("0.0.0.0", PORT);
		ep = MUST(epoll_create1(0));
		far_end = addr4(FAR, PEER_PORT);
		struct epoll_event e = {.events = EPOLLIN};
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
		/* Nothing reflects natively: this proves which device is at work. */
		struct timeval second = {1, 0};
		MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second));
		plain_send();
		plain_recv();
	}
	for (int i = 0; i < count; i++)
		once(operation);
	return 0;
}
