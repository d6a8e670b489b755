/* Parent and child share a socket: each datagram goes to exactly one, and neither goes deaf. */
#include "common.h"

int main(void)
{
	int to_child[2], from_child[2];
	char data[16], order;
	begin(15);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	MUST(pipe(to_child));
	MUST(pipe(from_child));
	peer_send(NEAR, PORT, "warm");
	say_recv("parent", fd, 0);
	report();
	peer_send(NEAR, PORT, "queued before fork");
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		while (read(to_child[0], &order, 1) == 1) {
			if (order == 'r')
				say_recv("child", fd, 0);
			else if (order == 's')
				CALL(sendto(fd, "from the child", 14, 0, SA(to)));
			else if (order == 'n')
				say_recv("child", fd, MSG_DONTWAIT);
			else
				break;
			MUST(write(from_child[1], "k", 1));
		}
		_exit(7);
	}
#define CHILD(what)                                \
	do {                                       \
		MUST(write(to_child[1], what, 1)); \
		MUST(read(from_child[0], data, 1)); \
	} while (0)
	CHILD("r");
	say_recv("parent", fd, MSG_DONTWAIT);
	for (int i = 0; i < 3; i++) {
		peer_send(NEAR, PORT, "for the child");
		CHILD("r");
		peer_send(NEAR, PORT, "for the parent");
		say_recv("parent", fd, 0);
		CHILD("n");
	}
	CHILD("s");
	peer_recv(1000);
	CALL(sendto(fd, "from the parent", 15, 0, SA(to)));
	peer_recv(1000);
	/* Both wait: exactly one gets it. */
	int before = 0;
	MUST(write(to_child[1], "q", 1));
	MUST(waitpid(child, &before, 0));
	say("child ended %#x", before);
	for (int i = 0; i < 3; i++) {
		peer_send(NEAR, PORT, "after the child");
		say_recv("parent", fd, 0);
	}
	struct pollfd p = {.fd = fd, .events = POLLIN};
	peer_send_later(50, NEAR, PORT, "polled");
	CALL(poll(&p, 1, 2000));
	say_recv("parent", fd, 0);
	return done();
}
