/* A child that was forked from an accelerated parent opens sockets of its own, and forks. */
#include "common.h"

int main(void)
{
	begin(15);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "warm");
	say_recv("parent", fd, 0);
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		/* Its own conversation with the peer. */
		peer_fd = -1;
		alarm(10);
		close(fd);
		int own = udp_bound("0.0.0.0", PORT + 1);
		peer_send(NEAR, PORT + 1, "for the child");
		say_recv("child", own, 0);
		struct sockaddr_in to = addr4(FAR, PEER_PORT);
		CALL(sendto(own, "from the child", 14, 0, SA(to)));
		peer_recv(1000);
		report();
		fflush(stdout);
		sleep_ms(200);
		int64_t start = now_us();
		pid_t grandchild = fork();
		if (grandchild == 0) {
			say_recv("grandchild", own, MSG_DONTWAIT);
			fflush(stdout);
			_exit(3);
		}
		int status;
		MUST(waitpid(grandchild, &status, 0));
		say("grandchild ended %#x, %s", status,
		    now_us() - start < 2000000 ? "at once" : "late");
		fflush(stdout);
		_exit(0);
	}
	int status;
	MUST(waitpid(child, &status, 0));
	say("child ended %#x", status);
	peer_send(NEAR, PORT, "for the parent");
	say_recv("parent", fd, 0);
	report();
	return done();
}
