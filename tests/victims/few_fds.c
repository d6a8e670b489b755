/* Sixteen free descriptors: all of them are the program's. */
#include "common.h"
#include <sys/resource.h>

int main(void)
{
	struct rlimit limit;
	begin(10);
	peer_start();
	MUST(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = 3 + 16;
	MUST(setrlimit(RLIMIT_NOFILE, &limit));
	int fd = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "data");
	say_recv("fd", fd, 0);
	for (int i = 1; i < 18; i++) {
		struct sockaddr_in a = addr4("0.0.0.0", PORT + i);
		int next = CALL(socket(AF_INET, SOCK_DGRAM, 0));
		if (next == -1)
			break;
		CALL(bind(next, SA(a)));
	}
	peer_send(NEAR, PORT + 3, "data");
	say_recv("fourth", fd + 3, 0);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, "out", 3, 0, SA(to)));
	peer_recv(1000);
	MUST(getrlimit(RLIMIT_NOFILE, &limit));
	say("limit %d", (int)limit.rlim_cur);
	report();
	return done();
}
