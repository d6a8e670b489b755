/* pmtu HOW FAMILY [connected]: sizes around the MTU under each value of IP_MTU_DISCOVER. */
#include "common.h"

int main(int argc, char **argv)
{
	static char data[66000];
	static const int sizes[] = {0, 1, 1471, 1472, 1473, 1480, 2952, 2953, 4000, 65507, 65508, 65535, 65536};
	begin(15);
	bool v6 = !strcmp(argv[2], "v6"), connected = argc > 3;
	int how = atoi(argv[1]), mtu = -1;
	socklen_t size = sizeof mtu;
	peer_start();
	int fd = MUST(socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in any = addr4("0.0.0.0", PORT), far = addr4(FAR, PEER_PORT);
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)},
			    far6 = addr6("::ffff:" FAR, PEER_PORT);
	MUST(v6 ? bind(fd, SA(any6)) : bind(fd, SA(any)));
	peer_send(NEAR, PORT, "warm");
	say_recv("warm", fd, 0);
	if (how >= 0)
		CALL(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &how, sizeof how));
	if (connected)
		CALL(v6 ? connect(fd, SA(far6)) : connect(fd, SA(far)));
	CALL(getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &size));
	say("  mtu %d", mtu);
	for (int i = 0; i < 66000; i++)
		data[i] = (char)('a' + i % 23);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		size_t n = (size_t)sizes[i];
		say("size %zu", n);
		if (connected)
			CALL(send(fd, data, n, 0));
		else
			CALL(v6 ? sendto(fd, data, n, 0, SA(far6)) : sendto(fd, data, n, 0, SA(far)));
		const char *answer = peer_ask("", 0, "recv 0 25");
		int length = -1;
		if (sscanf(answer, "ok %d", &length) == 1)
			say("  peer got %d, %s", length, !memcmp(strchr(answer, '\n') + 1, data, (size_t)length) ? "right" : "wrong");
		else
			say("  peer got nothing");
	}
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
	CALL(poll(&p, 1, 0));
	say("  %s", event_names((unsigned short)p.revents));
	report();
	return done();
}
