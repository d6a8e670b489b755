/* MSG_PEEK leaves the datagram where it is. */
#include "common.h"

int main(void)
{
	char data[16] = "...............";
	struct sockaddr_in from = {0};
	socklen_t length = sizeof from;
	int waiting = -1;
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct pollfd p = {.fd = fd, .events = POLLIN};
	CALL(recv(fd, data, 2, MSG_PEEK | MSG_DONTWAIT));
	peer_send(NEAR, PORT, "abcdef");
	peer_send(NEAR, PORT, "second");
	CALL(recvfrom(fd, data, 2, MSG_PEEK, (struct sockaddr *)&from, &length));
	say_addr("from", &from, length);
	say_bytes("data", data, 4);
	CALL(recv(fd, data, 2, MSG_PEEK | MSG_TRUNC));
	CALL(ioctl(fd, FIONREAD, &waiting));
	say("  waiting %d", waiting);
	CALL(poll(&p, 1, 0));
	CALL(recv(fd, data, sizeof data, MSG_PEEK));
	CALL(recv(fd, data, sizeof data, 0));
	say_bytes("data", data, 6);
	CALL(recv(fd, data, sizeof data, MSG_PEEK));
	say_bytes("data", data, 6);
	CALL(recv(fd, data, sizeof data, 0));
	CALL(poll(&p, 1, 0));
	CALL(recv(fd, data, sizeof data, MSG_PEEK | MSG_DONTWAIT));
	report();
	return done();
}
