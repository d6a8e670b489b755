/* Several descriptors for one socket: what is the socket's is shared, and it lives as long
 * as one of them. */
#include "common.h"

int main(void)
{
	char data[16];
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	int second = CALL(dup(fd));
	CALL(dup2(fd, 50));
	CALL(dup3(fd, 51, O_CLOEXEC));
	CALL(fcntl(fd, F_DUPFD, 52));
	CALL(fcntl(fd, F_DUPFD_CLOEXEC, 53));
	CALL(fcntl(51, F_GETFD));
	CALL(fcntl(52, F_GETFD));
	CALL(dup2(fd, fd));
	CALL(dup3(fd, fd, 0));
	CALL(dup2(fd, -1));
	peer_burst(NEAR, PORT, 5, 8, 0);
	CALL(recv(fd, data, 8, 0));
	CALL(recv(second, data, 8, 0));
	CALL(recv(50, data, 8, 0));
	CALL(read(51, data, 8));
	say_bytes("data", data, 8);
	set_nonblock(52, true);
	CALL(recv(fd, data, 8, 0));
	CALL(recv(fd, data, 8, 0));
	report();
	CALL(close(fd));
	CALL(recv(fd, data, 8, 0));
	peer_send(NEAR, PORT, "still");
	CALL(recv(second, data, 8, 0));
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(53, "from 53", 7, 0, SA(to)));
	peer_recv(1000);
	/* dup2 over one of them, and over a pipe. */
	int p[2];
	CALL(pipe(p));
	CALL(dup2(p[0], second));
	CALL(write(p[1], "pipe", 4));
	CALL(read(second, data, 8));
	CALL(dup2(50, p[0]));
	peer_send(NEAR, PORT, "again");
	CALL(recv(p[0], data, 8, 0));
	report();
	for (int i = 50; i <= 53; i++)
		CALL(close(i));
	CALL(close(p[0]));
	/* The last one gone, the port is free. */
	int next = CALL(udp_bound("0.0.0.0", PORT));
	peer_send(NEAR, PORT, "next");
	CALL(recv(next, data, 8, 0));
	report();
	return done();
}
