/* The network changes under a socket: neighbours, routes, addresses, links. */
#include "craft.h"

static int fd;

/* One datagram each way, and what it was sent like. */
static void exchange(const char *to)
{
	send_to(fd, to, PEER_PORT, "out");
	peer_recv(300);
	peer_send(NEAR, PORT, "in");
	settle();
	take_all("fd", fd);
}

static void start(void)
{
	fd = udp_bound("0.0.0.0", PORT);
	exchange(FAR);
	exchange(FAR);
}

static void neighbour_changes(void)
{
	start();
	ip_far("link set veth0 address 02:00:00:00:77:01");
	ip_near("neigh replace " FAR " lladdr 02:00:00:00:77:01 dev veth0 nud reachable");
	heard();
	exchange(FAR);
	exchange(FAR);
	report();
}

/* The other host has a new card: it says so, or it must be asked. */
static void neighbour_announces(void)
{
	start();
	ip_far("link set veth0 address 02:00:00:00:77:02");
	ip_near("neigh flush dev veth0");
	heard();
	exchange(FAR);
	heard();
	exchange(FAR);
	report();
}

static void neighbour_fails(void)
{
	start();
	send_to(fd, "10.78.0.99", PEER_PORT, "to nobody");
	sleep_ms(50);
	exchange(FAR);
	ip_near("neigh replace 10.78.0.99 dev veth0 nud failed");
	heard();
	send_to(fd, "10.78.0.99", PEER_PORT, "to nobody");
	exchange(FAR);
	report();
}

static void neighbour_by_hand(void)
{
	start();
	ip_far("link set veth0 arp off");
	ip_near("neigh replace 10.78.0.50 lladdr 02:00:00:00:00:50 dev veth0 nud permanent");
	heard();
	sniff();
	for (int i = 0; i < 3; i++)
		send_to(fd, "10.78.0.50", PEER_PORT, "by hand");
	sniffed("to an entry made by hand");
	ip_near("neigh replace 10.78.0.50 lladdr 02:00:00:00:00:51 dev veth0 nud permanent");
	heard();
	sniff();
	send_to(fd, "10.78.0.50", PEER_PORT, "another address");
	sniffed("changed");
	report();
}

static void gateway(void)
{
	ip_near("route add 10.99.0.0/16 via " FAR);
	ip_far("addr add 10.99.0.1/32 dev lo");
	peer_open(5, "10.99.0.1", PEER_PORT);
	fd = udp_bound("0.0.0.0", PORT);
	heard();
	for (int i = 0; i < 3; i++) {
		send_to(fd, "10.99.0.1", PEER_PORT, "far away");
		peer_recv_slot(5, 500);
		peer_send_from(5, NEAR, PORT, "back");
		settle();
		take_all("fd", fd);
	}
	report();
}

static void route_replaced(void)
{
	second_wire();
	ip_near("route add 10.99.0.0/16 via " FAR);
	ip_far("addr add 10.99.0.1/32 dev lo");
	peer_open(5, "10.99.0.1", PEER_PORT);
	fd = udp_bound("0.0.0.0", PORT);
	heard();
	for (int i = 0; i < 4; i++) {
		ip_near(i & 1 ? "route replace 10.99.0.0/16 via 10.79.0.2" : "route replace 10.99.0.0/16 via " FAR);
		heard();
		send_to(fd, "10.99.0.1", PEER_PORT, "one");
		peer_recv_slot(5, 500);
		send_to(fd, "10.99.0.1", PEER_PORT, "two");
		peer_recv_slot(5, 500);
	}
	report();
}

static void refusing_routes(void)
{
	static const char *const kinds[] = {"blackhole", "unreachable", "prohibit", "throw"};
	start();
	for (int i = 0; i < 4; i++) {
		PEER_DO("", 0, "ip near route add %s 10.98.0.0/16", kinds[i]);
		heard();
		say("%s", kinds[i]);
		send_to(fd, "10.98.0.1", PEER_PORT, "refused");
		send_to(fd, "10.98.0.1", PEER_PORT, "refused");
		struct sockaddr_in a = addr4("10.98.0.1", PEER_PORT);
		int other = udp();
		CALL(connect(other, SA(a)));
		MUST(close(other));
		PEER_DO("", 0, "ip near route del %s 10.98.0.0/16", kinds[i]);
	}
	/* And where the engine was already sending. */
	ip_near("route add blackhole " FAR "/32");
	heard();
	send_to(fd, FAR, PEER_PORT, "refused");
	ip_near("route del blackhole " FAR "/32");
	heard();
	exchange(FAR);
	report();
}

static void connected_route_goes(void)
{
	fd = connected("0.0.0.0", PORT, FAR, PEER_PORT);
	CALL(send(fd, "one", 3, 0));
	peer_recv(500);
	CALL(send(fd, "two", 3, 0));
	peer_recv(500);
	ip_near("route add unreachable " FAR "/32");
	heard();
	CALL(send(fd, "refused", 7, 0));
	CALL(send(fd, "refused", 7, 0));
	ip_near("route del unreachable " FAR "/32");
	heard();
	CALL(send(fd, "three", 5, 0));
	peer_recv(500);
	report();
}

static void policy_by_mark(void)
{
	second_wire();
	ip_far("addr add 10.99.0.1/32 dev lo");
	peer_open(5, "10.99.0.1", PEER_PORT);
	ip_near("route add 10.99.0.0/16 via " FAR);
	ip_near("route add 10.99.0.0/16 via 10.79.0.2 table 77");
	ip_near("rule add fwmark 7 table 77");
	heard();
	fd = udp_bound("0.0.0.0", PORT);
	for (int i = 0; i < 4; i++) {
		CALL(set_int(fd, SOL_SOCKET, SO_MARK, i & 1 ? 7 : 0));
		for (int n = 0; n < 2; n++) {
			send_to(fd, "10.99.0.1", PEER_PORT, "marked");
			peer_recv_slot(5, 500);
		}
	}
	ip_near("rule del fwmark 7 table 77");
	heard();
	send_to(fd, "10.99.0.1", PEER_PORT, "no rule");
	peer_recv_slot(5, 500);
	report();
}

static void policy_by_source_and_port(void)
{
	second_wire();
	ip_far("addr add 10.99.0.1/32 dev lo");
	peer_open(5, "10.99.0.1", PEER_PORT);
	peer_open(6, "10.99.0.1", PEER_PORT + 1);
	ip_near("route add 10.99.0.0/16 via " FAR);
	ip_near("route add 10.99.0.0/16 via 10.79.0.2 table 77");
	heard();
	static const char *const rules[] = {"from " NEAR_ALIAS, "ipproto udp dport 7001", "ipproto udp sport 5000", "tos 0x10"};
	int one = udp_bound(NEAR, PORT), alias = udp_bound(NEAR_ALIAS, PORT + 1);
	MUST(set_int(alias, IPPROTO_IP, IP_TOS, 0x10));
	for (int i = 0; i < 4; i++) {
		PEER_DO("", 0, "ip near rule add %s table 77", rules[i]);
		heard();
		say("%s", rules[i]);
		sniff();
		for (int n = 0; n < 2; n++) {
			send_to(one, "10.99.0.1", PEER_PORT, "one");
			send_to(one, "10.99.0.1", PEER_PORT + 1, "one, other port");
			send_to(alias, "10.99.0.1", PEER_PORT, "alias");
		}
		sniffed("by veth0");
		PEER_DO("", 0, "ip near rule del %s table 77", rules[i]);
	}
	report();
}

static void address_comes_and_goes(void)
{
	start();
	ip_near("addr add 10.78.0.33/24 dev veth0");
	heard();
	peer_send("10.78.0.33", PORT, "to the new one");
	settle();
	take_all("fd", fd);
	int bound = udp_bound("10.78.0.33", PORT + 1);
	peer_send("10.78.0.33", PORT + 1, "bound to the new one");
	settle();
	take_all("bound", bound);
	ip_near("addr del 10.78.0.33/24 dev veth0");
	heard();
	send_to(bound, FAR, PEER_PORT, "from an address that is gone");
	peer_recv(100);
	CRAFT(.text = "to the old one", .dst = "10.78.0.33");
	CRAFT(.text = "to the old one", .dst = "10.78.0.33", .dport = PORT + 1);
	settle();
	take_all("fd", fd);
	take_all("bound", bound);
	ip_near("addr add 10.78.0.33/24 dev veth0");
	heard();
	peer_send("10.78.0.33", PORT + 1, "back again");
	settle();
	take_all("bound", bound);
	send_to(bound, FAR, PEER_PORT, "back again");
	peer_recv(500);
	exchange(FAR);
	report();
}

static void source_address_changes(void)
{
	start();
	sniff();
	send_to(fd, FAR, PEER_PORT, "one");
	ip_near("addr del 10.78.0.1/24 dev veth0");
	ip_near("addr add 10.78.0.41/24 dev veth0");
	heard();
	send_to(fd, FAR, PEER_PORT, "two");
	heard();
	send_to(fd, FAR, PEER_PORT, "three");
	sniffed("sources");
	report();
}

static void link_down_and_up(void)
{
	start();
	for (int i = 0; i < 2; i++) {
		ip_near("link set veth0 down");
		heard();
		send_to(fd, FAR, PEER_PORT, "while down");
		ip_near("link set veth0 up");
		ip_near("route add 224.0.0.0/4 dev veth0");
		heard();
		exchange(FAR);
		heard();
		exchange(FAR);
	}
	report();
}

static void link_down_keeps_what_is_queued(void)
{
	start();
	peer_send(NEAR, PORT, "queued before");
	settle();
	ip_near("link set veth0 down");
	heard();
	take_all("fd", fd);
	ip_near("link set veth0 up");
	heard();
	exchange(FAR);
	report();
}

/* The kernel takes up to a second to notice; nothing waits for that. */
static void carrier_lost(void)
{
	start();
	ip_far("link set veth0 down");
	for (int i = 0; i < 6; i++) {
		set_nonblock(fd, i & 1);
		send_to(fd, FAR, PEER_PORT, "without carrier");
	}
	report();
}

/* It forgets its neighbours then. */
static void carrier_comes_back(void)
{
	start();
	sleep_ms(1100);
	ip_far("link set veth0 down");
	sleep_ms(1100);
	send_to(fd, FAR, PEER_PORT, "without carrier");
	ip_far("link set veth0 up");
	sleep_ms(1100);
	send_to(fd, FAR, PEER_PORT, "out");
	sleep_ms(100);
	for (int i = 0; i < 3; i++)
		peer_recv(50);
	exchange(FAR);
	report();
}

static void interface_reborn(void)
{
	second_wire();
	fd = udp_bound("0.0.0.0", PORT);
	peer_send_from(9, "10.79.0.1", PORT, "first life");
	settle();
	take_all("fd", fd);
	send_to(fd, "10.79.0.2", PEER_PORT, "first life");
	peer_recv_slot(9, 500);
	ip_near("link del veth1");
	heard();
	PEER_DO("", 0, "close 9");
	send_to(fd, "192.0.2.1", PEER_PORT, "no way");
	second_wire();
	peer_send_from(9, "10.79.0.1", PORT, "second life");
	settle();
	take_all("fd", fd);
	send_to(fd, "10.79.0.2", PEER_PORT, "second life");
	peer_recv_slot(9, 500);
	exchange(FAR);
	report();
}

static void groups_of_an_interface_reborn(void)
{
	second_wire();
	fd = udp_bound("0.0.0.0", PORT);
	struct ip_mreqn m = {.imr_ifindex = (int)if_nametoindex("veth1")};
	inet_pton(AF_INET, GROUP, &m.imr_multiaddr);
	ip_far("route add 239.78.0.1/32 dev veth1");
	CALL(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m));
	peer_send_from(9, GROUP, PORT, "first life");
	settle();
	take_all("fd", fd);
	ip_near("link del veth1");
	heard();
	PEER_DO("", 0, "close 9");
	second_wire();
	ip_far("route add 239.78.0.1/32 dev veth1");
	peer_send_from(9, GROUP, PORT, "second life, not joined");
	settle();
	take_all("fd", fd);
	CALL(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &m, sizeof m));
	m.imr_ifindex = (int)if_nametoindex("veth1");
	CALL(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m));
	peer_send_from(9, GROUP, PORT, "second life, joined");
	settle();
	take_all("fd", fd);
	exchange(FAR);
	report();
}

static void mtu_shrinks_and_grows(void)
{
	static char big[3000];
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	static const int mtus[] = {1500, 1000, 576, 1400, 1500};
	memset(big, 'm', sizeof big);
	start();
	for (size_t i = 0; i < sizeof mtus / sizeof *mtus; i++) {
		PEER_DO("", 0, "ip near link set veth0 mtu %d", mtus[i]);
		heard();
		sniff();
		say("mtu %d", mtus[i]);
		CALL(sendto(fd, big, (size_t)mtus[i] - 28, 0, SA(to)));
		CALL(sendto(fd, big, (size_t)mtus[i] - 27, 0, SA(to)));
		CALL(sendto(fd, big, 1472, 0, SA(to)));
		sniffed("on the wire");
	}
	report();
}

static void jumbo(void)
{
	ip_near("link set veth0 mtu 9000");
	ip_far("link set veth0 mtu 9000");
	heard();
	static char big[9000];
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	memset(big, 'm', sizeof big);
	fd = udp_bound("0.0.0.0", PORT);
	exchange(FAR);
	static const size_t sizes[] = {1472, 1473, 4000, 8972, 8973};
	for (size_t i = 0; i < 5; i++) {
		CALL(sendto(fd, big, sizes[i], 0, SA(to)));
		peer_recv(500);
		peer_send_bytes(NEAR, PORT, sizes[i]);
		settle();
		CALL(recv(fd, big, sizeof big, MSG_DONTWAIT));
	}
	report();
}

static void promiscuous_and_all_multicast(void)
{
	start();
	ip_near("link set veth0 promisc on");
	ip_near("link set veth0 allmulticast on");
	heard();
	CRAFT(.text = "another host's", .dst = "10.78.0.77", .to = "02:00:00:00:00:99");
	CRAFT(.text = "not joined", .dst = GROUP, .to = "01:00:5e:4e:00:01");
	exchange(FAR);
	report();
}

static void renamed(void)
{
	start();
	ip_near("link set veth0 name wire");
	heard();
	exchange(FAR);
	CALL(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "veth0", 5));
	CALL(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "wire", 4));
	exchange(FAR);
	report();
}

static void new_hardware_address(void)
{
	start();
	ip_near("link set veth0 address 02:00:00:00:66:01");
	heard();
	exchange(FAR);
	heard();
	exchange(FAR);
	report();
}

static void hop_limit_of_a_route(void)
{
	ip_near("route add " FAR "/32 dev veth0 hoplimit 7 mtu 900");
	fd = udp_bound("0.0.0.0", PORT);
	heard();
	static char big[1000];
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	exchange(FAR);
	sniff();
	send_to(fd, FAR, PEER_PORT, "seven hops");
	CALL(sendto(fd, big, 872, 0, SA(to)));
	CALL(sendto(fd, big, 873, 0, SA(to)));
	MUST(set_int(fd, IPPROTO_IP, IP_TTL, 9));
	send_to(fd, FAR, PEER_PORT, "nine hops");
	sniffed("on the wire");
	report();
}

static void default_ttl_changes(void)
{
	start();
	PEER_DO("", 0, "sysctl near net.ipv4.ip_default_ttl 33");
	sniff();
	fd = udp_bound("0.0.0.0", PORT + 1);
	send_to(fd, FAR, PEER_PORT, "new socket");
	send_to(fd, FAR, PEER_PORT, "new socket");
	sniffed("on the wire");
	PEER_DO("", 0, "sysctl near net.ipv4.ip_default_ttl 64");
	report();
}

int main(int argc, char **argv)
{
	static const struct scene scenes[] = {
		SCENE(neighbour_changes), SCENE(neighbour_announces), SCENE(neighbour_fails), SCENE(neighbour_by_hand),
		SCENE(gateway), SCENE(route_replaced), SCENE(refusing_routes), SCENE(connected_route_goes),
		SCENE(policy_by_mark), SCENE(policy_by_source_and_port), SCENE(address_comes_and_goes),
		SCENE(source_address_changes), SCENE(link_down_and_up), SCENE(link_down_keeps_what_is_queued),
		SCENE(carrier_lost), SCENE(carrier_comes_back), SCENE(interface_reborn), SCENE(groups_of_an_interface_reborn),
		SCENE(mtu_shrinks_and_grows), SCENE(jumbo), SCENE(promiscuous_and_all_multicast), SCENE(renamed),
		SCENE(new_hardware_address), SCENE(hop_limit_of_a_route), SCENE(default_ttl_changes), {0}};
	return play(scenes, argc, argv);
}
