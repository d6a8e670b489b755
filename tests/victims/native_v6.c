/* An AF_INET6 socket that talks IPv6 proper. */
#include "common.h"

int main(void)
{
	begin(10);
	peer_open(3, "fd78::2", PEER_PORT);
	int fd = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
	CALL(enable(fd, IPPROTO_IPV6, IPV6_V6ONLY));
	struct sockaddr_in6 any = addr6("::", PORT), to = addr6("fd78::2", PEER_PORT);
	CALL(bind(fd, SA(any)));
	CALL(sendto(fd, "six", 3, 0, SA(to)));
	peer_recv_slot(3, 1000);
	PEER_DO("answer", 6, "send 3 fd78::1 %d", PORT);
	say_recv("six", fd, 0);
	report();
	return done();
}
