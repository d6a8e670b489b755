/* observer IP PORT: the peer's eye for headers. Says what came, with TTL, TOS and addresses. Runs natively. */
#include "common.h"

int main(int argc, char **argv)
{
	begin(30);
	if (argc < 3)
		die("arguments");
	int fd = udp_bound(argv[1], atoi(argv[2]));
	MUST(enable(fd, IPPROTO_IP, IP_RECVTTL));
	MUST(enable(fd, IPPROTO_IP, IP_RECVTOS));
	MUST(enable(fd, IPPROTO_IP, IP_PKTINFO));
	say("ready");
	for (;;) {
		static char data[66000], control[256];
		struct sockaddr_in from;
		struct iovec io = {data, sizeof data};
		struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &io, .msg_iovlen = 1,
				   .msg_control = control, .msg_controllen = sizeof control};
		long n = MUST(recvmsg(fd, &m, 0));
		int ttl = -1, tos = -1;
		char source[32], to[32] = "?";
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
			if (c->cmsg_type == IP_TTL)
				ttl = *(int *)CMSG_DATA(c);
			else if (c->cmsg_type == IP_TOS)
				tos = *CMSG_DATA(c);
			else if (c->cmsg_type == IP_PKTINFO)
				inet_ntop(AF_INET, &((struct in_pktinfo *)CMSG_DATA(c))->ipi_addr, to, sizeof to);
		}
		inet_ntop(AF_INET, &from.sin_addr, source, sizeof source);
		say("%ld bytes \"%.4s\" from %s to %s ttl %d tos %#x", n, data, source, to, ttl, tos);
	}
}
