/* Sending from a port that may be shared with other processes, as java.net.MulticastSocket
 * does: what arrives is the kernel's to distribute, what leaves is not. */
#include "common.h"

int main(void)
{
	begin(15);
	peer_start();
	int fd = udp_shared("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	for (int i = 0; i < 4; i++) {
		CALL(sendto(fd, "one of four", 11, 0, SA(to)));
		peer_recv(1000);
	}
	peer_send(NEAR, PORT, "answer");
	say_recv("answered", fd, 0);
	CALL(connect(fd, SA(to)));
	for (int i = 0; i < 3; i++) {
		CALL(send(fd, "connected", 9, 0));
		peer_recv(1000);
	}
	peer_send(NEAR, PORT, "answer");
	say_recv("answered", fd, MSG_DONTWAIT);
	report();
	pid_t child = MUST(fork());
	if (child == 0) {
		CALL(send(fd, "child", 5, 0));
		_exit(0);
	}
	MUST(waitpid(child, NULL, 0));
	peer_recv(1000);
	CALL(send(fd, "parent", 6, 0));
	peer_recv(1000);
	return done();
}
