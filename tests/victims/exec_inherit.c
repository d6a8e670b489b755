/* exec with an inherited socket: the next program receives on it, with the library and without. */
#include "common.h"

static int next_program(int fd)
{
	/* The peer's connection was closed by exec. */
	say_recv("next", fd, 0);
	peer_send(NEAR, PORT, "unicast");
	say_recv("next", fd, 0);
	peer_send(GROUP, PORT, "group");
	say_recv("next", fd, 0);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, "out", 3, 0, SA(to)));
	peer_recv(1000);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	peer_send_later(40, NEAR, PORT, "polled");
	CALL(poll(&p, 1, 3000));
	return done();
}

int main(int argc, char **argv)
{
	begin(15);
	if (argc == 3)
		return next_program(atoi(argv[2]));
	peer_start();
	int fd = udp_shared("0.0.0.0", PORT);
	MUST(join(fd, GROUP));
	peer_send(GROUP, PORT, "before");
	say_recv("first", fd, 0);
	report();
	int other = udp_bound("0.0.0.0", PORT + 1);
	MUST(fcntl(fd, F_SETFD, 0));
	/* The next program finds what was queued. */
	peer_send(NEAR, PORT, "queued before exec");
	sleep_ms(20);
	if (argc == 2 && !strcmp(argv[1], "bare"))
		unsetenv("LD_PRELOAD");
	char number[16];
	snprintf(number, sizeof number, "%d", fd);
	say("close-on-exec of the other: %d", fcntl(other, F_GETFD));
	fflush(stdout);
	execl("/proc/self/exe", "exec_inherit", "next", number, NULL);
	die("exec");
}
