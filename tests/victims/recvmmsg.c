/* recvmmsg: how many, how long, and MSG_WAITFORONE. */
#include "common.h"

static char data[8][32];
static struct sockaddr_in from[8];
static struct iovec io[8];
static struct mmsghdr m[8];

static void fresh(void)
{
	memset(m, 0, sizeof m);
	for (int i = 0; i < 8; i++) {
		io[i] = (struct iovec){data[i], sizeof data[i]};
		m[i].msg_hdr = (struct msghdr){.msg_iov = &io[i], .msg_iovlen = 1,
					       .msg_name = &from[i], .msg_namelen = sizeof from[i]};
	}
}

static void show(long n)
{
	for (long i = 0; i < n; i++) {
		say("  [%ld] %u bytes", i, m[i].msg_len);
		say_bytes("data", data[i], m[i].msg_len);
		say_addr("from", &from[i], m[i].msg_hdr.msg_namelen);
	}
}

int main(void)
{
	struct timespec none = {0, 0}, bad = {0, -1}, wait = {0, 50000000};
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	peer_burst(NEAR, PORT, 5, 8, 0);
	fresh();
	show(CALL(recvmmsg(fd, m, 2, 0, NULL)));
	fresh();
	show(CALL(recvmmsg(fd, m, 8, MSG_DONTWAIT, NULL)));
	fresh();
	show(CALL(recvmmsg(fd, m, 8, MSG_DONTWAIT, NULL)));
	peer_burst(NEAR, PORT, 2, 8, 0);
	show(CALL(recvmmsg(fd, m, 8, MSG_WAITFORONE, NULL)));
	/* The time-out is looked at after each datagram. */
	peer_burst(NEAR, PORT, 3, 8, 0);
	fresh();
	show(CALL(recvmmsg(fd, m, 8, 0, &none)));
	fresh();
	show(CALL(recvmmsg(fd, m, 8, MSG_DONTWAIT, NULL)));
	peer_send_later(150, NEAR, PORT, "after the time-out");
	int64_t start = now_us();
	fresh();
	show(CALL(recvmmsg(fd, m, 2, 0, &wait)));
	say_took(start, 140, 2000);
	CALL(recvmmsg(fd, m, 2, 0, &bad));
	CALL(recvmmsg(fd, m, 0, 0, NULL));
	CALL(recvmmsg(fd, m, 0, MSG_DONTWAIT, NULL));
	/* An error after the first message is the next call's. */
	char byte;
	peer_burst(NEAR, PORT, 3, 8, 0);
	sleep_ms(50);
	fresh();
	m[1].msg_hdr.msg_iov->iov_base = (void *)16;
	show(CALL(recvmmsg(fd, m, 3, MSG_DONTWAIT, NULL)));
	CALL(recv(fd, &byte, 1, MSG_DONTWAIT));
	CALL(recv(fd, &byte, 1, MSG_DONTWAIT));
	CALL(recv(fd, &byte, 1, MSG_DONTWAIT));
	report();
	return done();
}
