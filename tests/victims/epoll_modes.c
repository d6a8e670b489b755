/* epoll_modes EVENT...: one entry through its life. */
#include "common.h"

static int ep, fd;

static void look(const char *when)
{
	struct epoll_event e[4];
	memset(e, 0xee, sizeof e);
	errno = 0;
	int n = epoll_wait(ep, e, 4, 15);
	say("%s: %d%s", when, n, errno ? " errno" : "");
	for (int i = 0; i < n; i++)
		say("  %s data %#llx", event_names(e[i].events), (unsigned long long)e[i].data.u64);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; unsigned bit; } names[] = {
		{"in", EPOLLIN}, {"out", EPOLLOUT}, {"pri", EPOLLPRI}, {"rdhup", EPOLLRDHUP},
		{"rdnorm", EPOLLRDNORM}, {"wrnorm", EPOLLWRNORM}, {"rdband", EPOLLRDBAND}, {"err", EPOLLERR},
		{"hup", EPOLLHUP}, {"et", EPOLLET}, {"oneshot", EPOLLONESHOT}, {"exclusive", EPOLLEXCLUSIVE},
		{"wakeup", EPOLLWAKEUP}, {"msg", EPOLLMSG}, {"none", 0},
	};
	unsigned events = 0;
	begin(10);
	for (int i = 1; i < argc; i++)
		for (size_t k = 0; k < sizeof names / sizeof *names; k++)
			if (!strcmp(argv[i], names[k].name))
				events |= names[k].bit;
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	ep = MUST(epoll_create1(0));
	struct epoll_event e = {.events = events, .data.u64 = 0x123456789abcdef0};
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	look("idle");
	look("idle again");
	peer_send(NEAR, PORT, "one");
	look("one");
	look("one again");
	peer_send(NEAR, PORT, "two");
	look("two");
	look("two again");
	say_recv("first", fd, MSG_DONTWAIT);
	look("one left");
	e.data.u64 = 7;
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	look("modified");
	look("modified again");
	say_recv("second", fd, MSG_DONTWAIT);
	look("drained");
	peer_send(NEAR, PORT, "three");
	say_recv("third", fd, MSG_DONTWAIT);
	look("came and went");
	peer_send(NEAR, PORT, "");
	look("empty datagram");
	say_recv("fourth", fd, MSG_DONTWAIT);
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	look("modified, empty");
	peer_send(NEAR, PORT, "five");
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, fd, &e));
	look("removed");
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, fd, &e));
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	look("added while readable");
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	look("again");
	say_recv("fifth", fd, MSG_DONTWAIT);
	say_recv("nothing", fd, MSG_DONTWAIT);
	e.events = EPOLLIN;
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	peer_send(NEAR, PORT, "six");
	look("plain");
	say_recv("sixth", fd, MSG_DONTWAIT);
	CALL(close(fd));
	look("closed");
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	fd = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "seven");
	look("another socket");
	say_recv("seventh", fd, MSG_DONTWAIT);
	report();
	return done();
}
