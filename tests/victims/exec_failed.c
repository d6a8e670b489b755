/* An exec that fails changes nothing. */
#include "common.h"

int main(void)
{
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "before");
	say_recv("fd", fd, 0);
	CALL(execl("/nonesuch", "nonesuch", NULL));
	for (int i = 0; i < 3; i++) {
		peer_send(NEAR, PORT, "after");
		say_recv("fd", fd, 0);
	}
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, "out", 3, 0, SA(to)));
	peer_recv(1000);
	report();
	return done();
}
