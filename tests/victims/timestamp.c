/* SO_TIMESTAMP and SO_TIMESTAMPNS: the control message's shape and a time that is now. */
#include "common.h"

static void receive(int fd)
{
	char data[64], control[128];
	struct iovec io = {data, sizeof data};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
			   .msg_controllen = sizeof control};
	struct timespec now;
	CALL(recvmsg(fd, &m, 0));
	clock_gettime(CLOCK_REALTIME, &now);
	say_flags(m.msg_flags);
	say("  control %zu", (size_t)m.msg_controllen);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		struct timespec *t = (void *)CMSG_DATA(c);
		long parts = c->cmsg_type == SO_TIMESTAMPNS ? 1000000000 : 1000000;
		say("  level %d type %d length %zu: fraction %s, recent %s", c->cmsg_level, c->cmsg_type,
		    (size_t)c->cmsg_len, t->tv_nsec >= 0 && t->tv_nsec < parts ? "right" : "wrong",
		    now.tv_sec - t->tv_sec <= 2 && now.tv_sec >= t->tv_sec ? "yes" : "no");
	}
}

int main(void)
{
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), off = 0;
	peer_send(NEAR, PORT, "none");
	receive(fd);
	CALL(enable(fd, SOL_SOCKET, SO_TIMESTAMP));
	peer_send(NEAR, PORT, "micro");
	receive(fd);
	CALL(enable(fd, SOL_SOCKET, SO_TIMESTAMPNS));
	peer_send(NEAR, PORT, "nano");
	receive(fd);
	CALL(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &off, sizeof off));
	peer_send(NEAR, PORT, "none");
	receive(fd);
	report();
	return done();
}
