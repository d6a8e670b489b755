/* Joins GROUP and prints the number of each datagram, for ever: a process among several. */
#include "common.h"

int main(void)
{
	char data[64];
	begin(60);
	int fd = udp_shared("0.0.0.0", PORT), size = 4 << 20;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	MUST(join(fd, GROUP));
	say("ready");
	for (;;) {
		long n = MUST(recv(fd, data, sizeof data - 1, 0));
		data[n] = 0;
		if (!strcmp(data, "end"))
			return done();
		say("%d", atoi(data));
	}
}
