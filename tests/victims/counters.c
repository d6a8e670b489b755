/* A known number of datagrams by each way: 7 of 10 bytes from the wire, 2 from our own host, 5 out
 * to the wire; the queue of a second socket overflows. */
#include "common.h"

int main(void)
{
	char data[2048];
	int size = 5000;
	begin(15);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), full = udp_bound("0.0.0.0", PORT + 1);
	struct sockaddr_in to = addr4(FAR, PEER_PORT), self = addr4(NEAR, PORT);
	MUST(setsockopt(full, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
	for (int i = 0; i < 7; i++) {
		peer_send(NEAR, PORT, "ten bytes.");
		MUST(recv(fd, data, sizeof data, 0));
	}
	for (int i = 0; i < 2; i++) {
		MUST(sendto(fd, "self", 4, 0, SA(self)));
		MUST(recv(fd, data, sizeof data, 0));
	}
	for (int i = 0; i < 5; i++)
		MUST(sendto(fd, "out", 3, 0, SA(to)));
	recv(fd, data, sizeof data, MSG_DONTWAIT);
	peer_burst(NEAR, PORT + 1, 200, 1000, 100);
	sleep_ms(50);
	say("kept some: %d", recv(full, data, sizeof data, MSG_DONTWAIT) == 1000);
	report();
	return done();
}
