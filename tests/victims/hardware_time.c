/* SO_TIMESTAMPING with hardware stamps: which of the three times are there, and recent. */
#include "common.h"

static const char *state(const struct timespec *t, const struct timespec *now)
{
	if (!t->tv_sec && !t->tv_nsec)
		return "none";
	return now->tv_sec - t->tv_sec <= 2 && now->tv_sec >= t->tv_sec ? "recent" : "wrong";
}

static void receive(int fd)
{
	char data[64], control[256];
	struct iovec io = {data, sizeof data};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
			   .msg_controllen = sizeof control};
	struct timespec now;
	MUST(recvmsg(fd, &m, 0));
	clock_gettime(CLOCK_REALTIME, &now);
	say_flags(m.msg_flags);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	if (!c)
		return say("no stamps");
	struct timespec *t = (void *)CMSG_DATA(c);
	say("type %d length %zu: %s, %s, %s", c->cmsg_type, (size_t)c->cmsg_len, state(t, &now),
	    state(t + 1, &now), state(t + 2, &now));
}

int main(void)
{
	/* SOF_TIMESTAMPING_RX_HARDWARE | RAW_HARDWARE, then RX_SOFTWARE | SOFTWARE, too. */
	int hardware = 1 << 2 | 1 << 6, both = hardware | 1 << 3 | 1 << 4, none = 0;
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	for (int i = 0; i < 3; i++) {
		int flags = i == 0 ? hardware : i == 1 ? both : none;
		MUST(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags));
		peer_send(NEAR, PORT, "stamped");
		receive(fd);
	}
	report();
	return done();
}
