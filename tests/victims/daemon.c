/* daemon(3) after bind and join: the parent is gone, the child receives. */
#include "common.h"

int main(void)
{
	int p[2];
	char data[256] = "";
	begin(15);
	peer_start();
	/* The outer process stays to print what the daemon says. */
	MUST(pipe(p));
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		peer_fd = -1;
		int fd = udp_shared("0.0.0.0", PORT);
		MUST(join(fd, GROUP));
		peer_send(GROUP, PORT, "before");
		MUST(recv(fd, data, sizeof data, 0));
		MUST(daemon(0, 0));
		alarm(10);
		MUST(dup2(p[1], 1));
		peer_fd = -1;
		for (int i = 0; i < 3; i++) {
			peer_send(GROUP, PORT, "after");
			say_recv("daemon", fd, 0);
		}
		peer_send(NEAR, PORT, "unicast");
		say_recv("daemon", fd, 0);
		struct pollfd f = {.fd = fd, .events = POLLIN};
		peer_send_later(40, GROUP, PORT, "polled");
		CALL(poll(&f, 1, 3000));
		struct sockaddr_in to = addr4(FAR, PEER_PORT);
		CALL(sendto(fd, "out", 3, 0, SA(to)));
		peer_recv(1000);
		fflush(stdout);
		_exit(0);
	}
	int status;
	MUST(waitpid(child, &status, 0));
	say("parent of the daemon ended %#x", status);
	close(p[1]);
	for (long n; (n = read(p[0], data, sizeof data)) > 0;)
		fwrite(data, 1, (size_t)n, stdout);
	return done();
}
