/* The forms of a membership request and of IP_MULTICAST_IF. */
#include "common.h"

static int fd;

static void offer(const char *group)
{
	peer_send(group, PORT, group);
	sleep_ms(5);
	say_recv("member", fd, MSG_DONTWAIT);
}

static void by_mreqn(int option, const char *group, const char *local, int index)
{
	struct ip_mreqn m = {.imr_ifindex = index};
	inet_pton(AF_INET, group, &m.imr_multiaddr);
	inet_pton(AF_INET, local, &m.imr_address);
	CALL(setsockopt(fd, IPPROTO_IP, option, &m, sizeof m));
}

static void by_mreq(int option, const char *group, const char *local)
{
	struct ip_mreq m;
	inet_pton(AF_INET, group, &m.imr_multiaddr);
	inet_pton(AF_INET, local, &m.imr_interface);
	CALL(setsockopt(fd, IPPROTO_IP, option, &m, sizeof m));
}

static void show_interface(void)
{
	struct in_addr a = {0};
	char text[INET_ADDRSTRLEN];
	socklen_t length = sizeof a;
	CALL(getsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &a, &length));
	say("  %s (%u bytes)", inet_ntop(AF_INET, &a, text, sizeof text), length);
}

int main(void)
{
	int veth = (int)if_nametoindex("veth0"), none = 0;
	begin(10);
	peer_start();
	fd = udp_shared("0.0.0.0", PORT);
	/* Only members: the host's other groups are not for this socket. */
	CALL(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &none, sizeof none));
	by_mreq(IP_ADD_MEMBERSHIP, "239.78.2.1", NEAR);
	by_mreq(IP_ADD_MEMBERSHIP, "239.78.2.2", "0.0.0.0");
	by_mreq(IP_ADD_MEMBERSHIP, "239.78.2.3", NEAR_ALIAS);
	by_mreq(IP_ADD_MEMBERSHIP, "239.78.2.4", "10.99.0.1");
	by_mreqn(IP_ADD_MEMBERSHIP, "239.78.2.5", "10.99.0.1", veth);
	by_mreqn(IP_ADD_MEMBERSHIP, "239.78.2.6", "0.0.0.0", veth);
	by_mreqn(IP_ADD_MEMBERSHIP, "239.78.2.7", NEAR, 0);
	by_mreqn(IP_ADD_MEMBERSHIP, "239.78.2.8", NEAR, 9999);
	struct group_req g = {.gr_interface = (unsigned)veth};
	struct sockaddr_in a = addr4("239.78.2.9", 0);
	memcpy(&g.gr_group, &a, sizeof a);
	CALL(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &g, sizeof g));
	CALL(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &g, sizeof g));
	by_mreq(IP_ADD_MEMBERSHIP, "239.78.2.10", "127.0.0.1");
	for (int i = 1; i <= 10; i++) {
		char group[32];
		snprintf(group, sizeof group, "239.78.2.%d", i);
		offer(group);
	}
	by_mreq(IP_DROP_MEMBERSHIP, "239.78.2.1", NEAR);
	by_mreqn(IP_DROP_MEMBERSHIP, "239.78.2.2", "0.0.0.0", veth);
	CALL(setsockopt(fd, IPPROTO_IP, MCAST_LEAVE_GROUP, &g, sizeof g));
	by_mreq(IP_DROP_MEMBERSHIP, "239.78.2.5", "0.0.0.0");
	offer("239.78.2.1");
	offer("239.78.2.2");
	offer("239.78.2.9");
	offer("239.78.2.3");
	CALL(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &g, 3));

	show_interface();
	struct in_addr near;
	inet_pton(AF_INET, NEAR_ALIAS, &near);
	CALL(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &near, sizeof near));
	show_interface();
	by_mreqn(IP_MULTICAST_IF, "0.0.0.0", "0.0.0.0", veth);
	show_interface();
	by_mreqn(IP_MULTICAST_IF, "0.0.0.0", NEAR_ALIAS, veth);
	show_interface();
	by_mreqn(IP_MULTICAST_IF, "0.0.0.0", "0.0.0.0", 9999);
	by_mreq(IP_MULTICAST_IF, "0.0.0.0", NEAR);
	show_interface();
	PEER_DO("", 0, "join 0 " GROUP2);
	struct sockaddr_in to = addr4(GROUP2, PEER_PORT);
	PEER_DO("", 0, "open 4 0.0.0.0 7004");
	PEER_DO("", 0, "join 4 " GROUP2);
	to.sin_port = htons(7004);
	CALL(sendto(fd, "from the chosen interface", 25, 0, SA(to)));
	peer_recv_slot(4, 500);
	report();
	return done();
}
