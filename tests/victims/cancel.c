/* Blocked in recv, then in poll, a thread is cancelled: both are cancellation points. */
#include "common.h"

static int fd;

static const char *cleaned = "nothing";

static void cleanup(void *what)
{
	cleaned = what;
}

static void *receiver(void *unused)
{
	char data[16];
	(void)unused;
	pthread_cleanup_push(cleanup, "recv");
	recv(fd, data, sizeof data, 0);
	pthread_cleanup_pop(0);
	return NULL;
}

static void *poller(void *unused)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	(void)unused;
	pthread_cleanup_push(cleanup, "poll");
	poll(&p, 1, -1);
	pthread_cleanup_pop(0);
	return NULL;
}

int main(void)
{
	begin(10);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "warm");
	say_recv("fd", fd, 0);
	for (int i = 0; i < 2; i++) {
		pthread_t t;
		void *result;
		pthread_create(&t, NULL, i ? poller : receiver, NULL);
		sleep_ms(60);
		say("cancel %d", pthread_cancel(t));
		pthread_join(t, &result);
		say("  cancelled %d, cleaned up %s", result == PTHREAD_CANCELED, cleaned);
		/* Nothing stays locked. */
		peer_send(NEAR, PORT, "after");
		say_recv("fd", fd, 0);
	}
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, "out", 3, 0, SA(to)));
	peer_recv(1000);
	report();
	return done();
}
