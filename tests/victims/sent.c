/* What a host puts on the wire for a socket's sends. */
#include "scenes.h"

static int fd;

static void start(void)
{
	fd = udp_bound("0.0.0.0", PORT);
	for (int i = 0; i < 2; i++) {
		send_to(fd, FAR, PEER_PORT, "first");
		peer_recv(500);
	}
}

static void ttl_and_tos_options(void)
{
	static const int ttls[] = {1, 64, 255, -1}, toses[] = {0, 0x10, 0xb8, 0xff, 0};
	start();
	sniff();
	for (int i = 0; i < 4; i++) {
		CALL(set_int(fd, IPPROTO_IP, IP_TTL, ttls[i]));
		send_to(fd, FAR, PEER_PORT, "ttl");
	}
	for (int i = 0; i < 5; i++) {
		CALL(set_int(fd, IPPROTO_IP, IP_TOS, toses[i]));
		send_to(fd, FAR, PEER_PORT, "tos");
	}
	CALL(set_int(fd, SOL_SOCKET, SO_PRIORITY, 5));
	send_to(fd, FAR, PEER_PORT, "priority");
	sniffed("on the wire");
	report();
}

static void by_control_message(void)
{
	start();
	sniff();
	static const int types[] = {IP_TTL, IP_TOS}, values[] = {1, 77, 255};
	for (int t = 0; t < 2; t++)
		for (int i = 0; i < 3; i++) {
			char control[CMSG_SPACE(sizeof(int))] = {0};
			struct sockaddr_in to = addr4(FAR, PEER_PORT);
			struct iovec v = {"control", 7};
			struct msghdr m = {&to, sizeof to, &v, 1, control, sizeof control, 0};
			struct cmsghdr *h = CMSG_FIRSTHDR(&m);
			*h = (struct cmsghdr){CMSG_LEN(sizeof(int)), IPPROTO_IP, types[t]};
			memcpy(CMSG_DATA(h), &values[i], sizeof(int));
			CALL(sendmsg(fd, &m, 0));
		}
	send_to(fd, FAR, PEER_PORT, "without");
	sniffed("on the wire");
	report();
}

static void dont_fragment(void)
{
	static const int kinds[] = {IP_PMTUDISC_DONT, IP_PMTUDISC_WANT, IP_PMTUDISC_DO, IP_PMTUDISC_PROBE,
				    IP_PMTUDISC_INTERFACE, IP_PMTUDISC_OMIT};
	static char big[2000];
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	start();
	memset(big, 'f', sizeof big);
	for (int c = 0; c < 2; c++) {
		for (size_t i = 0; i < 6; i++) {
			CALL(set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, kinds[i]));
			sniff();
			CALL(sendto(fd, big, 10, 0, SA(to)));
			CALL(sendto(fd, big, 1472, 0, SA(to)));
			CALL(sendto(fd, big, 1473, 0, SA(to)));
			sniffed("on the wire");
		}
		MUST(connect(fd, SA(to)));
	}
	report();
}

static void no_checksum(void)
{
	start();
	sniff();
	CALL(set_int(fd, SOL_SOCKET, SO_NO_CHECK, 1));
	send_to(fd, FAR, PEER_PORT, "no sum");
	CALL(set_int(fd, SOL_SOCKET, SO_NO_CHECK, 0));
	send_to(fd, FAR, PEER_PORT, "a sum");
	sniffed("on the wire");
	report();
}

/* A payload with which the sum is 0: on the wire that is 0xffff, for 0 means none. */
static void checksum_zero(void)
{
	start();
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	unsigned sum = 0;
	static const unsigned words[] = {0x0a4e, 0x0001, 0x0a4e, 0x0002, 17, 10, PORT, PEER_PORT, 10};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	unsigned rest = 0xffff - sum;
	unsigned char data[2] = {(unsigned char)(rest >> 8), (unsigned char)rest};
	sniff();
	CALL(sendto(fd, data, 2, 0, SA(to)));
	data[1]++;
	CALL(sendto(fd, data, 2, 0, SA(to)));
	sniffed("on the wire");
	report();
}

static void sizes(void)
{
	static char big[70000];
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	static const size_t list[] = {0, 1, 17, 18, 19, 1471, 1472, 1473, 2952, 2953};
	start();
	for (size_t i = 0; i < sizeof big; i++)
		big[i] = (char)('a' + i % 26);
	sniff();
	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		CALL(sendto(fd, big, list[i], 0, SA(to)));
	sniffed("on the wire");
	static const size_t limits[] = {65507, 65508, 65535, 65536, 70000};
	for (size_t i = 0; i < 5; i++)
		CALL(sendto(fd, big, limits[i], 0, SA(to)));
	report();
}

static void multicast_options_between_sends(void)
{
	second_wire();
	ip_near("route add 239.78.0.0/16 dev veth0");
	start();
	sniff();
	static const int ttls[] = {-1, 0, 1, 5, 255};
	for (int i = 0; i < 5; i++) {
		CALL(set_int(fd, IPPROTO_IP, IP_MULTICAST_TTL, ttls[i]));
		for (int loop = 0; loop < 2; loop++) {
			CALL(set_int(fd, IPPROTO_IP, IP_MULTICAST_LOOP, loop));
			send_to(fd, GROUP, PORT, loop ? "looped" : "not looped");
		}
	}
	static const char *const names[] = {"veth1", "veth0", ""};
	for (int i = 0; i < 3; i++) {
		struct ip_mreqn m = {.imr_ifindex = (int)if_nametoindex(names[i])};
		CALL(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &m, sizeof m));
		send_to(fd, GROUP, PORT, "by name");
	}
	static const char *const addresses[] = {"10.79.0.1", NEAR_ALIAS, NEAR, "0.0.0.0", "192.0.2.1"};
	for (int i = 0; i < 5; i++) {
		struct in_addr a;
		inet_pton(AF_INET, addresses[i], &a);
		CALL(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &a, sizeof a));
		send_to(fd, GROUP, PORT, "by address");
	}
	sniffed("by veth0");
	report();
}

static void groups_and_hardware_addresses(void)
{
	static const char *const groups[] = {"224.0.0.1", "224.0.0.251", "224.128.0.5", "225.0.0.5", "239.255.255.250", "232.1.2.3"};
	start();
	sniff();
	for (int i = 0; i < 6; i++)
		for (int n = 0; n < 2; n++)
			send_to(fd, groups[i], PORT, groups[i]);
	sniffed("on the wire");
	report();
}

static void connected_to_a_group(void)
{
	fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in a = addr4(GROUP, PORT);
	CALL(connect(fd, SA(a)));
	sniff();
	CALL(send(fd, "one", 3, 0));
	CALL(send(fd, "two", 3, 0));
	sniffed("on the wire");
	peer_send(NEAR, PORT, "not from the group");
	settle();
	take_all("fd", fd);
	report();
}

static void several_sockets_one_wire(void)
{
	int list[4];
	sniff();
	for (int i = 0; i < 4; i++) {
		list[i] = udp_bound(i & 1 ? NEAR_ALIAS : NEAR, PORT + i);
		for (int n = 0; n < 3; n++)
			send_to(list[i], FAR, PEER_PORT, "one of many");
	}
	sniffed("on the wire");
	report();
}

static void shapes(void)
{
	start();
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	char part[] = "0123456789";
	struct iovec v[6] = {{part, 1}, {part, 0}, {part, 10}, {part + 5, 5}, {NULL, 0}, {part, 2}};
	struct msghdr m = {&to, sizeof to, v, 6, NULL, 0, 0};
	sniff();
	CALL(sendmsg(fd, &m, 0));
	struct mmsghdr many[3] = {{m, 0}, {m, 0}, {m, 0}};
	many[1].msg_hdr.msg_iovlen = 0;
	many[2].msg_hdr.msg_iovlen = 3;
	CALL(sendmmsg(fd, many, 3, 0));
	MUST(connect(fd, SA(to)));
	CALL(write(fd, part, 4));
	CALL(writev(fd, v, 3));
	CALL(send(fd, NULL, 0, 0));
	sniffed("on the wire");
	report();
}

static void corked(void)
{
	start();
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	sniff();
	CALL(sendto(fd, "one ", 4, MSG_MORE, SA(to)));
	CALL(sendto(fd, "two", 3, 0, SA(to)));
	CALL(sendto(fd, "alone", 5, 0, SA(to)));
	CALL(set_int(fd, IPPROTO_UDP, UDP_CORK, 1));
	CALL(sendto(fd, "three ", 6, 0, SA(to)));
	CALL(sendto(fd, "four", 4, 0, SA(to)));
	CALL(set_int(fd, IPPROTO_UDP, UDP_CORK, 0));
	CALL(sendto(fd, "alone", 5, 0, SA(to)));
	sniffed("on the wire");
	report();
}

static void ip_options_set(void)
{
	static const unsigned char nops[4] = {1, 1, 1, 0};
	start();
	sniff();
	CALL(setsockopt(fd, IPPROTO_IP, IP_OPTIONS, nops, 4));
	send_to(fd, FAR, PEER_PORT, "with options");
	CALL(setsockopt(fd, IPPROTO_IP, IP_OPTIONS, NULL, 0));
	send_to(fd, FAR, PEER_PORT, "without");
	sniffed("on the wire");
	report();
}

static void confirm_and_dontroute(void)
{
	ip_near("route add 10.99.0.0/16 via " FAR);
	start();
	struct sockaddr_in to = addr4(FAR, PEER_PORT), beyond = addr4("10.99.0.1", PEER_PORT);
	sniff();
	CALL(sendto(fd, "confirm", 7, MSG_CONFIRM, SA(to)));
	CALL(sendto(fd, "direct", 6, MSG_DONTROUTE, SA(to)));
	CALL(sendto(fd, "beyond", 6, MSG_DONTROUTE, SA(beyond)));
	CALL(set_int(fd, SOL_SOCKET, SO_DONTROUTE, 1));
	CALL(sendto(fd, "beyond", 6, 0, SA(beyond)));
	CALL(sendto(fd, "direct", 6, 0, SA(to)));
	CALL(set_int(fd, SOL_SOCKET, SO_DONTROUTE, 0));
	CALL(sendto(fd, "by the gateway", 14, 0, SA(beyond)));
	sniffed("on the wire");
	report();
}

int main(int argc, char **argv)
{
	static const struct scene scenes[] = {
		SCENE(ttl_and_tos_options), SCENE(by_control_message), SCENE(dont_fragment), SCENE(no_checksum),
		SCENE(checksum_zero), SCENE(sizes), SCENE(multicast_options_between_sends),
		SCENE(groups_and_hardware_addresses), SCENE(connected_to_a_group), SCENE(several_sockets_one_wire),
		SCENE(shapes), SCENE(corked), SCENE(ip_options_set), SCENE(confirm_and_dontroute), {0}};
	return play(scenes, argc, argv);
}
