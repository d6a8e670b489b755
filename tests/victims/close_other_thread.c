/* close() while another thread is blocked in recv: that thread stays, and receives. */
#include "common.h"

static int fd;

static void *reader(void *unused)
{
	char data[16];
	(void)unused;
	CALL(recv(fd, data, sizeof data, 0));
	return NULL;
}

int main(void)
{
	pthread_t t;
	char data[16];
	begin(10);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "warm");
	CALL(recv(fd, data, sizeof data, 0));
	report();
	int keep = fd;
	pthread_create(&t, NULL, reader, NULL);
	sleep_ms(100);
	CALL(close(keep));
	/* The number is free for somebody else, who is not disturbed. */
	int other = CALL(socket(AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in a = addr4("0.0.0.0", PORT + 1);
	CALL(bind(other, SA(a)));
	peer_send(NEAR, PORT + 1, "for the other");
	CALL(recv(other, data, sizeof data, 0));
	say_bytes("data", data, 4);
	peer_send(NEAR, PORT, "for the reader");
	pthread_join(t, NULL);
	CALL(recv(other, data, sizeof data, MSG_DONTWAIT));
	return done();
}
