/* One socket for each path that a socket can take; says which one it is, then waits to be asked. */
#include "common.h"
#include <linux/filter.h>

int main(void)
{
	struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, 65535)};
	struct sock_fprog program = {1, all};
	begin(20);
	peer_start();
	say("%d accelerated", udp_bound("0.0.0.0", PORT));
	say("%d accelerated", udp_bound(NEAR, PORT + 1));
	say("%d not bound yet", (int)MUST(socket(AF_INET, SOCK_DGRAM, 0)));
	say("%d bound or connected to loopback", udp_bound("127.0.0.1", PORT + 2));
	int fd = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
	struct sockaddr_in6 six = addr6("::", PORT + 3);
	MUST(enable(fd, IPPROTO_IPV6, IPV6_V6ONLY));
	MUST(bind(fd, SA(six)));
	say("%d socket carries native IPv6", fd);
	fd = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
	six.sin6_port = htons(PORT + 4);
	MUST(bind(fd, SA(six)));
	say("%d accelerated", fd);
	fd = udp_bound("0.0.0.0", PORT + 5);
	MUST(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
	say("%d the program attached a socket filter", fd);
	fd = udp_bound("0.0.0.0", PORT + 6);
	struct sockaddr_in lo = addr4("127.0.0.1", 9);
	MUST(connect(fd, SA(lo)));
	say("%d bound or connected to loopback", fd);
	say("listed");
	report();
	return done();
}
