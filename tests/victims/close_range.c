/* close_range and closefrom: the program's sockets are gone, and life goes on. */
#include "common.h"

static void work(int port)
{
	int fd = CALL(udp_bound("0.0.0.0", port));
	peer_send(NEAR, port, "data");
	say_recv("fd", fd, 0);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, "out", 3, 0, SA(to)));
	peer_recv(1000);
}

int main(void)
{
	begin(15);
	peer_start();
	work(PORT);
	report();
	CALL(close_range(3, 100, CLOSE_RANGE_CLOEXEC));
	CALL(fcntl(3, F_GETFD));
	CALL(close_range(3, 100, 0));
	CALL(fcntl(3, F_GETFD));
	/* The port is free again. */
	work(PORT);
	report();
	CALL(close_range(3, ~0U, 0));
	peer_fd = -1;
	work(PORT);
	work(PORT + 1);
	closefrom(3);
	peer_fd = -1;
	work(PORT);
	CALL(close_range(5, 4, 0));
	CALL(close_range(3, 10, 99));
	CALL(close_range(3, ~0U, CLOSE_RANGE_UNSHARE));
	peer_fd = -1;
	work(PORT);
	/* By hand, as daemons do. */
	for (int i = 3; i < 1024; i++)
		close(i);
	peer_fd = -1;
	work(PORT);
	return done();
}
