/* This host with itself: by the network 127.0.0.0/8, by its own address, connected, large,
 * segmented, by a group joined on lo. SHIM_INTERFACES=lo: each datagram comes once. */
#include "common.h"

static void pair(const char *what, int receiver, int sender, struct sockaddr_in to)
{
	say("%s", what);
	errno = 0;
	CALL(sendto(sender, what, strlen(what), 0, SA(to)));
	say_recv("receiver", receiver, 0);
	say_recv("receiver", receiver, MSG_DONTWAIT);
}

static void packet_info(int fd)
{
	char data[64], control[256];
	struct sockaddr_in from;
	struct iovec io = {data, sizeof data};
	struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &io,
			   .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	CALL(recvmsg(fd, &m, MSG_DONTWAIT));
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo info;
			char dst[16], spec[16];
			memcpy(&info, CMSG_DATA(c), sizeof info);
			inet_ntop(AF_INET, &info.ipi_addr, dst, sizeof dst);
			inet_ntop(AF_INET, &info.ipi_spec_dst, spec, sizeof spec);
			say("  interface %d, to %s, local %s", info.ipi_ifindex, dst, spec);
		}
	}
}

int main(void)
{
	static char large[65507];
	begin(20);
	peer_start();
	int any = udp_bound("0.0.0.0", PORT);
	int one = udp_bound("127.0.0.1", PORT + 1);
	int far = udp_bound("127.8.9.10", PORT + 2);
	int own = udp_bound(NEAR, PORT + 3);
	int from = udp_bound("127.0.0.1", 4999);

	pair("wildcard", any, from, addr4("127.0.0.1", PORT));
	pair("wildcard, anywhere in the network", any, from, addr4("127.4.5.6", PORT));
	pair("bound", one, from, addr4("127.0.0.1", PORT + 1));
	pair("bound elsewhere in the network", far, from, addr4("127.8.9.10", PORT + 2));
	int out = udp_bound("0.0.0.0", 4998);
	pair("own address", own, out, addr4(NEAR, PORT + 3));
	pair("own address, wildcard", any, out, addr4(NEAR, PORT));
	pair("to 0.0.0.0", any, out, addr4("0.0.0.0", PORT));
	peer_send(NEAR, PORT, "from the wire");
	say_recv("wildcard", any, 0);

	say("not for it");
	CALL(sendto(from, "x", 1, 0, SA(((struct sockaddr_in[]){addr4("127.0.0.2", PORT + 1)})[0])));
	say_recv("bound", one, MSG_DONTWAIT);

	say("packet information");
	enable(any, IPPROTO_IP, IP_PKTINFO);
	struct sockaddr_in to = addr4("127.1.2.3", PORT);
	CALL(sendto(from, "info", 4, 0, SA(to)));
	packet_info(any);
	to = addr4(NEAR, PORT);
	CALL(sendto(out, "info", 4, 0, SA(to)));
	packet_info(any);

	say("large");
	for (size_t i = 0; i < sizeof large; i++)
		large[i] = (char)('a' + i % 23);
	to = addr4("127.0.0.1", PORT);
	for (size_t size = 1000; size < sizeof large; size += size / 2) {
		CALL(sendto(from, large, size, 0, SA(to)));
		say_recv("wildcard", any, 0);
	}
	CALL(sendto(from, large, sizeof large, 0, SA(to)));
	say_recv("wildcard", any, 0);

	say("segmented");
	int size = 100;
	MUST(setsockopt(out, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof size));
	CALL(sendto(out, large, 450, 0, SA(to)));
	for (int i = 0; i < 6; i++)
		say_recv("wildcard", any, MSG_DONTWAIT);

	say("connected");
	struct sockaddr_in peer = addr4("127.0.0.1", 4999);
	CALL(connect(one, SA(peer)));
	struct sockaddr_in back = addr4("127.0.0.1", PORT + 1);
	CALL(sendto(from, "peer", 4, 0, SA(back)));
	say_recv("connected", one, 0);
	int stranger = udp_bound("127.0.0.1", 4997);
	CALL(sendto(stranger, "stranger", 8, 0, SA(back)));
	say_recv("connected", one, MSG_DONTWAIT);
	CALL(send(one, "answer", 6, 0));
	say_recv("from", from, 0);

	say("refused");
	int refused = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in nobody = addr4("127.0.0.1", 9);
	CALL(connect(refused, SA(nobody)));
	CALL(send(refused, "x", 1, 0));
	say_recv("refused", refused, MSG_DONTWAIT);

	say("a group on lo");
	int members[2] = {udp_shared("0.0.0.0", PORT + 5), udp_shared("0.0.0.0", PORT + 5)};
	struct ip_mreqn group = {.imr_ifindex = (int)if_nametoindex("lo")};
	inet_pton(AF_INET, GROUP, &group.imr_multiaddr);
	for (int i = 0; i < 2; i++)
		CALL(setsockopt(members[i], IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group));
	CALL(setsockopt(from, IPPROTO_IP, IP_MULTICAST_IF, &group, sizeof group));
	to = addr4(GROUP, PORT + 5);
	CALL(sendto(from, "group", 5, 0, SA(to)));
	sleep_ms(20);
	for (int i = 0; i < 2; i++) {
		say_recv("member", members[i], MSG_DONTWAIT);
		say_recv("member", members[i], MSG_DONTWAIT);
	}

	say("readiness");
	int ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event want = {.events = EPOLLIN, .data.u32 = 1}, got;
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, any, &want));
	CALL(epoll_wait(ep, &got, 1, 0));
	to = addr4("127.0.0.1", PORT);
	CALL(sendto(from, "ready", 5, 0, SA(to)));
	CALL(epoll_wait(ep, &got, 1, 1000));
	struct pollfd p = {.fd = any, .events = POLLIN};
	CALL(poll(&p, 1, 1000));
	say_recv("wildcard", any, 0);
	CALL(poll(&p, 1, 20));

	say("many");
	int kept = 0;
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 40; i++)
			MUST(sendto(from, &i, sizeof i, 0, SA(to)));
		for (int i = 0, number; i < 40; i++)
			if (recv(any, &number, sizeof number, MSG_DONTWAIT) == sizeof number && number == i)
				kept++;
	}
	say("  %d in order", kept);
	say_recv("wildcard", any, MSG_DONTWAIT);
	report();
	return done();
}
