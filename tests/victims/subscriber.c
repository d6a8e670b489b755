/* Joins GROUP and prints the number of each datagram, for ever: a process among several.
 * With an argument it does not read before SIGUSR1. */
#include "common.h"

static volatile sig_atomic_t go;

static void release(int signal UNUSED)
{
	go = 1;
}

int main(int argc, char **argv UNUSED)
{
	char data[64];
	signal(SIGUSR1, release);
	begin(60);
	int fd = udp_shared("0.0.0.0", PORT), size = 4 << 20;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
	MUST(join(fd, GROUP));
	say("ready");
	while (argc > 1 && !go)
		usleep(1000);
	for (;;) {
		long n = MUST(recv(fd, data, sizeof data - 1, 0));
		data[n] = 0;
		if (!strcmp(data, "end"))
			return done();
		say("%d", atoi(data));
	}
}
