/* What a socket brought along when it left the engine is parent's or child's, never both's. */
#include "common.h"
#include <linux/filter.h>

int main(void)
{
	char data[16];
	int to_child[2], from_child[2];
	begin(15);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	MUST(pipe(to_child));
	MUST(pipe(from_child));
	peer_send(NEAR, PORT, "warm");
	say_recv("parent", fd, 0);
	report();
	peer_send(NEAR, PORT, "one");
	peer_send(NEAR, PORT, "two");
	peer_send(NEAR, PORT, "three");
	/* Takes everything; the library leaves such a socket to the kernel. */
	struct sock_filter all = {0x06, 0, 0, 0xffffffff};
	struct sock_fprog program = {1, &all};
	CALL(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
	fflush(stdout);
	pid_t child = MUST(fork());
	if (child == 0) {
		say_recv("child", fd, MSG_DONTWAIT);
		MUST(write(from_child[1], "k", 1));
		MUST(read(to_child[0], data, 1));
		say_recv("child", fd, MSG_DONTWAIT);
		say_recv("child", fd, MSG_DONTWAIT);
		_exit(0);
	}
	MUST(read(from_child[0], data, 1));
	say_recv("parent", fd, MSG_DONTWAIT);
	MUST(write(to_child[1], "g", 1));
	MUST(waitpid(child, NULL, 0));
	struct pollfd p = {.fd = fd, .events = POLLIN};
	CALL(poll(&p, 1, 0));
	say_recv("parent", fd, MSG_DONTWAIT);
	return done();
}
