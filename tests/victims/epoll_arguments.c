/* Wrong and odd arguments of the epoll calls. */
#include "common.h"

int main(void)
{
	void *volatile nowhere = NULL;
	int p[2];
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	volatile int zero = 0, negative = -1;
	CALL(epoll_create(zero));
	CALL(epoll_create(negative));
	CALL(epoll_create1(12345));
	int ep = CALL(epoll_create(1)), other = MUST(epoll_create1(EPOLL_CLOEXEC));
	CALL(fcntl(ep, F_GETFD));
	CALL(fcntl(other, F_GETFD));
	struct epoll_event e = {.events = EPOLLIN}, out[4];
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, ep, &e));
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, 600, &e));
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, 600, &e));
	CALL(epoll_ctl(fd, EPOLL_CTL_ADD, fd, &e));
	CALL(epoll_ctl(-1, EPOLL_CTL_ADD, fd, &e));
	CALL(epoll_ctl(ep, 77, fd, &e));
	CALL(epoll_ctl(other, EPOLL_CTL_MOD, fd, &e));
	CALL(epoll_ctl(other, EPOLL_CTL_DEL, fd, &e));
	CALL(epoll_ctl(other, EPOLL_CTL_ADD, fd, nowhere));
	int file = MUST(open("/dev/null", O_RDONLY)), disk = MUST(open("/proc/self/exe", O_RDONLY));
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, file, &e));
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, disk, &e));
	CALL(epoll_wait(ep, out, 0, 0));
	CALL(epoll_wait(ep, out, negative, 0));
	CALL(epoll_wait(fd, out, 4, 0));
	CALL(epoll_wait(-1, out, 4, 0));
	CALL(epoll_wait(600, out, 4, 0));
	peer_send(NEAR, PORT, "due");
	CALL(epoll_wait(ep, nowhere, 4, 1000));
	CALL(epoll_wait(ep, out, 4, 1000));
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, fd, nowhere));
	/* Exclusive: what is not allowed. */
	e.events = EPOLLIN | EPOLLEXCLUSIVE;
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	e.events = EPOLLIN;
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	CALL(epoll_wait(ep, out, 4, 1000));
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, fd, &e));
	e.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	e.events = EPOLLIN | EPOLLEXCLUSIVE;
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, other, &e));
	/* Never more than maxevents; all of them in turn. */
	MUST(pipe(p));
	MUST(write(p[1], "x", 1));
	int second = udp_bound("0.0.0.0", PORT + 1);
	peer_send(NEAR, PORT + 1, "due");
	e.events = EPOLLIN;
	for (int i = 0; i < 3; i++) {
		e.data.u32 = 1U << i;
		MUST(epoll_ctl(ep, EPOLL_CTL_ADD, i == 0 ? fd : i == 1 ? second : p[0], &e));
	}
	unsigned seen = 0;
	for (int i = 0; i < 3; i++) {
		CALL(epoll_wait(ep, out, 1, 1000));
		seen |= out[0].data.u32;
	}
	say("seen %u", seen);
	report();
	CALL(close(ep));
	CALL(epoll_wait(ep, out, 4, 0));
	return done();
}
