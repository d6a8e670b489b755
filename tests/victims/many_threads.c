/* Readers and writers on one descriptor: each datagram to exactly one reader, whole. */
#include "common.h"

#define THREADS 4
#define COUNT 4000

static int fd;
static unsigned char seen[COUNT];
static int torn, twice, wrong;

static void *reader(void *unused)
{
	char data[128];
	(void)unused;
	for (;;) {
		long n = recv(fd, data, sizeof data, 0);
		if (n == 4)
			return NULL;
		if (n == -1) {
			__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
			continue;
		}
		data[8] = 0;
		int number = atoi(data);
		if (n != 100 || number < 0 || number >= COUNT || data[99] != '.')
			__atomic_add_fetch(&torn, 1, __ATOMIC_RELAXED);
		else if (__atomic_add_fetch(&seen[number], 1, __ATOMIC_RELAXED) > 1)
			__atomic_add_fetch(&twice, 1, __ATOMIC_RELAXED);
	}
}

static void *writer(void *unused)
{
	struct sockaddr_in to = addr4(FAR, PEER_PORT + 1);
	(void)unused;
	for (int i = 0; i < 200; i++)
		if (sendto(fd, "x", 1, 0, SA(to)) != 1)
			__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	return NULL;
}

int main(void)
{
	pthread_t r[THREADS], w[THREADS];
	int size = 4 << 20, received = 0;
	begin(20);
	peer_start();
	peer_open(1, FAR, PEER_PORT + 1);
	fd = udp_bound("0.0.0.0", PORT);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	for (int i = 0; i < THREADS; i++) {
		pthread_create(&r[i], NULL, reader, NULL);
		pthread_create(&w[i], NULL, writer, NULL);
	}
	peer_burst(NEAR, PORT, COUNT, 100, 1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(w[i], NULL);
	sleep_ms(200);
	report();
	for (int i = 0; i < THREADS; i++)
		peer_send(NEAR, PORT, "stop");
	for (int i = 0; i < THREADS; i++)
		pthread_join(r[i], NULL);
	for (int i = 0; i < COUNT; i++)
		received += seen[i] != 0;
	say("received %d, torn %d, twice %d, wrong %d", received, torn, twice, wrong);
	return done();
}
