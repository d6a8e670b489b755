/* Which socket gets a datagram, and where from a socket sends. */
#include "scenes.h"

static void unicast_best_match(void)
{
	int any = udp_shared("0.0.0.0", PORT), exact = udp_shared(NEAR, PORT);
	int peer = udp_shared("0.0.0.0", PORT);
	struct sockaddr_in a = addr4(FAR, PEER_PORT);
	MUST(connect(peer, SA(a)));
	peer_open(1, FAR, PEER_PORT + 1);
	peer_send(NEAR, PORT, "from the peer");
	peer_send_from(1, NEAR, PORT, "from another");
	peer_send(NEAR_ALIAS, PORT, "to the alias, from the peer");
	peer_send_from(1, NEAR_ALIAS, PORT, "to the alias");
	settle();
	take_all("any", any);
	take_all("exact", exact);
	take_all("connected", peer);
	report();
}

/* Each of several addresses and peers has a socket, none is shared. */
static void unicast_matrix(void)
{
	static const char *const addresses[] = {NEAR, NEAR_ALIAS};
	int fd[2];
	for (int i = 0; i < 2; i++)
		fd[i] = udp_bound(addresses[i], PORT);
	peer_open(1, "10.78.0.12", PEER_PORT);
	for (int i = 0; i < 2; i++)
		for (int from = 0; from < 2; from++)
			for (int n = 0; n < 2; n++)
				peer_send_from(from, addresses[i], PORT, n ? "second" : "first");
	settle();
	take_all("main", fd[0]);
	take_all("alias", fd[1]);
	struct sockaddr_in a = addr4(FAR, PEER_PORT);
	for (int i = 0; i < 2; i++) {
		MUST(connect(fd[i], SA(a)));
		for (int from = 0; from < 2; from++)
			peer_send_from(from, addresses[i], PORT, "to the connected");
		settle();
		take_all(addresses[i], fd[i]);
		CALL(send(fd[i], "x", 1, 0));
		peer_recv(1000);
	}
	report();
}

static void connect_moves_the_address(void)
{
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in a = addr4(FAR, PEER_PORT), name;
	socklen_t n = sizeof name;
	CALL(connect(fd, SA(a)));
	CALL(getsockname(fd, (struct sockaddr *)&name, &n));
	say_addr("name", &name, n);
	peer_send(NEAR, PORT, "main");
	peer_send(NEAR_ALIAS, PORT, "alias");
	settle();
	take_all("connected", fd);
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	CALL(connect(fd, &none, sizeof none));
	n = sizeof name;
	CALL(getsockname(fd, (struct sockaddr *)&name, &n));
	say_addr("name", &name, n);
	peer_send(NEAR, PORT, "main");
	peer_send(NEAR_ALIAS, PORT, "alias");
	settle();
	take_all("free again", fd);
	report();
}

static void unconnect_of_an_autobound(void)
{
	int fd = udp();
	struct sockaddr_in a = addr4(FAR, PEER_PORT), name;
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	socklen_t n = sizeof name;
	MUST(connect(fd, SA(a)));
	CALL(send(fd, "one", 3, 0));
	peer_recv(1000);
	CALL(connect(fd, &none, sizeof none));
	CALL(getsockname(fd, (struct sockaddr *)&name, &n));
	say("port is %s", name.sin_port ? "kept" : "gone");
	errno = 0;
	CALL(send(fd, "two", 3, 0));
	CALL(sendto(fd, "three", 5, 0, SA(a)));
	peer_recv(1000);
	MUST(connect(fd, SA(a)));
	CALL(send(fd, "four", 4, 0));
	peer_recv(1000);
	report();
}

static void reconnect(void)
{
	int fd = udp_bound(NEAR, PORT);
	peer_open(1, "10.78.0.12", PEER_PORT);
	for (int i = 0; i < 4; i++) {
		struct sockaddr_in a = addr4(i & 1 ? "10.78.0.12" : FAR, PEER_PORT);
		CALL(connect(fd, SA(a)));
		CALL(send(fd, "hello", 5, 0));
		peer_recv_slot(i & 1, 1000);
		peer_send_from(0, NEAR, PORT, "from the first");
		peer_send_from(1, NEAR, PORT, "from the second");
		settle();
		take_all("fd", fd);
	}
	report();
}

/* What is queued stays through connect; what comes from others afterwards does not. */
static void queued_through_connect(void)
{
	int fd = udp_bound("0.0.0.0", PORT);
	peer_open(1, "10.78.0.12", PEER_PORT);
	peer_send_from(1, NEAR, PORT, "queued, from another");
	peer_send(NEAR, PORT, "queued, from the peer");
	settle();
	struct sockaddr_in a = addr4(FAR, PEER_PORT);
	CALL(connect(fd, SA(a)));
	peer_send_from(1, NEAR, PORT, "late, from another");
	peer_send(NEAR, PORT, "late, from the peer");
	settle();
	take_all("fd", fd);
	report();
}

static void connected_twins(void)
{
	int fd[3];
	for (int i = 0; i < 3; i++) {
		fd[i] = udp_shared(NEAR, PORT);
		struct sockaddr_in a = addr4(FAR, PEER_PORT + i);
		MUST(connect(fd[i], SA(a)));
	}
	for (int i = 0; i < 3; i++) {
		if (i)
			peer_open(i, FAR, PEER_PORT + i);
		peer_send_from(i, NEAR, PORT, "to its own");
	}
	settle();
	for (int i = 0; i < 3; i++) {
		take_all("twin", fd[i]);
		CALL(send(fd[i], "back", 4, 0));
		peer_recv_slot(i, 1000);
	}
	report();
}

static void reuseaddr_last_bound(void)
{
	int fd[3];
	for (int i = 0; i < 3; i++) {
		fd[i] = udp_shared("0.0.0.0", PORT);
		peer_send(NEAR, PORT, "a");
		peer_send(NEAR, PORT, "b");
	}
	settle();
	for (int i = 0; i < 3; i++)
		take_all("twin", fd[i]);
	MUST(close(fd[2]));
	peer_send(NEAR, PORT, "the last is gone");
	settle();
	take_all("first", fd[0]);
	take_all("second", fd[1]);
	MUST(close(fd[1]));
	peer_send(NEAR, PORT, "one is left");
	settle();
	take_all("first", fd[0]);
	report();
}

/* The flag is what counts at bind; later it changes nothing for those that are bound. */
static void reuse_flag_after_bind(void)
{
	int fd = udp_bound("0.0.0.0", PORT), other = udp();
	struct sockaddr_in a = addr4("0.0.0.0", PORT);
	MUST(enable(other, SOL_SOCKET, SO_REUSEADDR));
	CALL(bind(other, SA(a)));
	CALL(enable(fd, SOL_SOCKET, SO_REUSEADDR));
	CALL(bind(other, SA(a)));
	peer_send(NEAR, PORT, "to the later");
	settle();
	take_all("earlier", fd);
	take_all("later", other);
	CALL(set_int(fd, SOL_SOCKET, SO_REUSEADDR, 0));
	peer_send(NEAR, PORT, "to the later");
	settle();
	take_all("earlier", fd);
	take_all("later", other);
	report();
}

static void reuse_alone(int option)
{
	int fd = udp_with("0.0.0.0", PORT, option);
	struct sockaddr_in a = addr4(FAR, PEER_PORT);
	for (int i = 0; i < 3; i++) {
		peer_send(NEAR, PORT, "question");
		settle();
		take_all("fd", fd);
		CALL(sendto(fd, "answer", 6, 0, SA(a)));
		peer_recv(1000);
	}
	peer_send("10.78.0.255", PORT, "broadcast");
	settle();
	take_all("fd", fd);
	report();
}

static void reuseaddr_alone(void) { reuse_alone(SO_REUSEADDR); }
static void reuseport_alone(void) { reuse_alone(SO_REUSEPORT); }

/* One of a group by a hash of the ends: the same peer always meets the same socket. */
static void reuseport_spread(void)
{
	int fd[4], counts[4] = {0}, whose[16];
	for (int i = 0; i < 4; i++)
		fd[i] = udp_with("0.0.0.0", PORT, SO_REUSEPORT);
	for (int i = 0; i < 16; i++) {
		peer_open(20 + i, FAR, 7100 + i);
		for (int n = 0; n < 3; n++)
			peer_send_from(20 + i, NEAR, PORT, "x");
	}
	settle();
	bool steady = true;
	for (int i = 0; i < 16; i++)
		whose[i] = -1;
	for (int i = 0; i < 4; i++) {
		char data[8];
		struct sockaddr_in from;
		socklen_t n = sizeof from;
		while (recvfrom(fd[i], data, sizeof data, MSG_DONTWAIT, (struct sockaddr *)&from, &n) == 1) {
			int peer = ntohs(from.sin_port) - 7100;
			steady &= whose[peer] == -1 || whose[peer] == i;
			whose[peer] = i;
			counts[i]++;
		}
	}
	say("together %d, each peer one socket: %d", counts[0] + counts[1] + counts[2] + counts[3], steady);
	int used = 0;
	for (int i = 0; i < 4; i++)
		used += counts[i] > 0;
	say("more than one socket used: %d", used > 1);
	report();
}

static void two_processes_share_a_port(int option)
{
	int fd = udp_with("0.0.0.0", PORT, option), go[2], ready[2];
	char byte;
	MUST(pipe(go));
	MUST(pipe(ready));
	peer_send(NEAR, PORT, "alone");
	settle();
	take_all("first process", fd);
	fflush(stdout);
	pid_t child = MUST(fork());
	if (child == 0) {
		MUST(close(fd));
		int own = udp_with("0.0.0.0", PORT, option);
		MUST(write(ready[1], "r", 1));
		MUST(read(go[0], &byte, 1));
		char data[32];
		int n = 0;
		while (recv(own, data, sizeof data, MSG_DONTWAIT) > 0)
			n++;
		_exit(n);
	}
	MUST(read(ready[0], &byte, 1));
	int mine = 0, status;
	char data[32];
	for (int i = 0; i < 20; i++)
		peer_send(NEAR, PORT, "for one of two");
	settle();
	while (recv(fd, data, sizeof data, MSG_DONTWAIT) > 0)
		mine++;
	MUST(write(go[1], "g", 1));
	MUST(waitpid(child, &status, 0));
	say("first %s, together %d", option == SO_REUSEADDR ? (mine ? "some" : "none") : "either",
	    mine + WEXITSTATUS(status));
	for (int i = 0; i < 3; i++) {
		peer_send(NEAR, PORT, "alone again");
		settle();
		take_all("first process", fd);
	}
	report();
}

static void reuseaddr_with_another_process(void) { two_processes_share_a_port(SO_REUSEADDR); }
static void reuseport_with_another_process(void) { two_processes_share_a_port(SO_REUSEPORT); }

static void bound_to_device(void)
{
	second_wire();
	int fd[3];
	static const char *const devices[] = {"veth0", "veth1", ""};
	for (int i = 0; i < 3; i++) {
		fd[i] = udp();
		struct sockaddr_in a = addr4("0.0.0.0", PORT);
		MUST(enable(fd[i], SOL_SOCKET, SO_REUSEADDR));
		CALL(setsockopt(fd[i], SOL_SOCKET, SO_BINDTODEVICE, devices[i], (socklen_t)strlen(devices[i])));
		CALL(bind(fd[i], SA(a)));
	}
	peer_send(NEAR, PORT, "by veth0");
	peer_send_from(9, "10.79.0.1", PORT, "by veth1");
	settle();
	for (int i = 0; i < 3; i++) {
		take_all(devices[i], fd[i]);
		send_to(fd[i], FAR, PEER_PORT, "out");
		peer_recv(100);
	}
	report();
}

static void device_changes(void)
{
	second_wire();
	int fd = udp_bound("0.0.0.0", PORT);
	static const char *const devices[] = {"veth0", "veth1", "", "veth0"};
	for (int i = 0; i < 4; i++) {
		CALL(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, devices[i], (socklen_t)strlen(devices[i])));
		peer_send(NEAR, PORT, "by veth0");
		settle();
		take_all(devices[i], fd);
		peer_send_from(9, "10.79.0.1", PORT, "by veth1");
		settle();
		take_all(devices[i], fd);
	}
	report();
}

static void two_interfaces(void)
{
	second_wire();
	int fd = udp_bound("0.0.0.0", PORT);
	MUST(enable(fd, IPPROTO_IP, IP_PKTINFO));
	for (int i = 0; i < 4; i++) {
		char data[32], control[64];
		struct iovec v = {data, sizeof data};
		struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
		if (i & 1)
			peer_send_from(9, "10.79.0.1", PORT, "by veth1");
		else
			peer_send(NEAR, PORT, "by veth0");
		settle();
		CALL(recvmsg(fd, &m, MSG_DONTWAIT));
		struct in_pktinfo *info = (void *)CMSG_DATA(CMSG_FIRSTHDR(&m));
		char name[IF_NAMESIZE], text[32];
		say("  %s to %s", if_indextoname((unsigned)info->ipi_ifindex, name), inet_ntop(AF_INET, &info->ipi_addr, text, 32));
		send_to(fd, i & 1 ? "10.79.0.2" : FAR, PEER_PORT, "back");
		peer_recv_slot(i & 1 ? 9 : 0, 1000);
	}
	report();
}

/* A host takes datagrams for any of its addresses on any interface (the weak host model). */
static void address_of_the_other_interface(void)
{
	second_wire();
	int fd = udp_bound("10.79.0.1", PORT);
	ip_far("route add 10.79.0.1/32 via " NEAR);
	heard();
	peer_send("10.79.0.1", PORT, "to veth1's address by veth0");
	settle();
	take_all("fd", fd);
	peer_send_from(9, "10.79.0.1", PORT, "the same from veth1's");
	settle();
	take_all("fd", fd);
	send_to(fd, FAR, PEER_PORT, "from veth1's address by veth0");
	peer_recv(1000);
	report();
}

static void unicast_if(void)
{
	second_wire();
	ip_near("route add 10.99.0.0/16 via " FAR);
	ip_near("route add 10.99.0.0/16 via 10.79.0.2 metric 50");
	ip_far("addr add 10.99.0.1/32 dev lo");
	heard();
	peer_open(5, "10.99.0.1", PEER_PORT);
	int fd = udp_bound("0.0.0.0", PORT);
	static const char *const names[] = {"veth0", "veth1", "lo"};
	for (int i = 0; i < 3; i++) {
		CALL(set_int(fd, IPPROTO_IP, IP_UNICAST_IF, (int)htonl(if_nametoindex(names[i]))));
		send_to(fd, "10.99.0.1", PEER_PORT, names[i]);
		peer_recv_slot(5, 300);
		send_to(fd, "10.99.0.1", PEER_PORT, names[i]);
		peer_recv_slot(5, 300);
	}
	report();
}

static void pktinfo_chooses(void)
{
	second_wire();
	int fd = udp_bound("0.0.0.0", PORT);
	static const char *const sources[] = {NEAR, NEAR_ALIAS, "10.79.0.1", "0.0.0.0", "192.0.2.1"};
	static const char *const names[] = {"", "veth0", "veth1"};
	for (size_t s = 0; s < 5; s++)
		for (size_t i = 0; i < 3; i++) {
			char control[CMSG_SPACE(sizeof(struct in_pktinfo))] = {0};
			struct sockaddr_in to = addr4(FAR, PEER_PORT);
			struct iovec v = {"chosen", 6};
			struct msghdr m = {&to, sizeof to, &v, 1, control, sizeof control, 0};
			struct cmsghdr *h = CMSG_FIRSTHDR(&m);
			*h = (struct cmsghdr){CMSG_LEN(sizeof(struct in_pktinfo)), IPPROTO_IP, IP_PKTINFO};
			struct in_pktinfo info = {.ipi_ifindex = (int)if_nametoindex(names[i])};
			inet_pton(AF_INET, sources[s], &info.ipi_spec_dst);
			memcpy(CMSG_DATA(h), &info, sizeof info);
			say("from %s by %s", sources[s], names[i]);
			if (CALL(sendmsg(fd, &m, 0)) > 0)
				peer_recv(i == 2 ? 30 : 500);
		}
	report();
}

static void secondary_addresses(void)
{
	ip_near("addr add 10.78.0.21/24 dev veth0");
	ip_near("addr add 10.78.5.1/24 dev veth0");
	ip_far("route add 10.78.5.0/24 dev veth0");
	heard();
	int any = udp_bound("0.0.0.0", PORT), fd = udp_bound("10.78.5.1", PORT + 1);
	peer_send("10.78.0.21", PORT, "secondary");
	peer_send("10.78.5.1", PORT, "another network");
	peer_send("10.78.5.1", PORT + 1, "bound to it");
	settle();
	take_all("any", any);
	take_all("bound", fd);
	send_to(any, FAR, PEER_PORT, "any");
	peer_recv(1000);
	send_to(fd, FAR, PEER_PORT, "bound");
	peer_recv(1000);
	report();
}

static void broadcast_receive(void)
{
	int a = udp_bound("0.0.0.0", PORT), b = udp_bound(NEAR, PORT + 1), c = udp_bound("10.78.0.255", PORT + 2);
	for (int i = 0; i < 3; i++)
		peer_send("10.78.0.255", PORT + i, "to all of the network");
	settle();
	take_all("any", a);
	take_all("address", b);
	take_all("broadcast address", c);
	for (int i = 0; i < 3; i++)
		peer_send(NEAR, PORT + i, "to one");
	settle();
	take_all("any", a);
	take_all("address", b);
	take_all("broadcast address", c);
	struct sockaddr_in from = addr4(FAR, PEER_PORT);
	MUST(connect(a, SA(from)));
	peer_send("10.78.0.255", PORT, "connected");
	settle();
	take_all("any, connected", a);
	report();
}

static void broadcast_send(void)
{
	peer_open(4, "0.0.0.0", PORT);
	int fd = udp_bound(NEAR, PORT);
	static const char *const to[] = {"10.78.0.255", "255.255.255.255", "10.78.0.0"};
	for (int on = 0; on < 2; on++) {
		MUST(set_int(fd, SOL_SOCKET, SO_BROADCAST, on));
		for (int i = 0; i < 2; i++) {
			send_to(fd, to[i], PORT, to[i]);
			if (on)
				peer_recv_slot(4, 500);
			struct sockaddr_in a = addr4(to[i], PORT);
			int other = udp();
			MUST(set_int(other, SOL_SOCKET, SO_BROADCAST, on));
			CALL(connect(other, SA(a)));
			CALL(send(other, "connected", 9, 0));
			if (on)
				peer_recv_slot(4, 500);
			MUST(close(other));
		}
	}
	send_to(fd, FAR, PEER_PORT, "unicast");
	peer_recv(1000);
	send_to(fd, FAR, PEER_PORT, "unicast");
	peer_recv(1000);
	report();
}

static void own_addresses(void)
{
	int fd = udp_bound("0.0.0.0", PORT), sender = udp_bound("0.0.0.0", PORT + 1);
	static const char *const to[] = {NEAR, NEAR_ALIAS, "127.0.0.1", "127.1.2.3", "0.0.0.0"};
	for (size_t i = 0; i < 5; i++) {
		send_to(sender, to[i], PORT, to[i]);
		settle();
		take_all("fd", fd);
	}
	peer_send(NEAR, PORT, "from outside");
	settle();
	take_all("fd", fd);
	send_to(sender, FAR, PEER_PORT, "out");
	peer_recv(1000);
	send_to(sender, FAR, PEER_PORT, "out");
	peer_recv(1000);
	report();
}

static void bad_destinations(void)
{
	int fd = udp_bound("0.0.0.0", PORT);
	static const char *const to[] = {"10.78.0.99", "192.0.2.1", "240.0.0.1", "0.0.0.1", "255.255.255.254"};
	for (size_t i = 0; i < 5; i++)
		send_to(fd, to[i], PEER_PORT, "nobody");
	send_to(fd, FAR, 0, "port 0");
	send_to(fd, FAR, PEER_PORT, "somebody");
	peer_recv(1000);
	send_to(fd, FAR, PEER_PORT, "somebody");
	peer_recv(1000);
	peer_send(NEAR, PORT, "back");
	settle();
	take_all("fd", fd);
	report();
}

int main(int argc, char **argv)
{
	static const struct scene scenes[] = {
		SCENE(unicast_best_match), SCENE(unicast_matrix), SCENE(connect_moves_the_address),
		SCENE(unconnect_of_an_autobound), SCENE(reconnect), SCENE(queued_through_connect), SCENE(connected_twins),
		SCENE(reuseaddr_last_bound), SCENE(reuse_flag_after_bind), SCENE(reuseaddr_alone), SCENE(reuseport_alone),
		SCENE(reuseport_spread), SCENE(reuseaddr_with_another_process), SCENE(reuseport_with_another_process),
		SCENE(bound_to_device), SCENE(device_changes), SCENE(two_interfaces),
		SCENE(address_of_the_other_interface), SCENE(unicast_if), SCENE(pktinfo_chooses),
		SCENE(secondary_addresses), SCENE(broadcast_receive), SCENE(broadcast_send), SCENE(own_addresses),
		SCENE(bad_destinations), {0}};
	return play(scenes, argc, argv);
}
