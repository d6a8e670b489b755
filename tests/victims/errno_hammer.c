/* Two threads hammer one non-blocking socket: the only error is EAGAIN. */
#include "common.h"

static int fd, received, others, stop;

static void *hammer(void *unused)
{
	char data[128];
	(void)unused;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		errno = 0;
		long n = recv(fd, data, sizeof data, 0);
		if (n >= 0 && errno == 0)
			__atomic_add_fetch(&received, 1, __ATOMIC_RELAXED);
		else if (n >= 0 || errno != EAGAIN)
			__atomic_add_fetch(&others, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

int main(void)
{
	pthread_t t[2];
	begin(20);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	set_nonblock(fd, true);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, hammer, NULL);
	peer_burst(NEAR, PORT, 1000, 64, 100);
	sleep_ms(100);
	report();
	stop = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	say("received %d, other outcomes %d", received, others);
	return done();
}
