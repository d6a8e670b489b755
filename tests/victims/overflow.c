/* overflow SIZE RCVBUF [ovfl]: how many datagrams of a size a receive buffer holds, full, half
 * emptied and filled again. */
#include "common.h"

static int fd;

/* Calls that look at the socket: what a card's ring holds is counted only then. */
static void fill(int count, int size)
{
	int queued;
	peer_burst(NEAR, PORT, count, size, 0);
	for (int i = 0; i < 60; i++)
		MUST(ioctl(fd, FIONREAD, &queued));
}

static int drain(int most)
{
	static char data[66000];
	static char control[64];
	int count = 0;
	for (; most; most--) {
		struct iovec io = {data, sizeof data};
		struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
		if (recvmsg(fd, &m, MSG_DONTWAIT) < 0)
			break;
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
			say("  number %.8s: dropped %u", data, *(unsigned *)CMSG_DATA(c));
		count++;
	}
	return count;
}

int main(int argc, char **argv)
{
	begin(15);
	if (argc < 3)
		die("arguments");
	int size = atoi(argv[1]), room = atoi(argv[2]), value = 0;
	socklen_t length = sizeof value;
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	if (room)
		MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room));
	if (argc > 3)
		MUST(enable(fd, SOL_SOCKET, SO_RXQ_OVFL));
	MUST(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &value, &length));
	say("buffer %d", value);
	peer_send(NEAR, PORT, "warm, so that rings are open");
	sleep_ms(2);
	say("%d", drain(-1));
	fill(600, size);
	int held = drain(-1);
	say("full %d", held);
	fill(600, size);
	say("one %d", drain(1));
	fill(5, size);
	say("rest %d", drain(-1));
	fill(600, size);
	say("half %d", drain(held / 2));
	fill(600, size);
	say("rest %d", drain(-1));
	fill(3, size);
	say("few %d", drain(-1));
	report();
	return done();
}
