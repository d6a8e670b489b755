/* EPOLLEXCLUSIVE: two threads blocked in two sets; each datagram wakes at least one, none is lost. */
#include "common.h"

static int fd, received, sets[2];

static void *waiter(void *which)
{
	struct epoll_event e;
	char data[16];
	for (;;) {
		if (epoll_wait(sets[(intptr_t)which], &e, 1, -1) != 1)
			continue;
		long n = recv(fd, data, sizeof data, MSG_DONTWAIT);
		if (n == 3) {
			/* Passes the end on. */
			peer_send(NEAR, PORT, "end");
			return NULL;
		}
		if (n == 4)
			__atomic_add_fetch(&received, 1, __ATOMIC_RELAXED);
	}
}

int main(void)
{
	pthread_t t[2];
	begin(15);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	for (int i = 0; i < 2; i++) {
		struct epoll_event e = {.events = EPOLLIN | EPOLLEXCLUSIVE};
		sets[i] = MUST(epoll_create1(0));
		CALL(epoll_ctl(sets[i], EPOLL_CTL_ADD, fd, &e));
		pthread_create(&t[i], NULL, waiter, (void *)(intptr_t)i);
	}
	for (int i = 0; i < 50; i++) {
		peer_send(NEAR, PORT, "data");
		sleep_ms(i % 3);
	}
	sleep_ms(100);
	say("received %d", __atomic_load_n(&received, __ATOMIC_RELAXED));
	report();
	peer_send(NEAR, PORT, "end");
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	return done();
}
