/* Receives on PORT until a second passes without a datagram; prints "ready", then each datagram's
 * length and first eight characters. */
#include "common.h"

int main(void)
{
	static char data[70000];
	struct timeval quiet = {1, 0};
	begin(30);
	int fd = udp_bound("0.0.0.0", PORT), size = 4 << 20;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &quiet, sizeof quiet));
	say("ready");
	for (bool first = true;;) {
		long n = recv(fd, data, sizeof data, 0);
		if (n == -1 && first && errno == EAGAIN)
			continue;
		if (n == -1)
			break;
		first = false;
		say("%ld %.*s", n, n < 8 ? (int)n : 8, data);
	}
	report();
	return done();
}
