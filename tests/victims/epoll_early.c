/* Added to the set before it is bound, joined or connected. */
#include "common.h"

static void wait_once(int ep, int ms)
{
	struct epoll_event e[4] = {0};
	long n = CALL(epoll_wait(ep, e, 4, ms));
	for (long i = 0; i < n; i++)
		say("  %s", event_names(e[i].events));
}

int main(void)
{
	char data[16];
	begin(10);
	peer_start();
	int fd = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
	int ep = MUST(epoll_create1(0));
	struct epoll_event e = {.events = EPOLLIN};
	/* An idle socket has nothing to say, and can be written. */
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	wait_once(ep, 20);
	e.events = EPOLLIN | EPOLLRDHUP | EPOLLOUT;
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	wait_once(ep, 20);
	e.events = EPOLLIN;
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	struct sockaddr_in a = addr4("0.0.0.0", PORT), to = addr4(FAR, PEER_PORT);
	struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	CALL(bind(fd, SA(a)));
	peer_send(NEAR, PORT, "bound");
	wait_once(ep, 1000);
	CALL(recv(fd, data, sizeof data, 0));
	CALL(join(fd, GROUP));
	peer_send(GROUP, PORT, "group");
	wait_once(ep, 1000);
	CALL(recv(fd, data, sizeof data, 0));
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	CALL(connect(fd, SA(to)));
	peer_send(NEAR, PORT, "connected");
	wait_once(ep, 1000);
	CALL(recv(fd, data, sizeof data, 0));
	report();
	/* Connected to loopback and back. */
	struct sockaddr_in lo = addr4("127.0.0.1", 7998);
	CALL(connect(fd, SA(lo)));
	CALL(connect(fd, &nobody, sizeof nobody));
	CALL(fcntl(fd, F_GETFL) & O_NONBLOCK);
	CALL(recv(fd, data, sizeof data, 0));
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, fd, &e));
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, fd, &e));
	return done();
}
