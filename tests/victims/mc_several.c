/* Several sockets on one group: one copy each, independent queues. */
#include "common.h"

int main(void)
{
	int fd[3], bound = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	char data[16];
	begin(10);
	peer_start();
	for (int i = 0; i < 3; i++) {
		fd[i] = udp_shared("0.0.0.0", PORT);
		CALL(join(fd[i], GROUP));
	}
	/* One bound to the group's address itself. */
	struct sockaddr_in group = addr4(GROUP, PORT);
	MUST(enable(bound, SOL_SOCKET, SO_REUSEADDR));
	CALL(bind(bound, SA(group)));
	CALL(join(bound, GROUP));
	peer_burst(GROUP, PORT, 4, 8, 0);
	for (int i = 0; i < 3; i++) {
		for (int k = 0; k < 4 - i; k++) {
			CALL(recv(fd[i], data, 8, 0));
			say_bytes("data", data, 8);
		}
		if (i == 0)
			CALL(recv(fd[0], data, 8, MSG_DONTWAIT));
	}
	for (int k = 0; k < 4; k++)
		CALL(recv(bound, data, 8, 0));
	CALL(recv(bound, data, 8, MSG_DONTWAIT));
	peer_send(NEAR, PORT, "unicast");
	CALL(recv(bound, data, 8, MSG_DONTWAIT));
	report();
	CALL(close(fd[2]));
	peer_send(GROUP, PORT, "rest");
	CALL(recv(fd[1], data, 8, 0));
	say_bytes("data", data, 8);
	CALL(recv(fd[1], data, 8, 0));
	say_bytes("data", data, 4);
	CALL(recv(fd[1], data, 8, MSG_DONTWAIT));
	return done();
}
