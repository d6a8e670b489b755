/* FIONREAD tells the first datagram's length, not the sum. */
#include "common.h"

int main(void)
{
	char data[16];
	int waiting = -1;
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	CALL(ioctl(fd, FIONREAD, &waiting));
	say("  waiting %d", waiting);
	peer_send(NEAR, PORT, "four");
	peer_send(NEAR, PORT, "2x");
	for (int i = 0; i < 3; i++) {
		CALL(ioctl(fd, FIONREAD, &waiting));
		say("  waiting %d", waiting);
		CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
	}
	CALL(ioctl(fd, FIONREAD, NULL));
	CALL(ioctl(fd, TIOCOUTQ, &waiting));
	say("  unsent %d", waiting);
	report();
	return done();
}
