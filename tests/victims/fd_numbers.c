/* Descriptors get the lowest free number, and what the library keeps for itself is out of sight:
 * high, and closed on exec. */
#include "common.h"
#include <dirent.h>

static void list(void)
{
	int left_open = 0;
	printf("open:");
	for (int i = 0; i < 512; i++)
		if (fcntl(i, F_GETFD) != -1)
			printf(" %d", i);
	DIR *directory = opendir("/proc/self/fd");
	for (struct dirent *e; (e = readdir(directory));) {
		int fd = atoi(e->d_name);
		if (fd >= 512 && fd != peer_fd && !(fcntl(fd, F_GETFD) & FD_CLOEXEC))
			left_open++;
	}
	closedir(directory);
	say("; high without close-on-exec: %d", left_open);
}

int main(void)
{
	int p[2], s[2];
	begin(10);
	peer_start();
	list();
	int first = CALL(socket(AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in a = addr4("0.0.0.0", PORT), b = addr4("0.0.0.0", PORT + 1);
	CALL(bind(first, SA(a)));
	int second = CALL(socket(AF_INET, SOCK_DGRAM, 0));
	CALL(bind(second, SA(b)));
	CALL(join(second, GROUP));
	CALL(epoll_create1(0));
	CALL(pipe(p));
	say("  %d %d", p[0], p[1]);
	CALL(socketpair(AF_UNIX, SOCK_DGRAM, 0, s));
	say("  %d %d", s[0], s[1]);
	CALL(socketpair(AF_INET, SOCK_DGRAM, 0, s));
	CALL(close(first));
	CALL(socket(AF_INET6, SOCK_DGRAM, 0));
	CALL(socket(AF_INET, SOCK_STREAM, 0));
	CALL(socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
	CALL(open("/dev/null", O_RDONLY));
	CALL(dup(second));
	CALL(fcntl(second, F_DUPFD, 20));
	CALL(close(0));
	CALL(socket(AF_INET, SOCK_DGRAM, 0));
	peer_send(NEAR, PORT + 1, "data");
	say_recv("second", second, 0);
	list();
	report();
	return done();
}
