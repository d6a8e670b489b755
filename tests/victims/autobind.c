/* Never bound: the first send chooses the port, the answer comes back to it. */
#include "common.h"

int main(void)
{
	begin(10);
	peer_start();
	int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in to = addr4(FAR, PEER_PORT), own = {0};
	socklen_t length = sizeof own;
	CALL(recv(fd, NULL, 0, MSG_DONTWAIT));
	CALL(sendto(fd, "who am I", 8, 0, SA(to)));
	peer_recv(1000);
	CALL(getsockname(fd, (struct sockaddr *)&own, &length));
	say("  port chosen %d, address %#x", own.sin_port != 0, own.sin_addr.s_addr);
	for (int i = 0; i < 3; i++) {
		peer_send(NEAR, ntohs(own.sin_port), "answer");
		say_recv("fd", fd, 0);
	}
	CALL(sendto(fd, "again", 5, 0, SA(to)));
	peer_recv(1000);
	/* connect chooses as well. */
	int second = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	CALL(connect(second, SA(to)));
	CALL(send(second, "connected", 9, 0));
	peer_recv(1000);
	MUST(getsockname(second, (struct sockaddr *)&own, &length));
	peer_send(NEAR, ntohs(own.sin_port), "answer");
	say_recv("second", second, 0);
	report();
	return done();
}
