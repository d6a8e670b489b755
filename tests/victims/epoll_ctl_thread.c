/* Another thread changes the set while this one is blocked in it. */
#include "common.h"

static int ep, fd, p[2];

static void *changer(void *unused)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u32 = 1};
	(void)unused;
	sleep_ms(60);
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	sleep_ms(60);
	e.data.u32 = 2;
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, p[0], &e));
	sleep_ms(60);
	e.data.u32 = 3;
	MUST(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	return NULL;
}

int main(void)
{
	pthread_t t;
	struct epoll_event e;
	begin(10);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	ep = MUST(epoll_create1(0));
	MUST(pipe(p));
	MUST(write(p[1], "x", 1));
	peer_send(NEAR, PORT, "already here");
	int64_t start = now_us();
	pthread_create(&t, NULL, changer, NULL);
	CALL(epoll_wait(ep, &e, 1, 5000));
	say("  %u", e.data.u32);
	say_took(start, 55, 1000);
	e.events = 0;
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, fd, &e));
	CALL(epoll_wait(ep, &e, 1, 5000));
	say("  %u", e.data.u32);
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, p[0], &e));
	CALL(epoll_wait(ep, &e, 1, 5000));
	say("  %u", e.data.u32);
	pthread_join(t, NULL);
	report();
	return done();
}
