/* An AF_INET6 socket that carries IPv4, as every JVM opens one. */
#include "common.h"

int main(void)
{
	int off = 0;
	begin(10);
	peer_start();
	int fd = CALL(socket(AF_INET6, SOCK_DGRAM, 0));
	CALL(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off));
	struct sockaddr_in6 any = addr6("::", PORT), to = addr6("::ffff:" FAR, PEER_PORT), a = {0};
	socklen_t length = sizeof a;
	CALL(bind(fd, SA(any)));
	CALL(getsockname(fd, (struct sockaddr *)&a, &length));
	say_addr("local", &a, length);
	peer_send(NEAR, PORT, "hello");
	say_recv("six", fd, 0);
	CALL(sendto(fd, "mapped", 6, 0, SA(to)));
	peer_recv(1000);
	/* A plain IPv4 address is not for this socket... unless Linux says so. */
	struct sockaddr_in plain = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, "plain", 5, 0, SA(plain)));
	peer_recv(1000);
	CALL(join(fd, GROUP));
	peer_send(GROUP, PORT, "group");
	say_recv("six", fd, 0);
	CALL(leave(fd, GROUP));
	CALL(connect(fd, SA(to)));
	length = sizeof a;
	CALL(getsockname(fd, (struct sockaddr *)&a, &length));
	say_addr("local", &a, length);
	length = sizeof a;
	CALL(getpeername(fd, (struct sockaddr *)&a, &length));
	say_addr("peer", &a, length);
	CALL(send(fd, "connected", 9, 0));
	peer_recv(1000);
	peer_send(NEAR, PORT, "answer");
	say_recv("six", fd, 0);
	/* A short name buffer is filled as far as it goes. */
	char data[16];
	memset(&a, 0, sizeof a);
	length = 8;
	peer_send(NEAR, PORT, "short name");
	CALL(recvfrom(fd, data, sizeof data, 0, (struct sockaddr *)&a, &length));
	say("  length %u family %d port %d", length, a.sin6_family, ntohs(a.sin6_port));
	report();
	return done();
}
