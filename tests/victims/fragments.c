/* Datagrams larger than the wire carries in one piece: whole, once, in order with small ones. */
#include "common.h"

static char data[70000];

static void receive(int fd)
{
	memset(data, 0, sizeof data);
	long n = CALL(recv(fd, data, sizeof data, 0));
	long wrong = 0;
	for (long i = 0; i < n; i++)
		wrong += data[i] != (char)('a' + i % 23);
	say("  wrong bytes %ld", wrong);
}

int main(void)
{
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), size = 1 << 20;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	static const size_t sizes[] = {4000, 100, 1472, 1473, 9000, 65507, 1};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		peer_send_bytes(NEAR, PORT, sizes[i]);
		receive(fd);
	}
	CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
	CALL(join(fd, GROUP));
	peer_send_bytes(GROUP, PORT, 4000);
	receive(fd);
	CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
	/* And out. */
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (char)('a' + i % 23);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		CALL(sendto(fd, data, sizes[i], 0, SA(to)));
		peer_recv(1000);
	}
	report();
	return done();
}
