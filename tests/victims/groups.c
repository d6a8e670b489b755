/* Memberships, and who gets what of a group. */
#include "scenes.h"

static int fd;

/* Numbered datagrams to the group from the peer's two addresses. */
static void offer_from(const char *group, int slots)
{
	for (int slot = 0; slot < slots; slot++)
		peer_send_from(slot, group, PORT, slot ? "from the alias" : "from the main address");
	settle();
}

static void offer(const char *group)
{
	offer_from(group, 2);
	take_all(group, fd);
}

static void start(int all)
{
	peer_open(1, "10.78.0.12", PEER_PORT);
	fd = udp_bound("0.0.0.0", PORT);
	MUST(set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, all));
}

static void source(int option, const char *from)
{
	struct ip_mreq_source m;
	inet_pton(AF_INET, GROUP, &m.imr_multiaddr);
	inet_pton(AF_INET, NEAR, &m.imr_interface);
	inet_pton(AF_INET, from, &m.imr_sourceaddr);
	errno = 0;
	long r = setsockopt(fd, IPPROTO_IP, option, &m, sizeof m);
	say("option %d for %s = %ld %s", option, from, r, r ? strerrorname_np(errno) : "");
}

static struct sockaddr_storage storage(const char *ip)
{
	struct sockaddr_storage s = {0};
	struct sockaddr_in a = addr4(ip, 0);
	memcpy(&s, &a, sizeof a);
	return s;
}

static void group_source(int option, const char *from)
{
	struct group_source_req r = {if_nametoindex("veth0"), storage(GROUP), storage(from)};
	errno = 0;
	long n = setsockopt(fd, IPPROTO_IP, option, &r, sizeof r);
	say("option %d for %s = %ld %s", option, from, n, n ? strerrorname_np(errno) : "");
}

static void filter_state(void)
{
	uint8_t space[IP_MSFILTER_SIZE(8)] = {0};
	struct ip_msfilter *f = (void *)space;
	socklen_t n = sizeof space;
	inet_pton(AF_INET, GROUP, &f->imsf_multiaddr);
	inet_pton(AF_INET, NEAR, &f->imsf_interface);
	f->imsf_numsrc = 8;
	if (CALL(getsockopt(fd, IPPROTO_IP, IP_MSFILTER, f, &n)) == 0)
		say("  mode %u, %u sources", f->imsf_fmode, f->imsf_numsrc);
}

static void include_sources(void)
{
	start(0);
	source(IP_ADD_SOURCE_MEMBERSHIP, FAR);
	offer(GROUP);
	source(IP_ADD_SOURCE_MEMBERSHIP, FAR);
	source(IP_ADD_SOURCE_MEMBERSHIP, "10.78.0.12");
	offer(GROUP);
	filter_state();
	source(IP_DROP_SOURCE_MEMBERSHIP, FAR);
	offer(GROUP);
	source(IP_DROP_SOURCE_MEMBERSHIP, FAR);
	source(IP_BLOCK_SOURCE, "10.78.0.12");
	source(IP_DROP_SOURCE_MEMBERSHIP, "10.78.0.12");
	offer(GROUP);
	filter_state();
	report();
}

static void exclude_sources(void)
{
	start(0);
	CALL(join(fd, GROUP));
	source(IP_BLOCK_SOURCE, FAR);
	offer(GROUP);
	source(IP_BLOCK_SOURCE, FAR);
	source(IP_BLOCK_SOURCE, "10.78.0.12");
	offer(GROUP);
	filter_state();
	source(IP_UNBLOCK_SOURCE, FAR);
	offer(GROUP);
	source(IP_UNBLOCK_SOURCE, "192.0.2.1");
	source(IP_ADD_SOURCE_MEMBERSHIP, FAR);
	CALL(leave(fd, GROUP));
	offer(GROUP);
	report();
}

static void protocol_independent(void)
{
	start(0);
	struct group_req r = {if_nametoindex("veth0"), storage(GROUP)};
	CALL(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &r, sizeof r));
	offer(GROUP);
	group_source(MCAST_BLOCK_SOURCE, FAR);
	offer(GROUP);
	group_source(MCAST_UNBLOCK_SOURCE, FAR);
	offer(GROUP);
	CALL(setsockopt(fd, IPPROTO_IP, MCAST_LEAVE_GROUP, &r, sizeof r));
	offer(GROUP);
	group_source(MCAST_JOIN_SOURCE_GROUP, "10.78.0.12");
	offer(GROUP);
	group_source(MCAST_JOIN_SOURCE_GROUP, FAR);
	offer(GROUP);
	group_source(MCAST_LEAVE_SOURCE_GROUP, "10.78.0.12");
	offer(GROUP);
	group_source(MCAST_LEAVE_SOURCE_GROUP, FAR);
	offer(GROUP);
	report();
}

static void whole_filters(void)
{
	static const struct { unsigned mode; int count; } states[] = {{MCAST_EXCLUDE, 1}, {MCAST_INCLUDE, 1}, {MCAST_EXCLUDE, 0},
		{MCAST_INCLUDE, 2}, {MCAST_EXCLUDE, 2}, {MCAST_INCLUDE, 0}};
	start(0);
	CALL(join(fd, GROUP));
	for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
		uint8_t space[IP_MSFILTER_SIZE(2)] = {0};
		struct ip_msfilter *f = (void *)space;
		inet_pton(AF_INET, GROUP, &f->imsf_multiaddr);
		inet_pton(AF_INET, NEAR, &f->imsf_interface);
		f->imsf_fmode = states[i].mode;
		f->imsf_numsrc = (unsigned)states[i].count;
		inet_pton(AF_INET, FAR, &f->imsf_slist[0]);
		if (states[i].count > 1)
			inet_pton(AF_INET, "10.78.0.12", &f->imsf_slist[1]);
		say("mode %u, %d sources", states[i].mode, states[i].count);
		CALL(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, f, (socklen_t)IP_MSFILTER_SIZE(states[i].count)));
		offer(GROUP);
	}
	report();
}

static void whole_filters_protocol_independent(void)
{
	static const struct { unsigned mode; int count; } states[] = {{MCAST_INCLUDE, 1}, {MCAST_EXCLUDE, 1}, {MCAST_INCLUDE, 2}, {MCAST_EXCLUDE, 0}};
	start(0);
	CALL(join(fd, GROUP));
	for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
		uint8_t space[GROUP_FILTER_SIZE(2)] = {0};
		struct group_filter *f = (void *)space;
		f->gf_interface = if_nametoindex("veth0");
		f->gf_group = storage(GROUP);
		f->gf_fmode = states[i].mode;
		f->gf_numsrc = (unsigned)states[i].count;
		f->gf_slist[0] = storage(FAR);
		if (states[i].count > 1)
			f->gf_slist[1] = storage("10.78.0.12");
		say("mode %u, %d sources", states[i].mode, states[i].count);
		CALL(setsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, f, (socklen_t)GROUP_FILTER_SIZE(states[i].count)));
		offer(GROUP);
	}
	report();
}

static void all_and_not_all(void)
{
	peer_open(1, "10.78.0.12", PEER_PORT);
	int member = udp_shared("0.0.0.0", PORT), other[3];
	for (int i = 0; i < 3; i++) {
		other[i] = udp_shared("0.0.0.0", PORT);
		if (i)
			MUST(set_int(other[i], IPPROTO_IP, IP_MULTICAST_ALL, i - 1));
	}
	CALL(join(member, GROUP));
	offer_from(GROUP, 1);
	take_all("member", member);
	for (int i = 0; i < 3; i++)
		take_all("other", other[i]);
	CALL(join(other[1], GROUP2));
	offer_from(GROUP2, 1);
	take_all("member", member);
	for (int i = 0; i < 3; i++)
		take_all("other", other[i]);
	CALL(leave(member, GROUP));
	offer_from(GROUP, 1);
	take_all("member", member);
	for (int i = 0; i < 3; i++)
		take_all("other", other[i]);
	report();
}

static void dual_stack_default(void)
{
	int six = (int)MUST(socket(AF_INET6, SOCK_DGRAM, 0)), four = udp();
	struct sockaddr_in6 a6 = addr6("::", PORT);
	struct sockaddr_in a4 = addr4("0.0.0.0", PORT);
	MUST(enable(six, SOL_SOCKET, SO_REUSEADDR));
	MUST(enable(four, SOL_SOCKET, SO_REUSEADDR));
	MUST(bind(six, SA(a6)));
	MUST(bind(four, SA(a4)));
	CALL(join(four, GROUP));
	offer_from(GROUP, 1);
	take_all("four", four);
	take_all("six", six);
	CALL(join(six, GROUP));
	offer_from(GROUP, 1);
	take_all("four", four);
	take_all("six", six);
	report();
}

static void bound_to_groups(void)
{
	int one = udp_bound(GROUP, PORT), two = udp_bound(GROUP2, PORT);
	CALL(join(one, GROUP));
	CALL(join(two, GROUP2));
	CALL(join(two, GROUP));
	peer_send(GROUP, PORT, "first group");
	peer_send(GROUP2, PORT, "second group");
	peer_send(NEAR, PORT, "unicast");
	settle();
	take_all("first", one);
	take_all("second", two);
	send_to(one, FAR, PEER_PORT, "from a group's socket");
	peer_recv(500);
	report();
}

static void on_two_interfaces(void)
{
	second_wire();
	ip_far("route add 239.78.0.2/32 dev veth1");
	fd = udp_bound("0.0.0.0", PORT);
	MUST(set_int(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0));
	static const char *const names[] = {"veth0", "veth1"};
	for (int i = 0; i < 2; i++) {
		struct ip_mreqn m = {.imr_ifindex = (int)if_nametoindex(names[i])};
		inet_pton(AF_INET, GROUP, &m.imr_multiaddr);
		CALL(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m));
		inet_pton(AF_INET, GROUP2, &m.imr_multiaddr);
		CALL(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m));
		CALL(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m));
		peer_send(GROUP, PORT, "by veth0");
		settle();
		take_all(names[i], fd);
		peer_send_from(9, GROUP2, PORT, "by veth1");
		settle();
		take_all(names[i], fd);
	}
	struct ip_mreq any = {0};
	inet_pton(AF_INET, GROUP, &any.imr_multiaddr);
	CALL(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &any, sizeof any));
	peer_send(GROUP, PORT, "by veth0");
	settle();
	take_all("left one", fd);
	CALL(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &any, sizeof any));
	peer_send(GROUP, PORT, "by veth0");
	settle();
	take_all("left both", fd);
	CALL(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &any, sizeof any));
	report();
}

static void by_address_and_device(void)
{
	second_wire();
	static const char *const by[] = {NEAR, NEAR_ALIAS, "10.79.0.1", "0.0.0.0", "192.0.2.1"};
	for (int i = 0; i < 5; i++) {
		int one = udp_shared("0.0.0.0", PORT);
		struct ip_mreq m;
		MUST(set_int(one, IPPROTO_IP, IP_MULTICAST_ALL, 0));
		inet_pton(AF_INET, GROUP, &m.imr_multiaddr);
		inet_pton(AF_INET, by[i], &m.imr_interface);
		CALL(setsockopt(one, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m));
		peer_send(GROUP, PORT, by[i]);
		settle();
		take_all(by[i], one);
		if (i == 0)
			report();
		MUST(close(one));
	}
}

static void connected_member(void)
{
	peer_open(1, "10.78.0.12", PEER_PORT);
	fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in a = addr4(FAR, PEER_PORT);
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	CALL(join(fd, GROUP));
	/* Connecting fixes the local address, which groups then do not fit. */
	CALL(connect(fd, SA(a)));
	offer(GROUP);
	CALL(connect(fd, &none, sizeof none));
	offer(GROUP);
	report();
}

static void device_of_a_member(void)
{
	second_wire();
	peer_open(1, "10.78.0.12", PEER_PORT);
	fd = udp_bound("0.0.0.0", PORT);
	CALL(join(fd, GROUP));
	static const char *const names[] = {"veth0", "veth1", ""};
	for (int i = 0; i < 3; i++) {
		CALL(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, names[i], (socklen_t)strlen(names[i])));
		offer(GROUP);
	}
	report();
}

static void join_before_bind(void)
{
	fd = udp();
	CALL(join(fd, GROUP));
	struct sockaddr_in a = addr4("0.0.0.0", PORT);
	peer_open(1, "10.78.0.12", PEER_PORT);
	offer(GROUP);
	CALL(bind(fd, SA(a)));
	offer(GROUP);
	report();
}

static void mistakes(void)
{
	start(1);
	CALL(join(fd, NEAR));
	CALL(join(fd, "224.0.0.1"));
	CALL(join(fd, GROUP));
	CALL(join(fd, GROUP));
	CALL(leave(fd, GROUP2));
	struct ip_mreqn m = {.imr_ifindex = 999};
	inet_pton(AF_INET, GROUP, &m.imr_multiaddr);
	CALL(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m));
	CALL(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, 4));
	CALL(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &m, sizeof m));
	offer(GROUP);
	CALL(leave(fd, GROUP));
	CALL(leave(fd, GROUP));
	offer(GROUP);
	report();
}

static void last_of_several_leaves(void)
{
	int list[3];
	peer_open(1, "10.78.0.12", PEER_PORT);
	for (int i = 0; i < 3; i++) {
		list[i] = udp_shared("0.0.0.0", PORT);
		MUST(join(list[i], GROUP));
	}
	for (int i = 0; i < 3; i++) {
		offer_from(GROUP, 1);
		for (int j = i; j < 3; j++)
			take_all("member", list[j]);
		if (i == 0)
			report();
		MUST(i & 1 ? close(list[i]) : leave(list[i], GROUP));
		if (!(i & 1))
			take_all("left", list[i]);
	}
}

static void every_member_its_own_queue(void)
{
	int list[8];
	for (int i = 0; i < 8; i++) {
		list[i] = udp_shared(i & 1 ? GROUP : "0.0.0.0", PORT);
		if (i < 6)
			MUST(join(list[i], GROUP));
	}
	for (int n = 0; n < 3; n++)
		peer_send(GROUP, PORT, n == 0 ? "one" : n == 1 ? "two" : "three");
	settle();
	say_recv("peeking", list[0], MSG_PEEK | MSG_DONTWAIT);
	for (int i = 0; i < 8; i++)
		take_all("member", list[i]);
	report();
}

static void loop_within_the_host(void)
{
	int member = udp_shared("0.0.0.0", PORT), sender = udp_bound("0.0.0.0", PORT + 1);
	MUST(join(member, GROUP));
	PEER_DO("", 0, "open 6 0.0.0.0 %d", PORT);
	PEER_DO("", 0, "join 6 %s", GROUP);
	for (int loop = 0; loop < 2; loop++)
		for (int ttl = 0; ttl < 2; ttl++) {
			MUST(set_int(sender, IPPROTO_IP, IP_MULTICAST_LOOP, loop));
			MUST(set_int(sender, IPPROTO_IP, IP_MULTICAST_TTL, ttl));
			for (int n = 0; n < 2; n++) {
				send_to(sender, GROUP, PORT, loop ? "looped" : "not looped");
				settle();
				take_all("member", member);
				peer_recv_slot(6, 60);
			}
		}
	peer_send(GROUP, PORT, "from outside");
	settle();
	take_all("member", member);
	report();
}

int main(int argc, char **argv)
{
	static const struct scene scenes[] = {
		SCENE(include_sources), SCENE(exclude_sources), SCENE(protocol_independent), SCENE(whole_filters),
		SCENE(whole_filters_protocol_independent), SCENE(all_and_not_all), SCENE(dual_stack_default),
		SCENE(bound_to_groups), SCENE(on_two_interfaces), SCENE(by_address_and_device), SCENE(connected_member),
		SCENE(device_of_a_member), SCENE(join_before_bind), SCENE(mistakes), SCENE(last_of_several_leaves),
		SCENE(every_member_its_own_queue), SCENE(loop_within_the_host), {0}};
	return play(scenes, argc, argv);
}
