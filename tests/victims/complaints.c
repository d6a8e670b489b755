/* ICMP errors made by hand, and what they do to sockets. */
#include "craft.h"

static int fd;

static void look(const char *who, int s)
{
	int error = -1;
	socklen_t n = sizeof error;
	struct pollfd p = {s, POLLIN | POLLOUT, 0};
	CALL(poll(&p, 1, 0));
	say("%s: %s", who, event_names((unsigned)p.revents));
	getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &n);
	say("%s: SO_ERROR %s", who, error ? strerrorname_np(error) : "none");
}

static void error_queue(int s)
{
	char data[256], control[256];
	struct sockaddr_in name;
	struct iovec v = {data, sizeof data};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control,
			   .msg_name = &name, .msg_namelen = sizeof name};
	if (CALL(recvmsg(s, &m, MSG_ERRQUEUE | MSG_DONTWAIT)) < 0)
		return;
	say_addr("to", &name, m.msg_namelen);
	say_flags(m.msg_flags);
	for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
		if (h->cmsg_type == IP_RECVERR) {
			struct { uint32_t error; uint8_t origin, type, code, pad; uint32_t info, data; struct sockaddr_in by; } e;
			memcpy(&e, CMSG_DATA(h), sizeof e);
			say("  %s origin %d type %d code %d info %u", strerrorname_np((int)e.error), e.origin, e.type, e.code, e.info);
			say_addr("by", &e.by, sizeof e.by);
		}
}

static void open_connected(void)
{
	fd = connected("0.0.0.0", PORT, FAR, PEER_PORT);
	CALL(send(fd, "first", 5, 0));
	peer_recv(1000);
	CALL(send(fd, "second", 6, 0));
	peer_recv(1000);
	CRAFT(.text = "hello");
	settle();
	take_all("fd", fd);
}

static void every_code(int type, int codes)
{
	open_connected();
	for (int code = 0; code < codes; code++) {
		if (type == 3 && code == 4)
			continue;
		say("code %d", code);
		icmp((struct icmp){.type = type, .code = code});
		heard();
		look("fd", fd);
		CALL(send(fd, "after", 5, 0));
	}
	report();
}

static void unreachable_codes(void) { every_code(3, 16); }
static void time_exceeded(void) { every_code(11, 2); }
static void parameter_problem(void) { every_code(12, 2); }
static void source_quench(void) { every_code(4, 1); }
static void redirect(void) { every_code(5, 2); }

static void error_at_each_call(void)
{
	char data[16];
	open_connected();
	ICMP(.type = 3, .code = 3);
	heard();
	CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
	CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
	ICMP(.type = 3, .code = 3);
	heard();
	CALL(send(fd, "x", 1, 0));
	CALL(send(fd, "x", 1, 0));
	ICMP(.type = 3, .code = 3);
	heard();
	CALL(write(fd, "x", 1));
	ICMP(.type = 3, .code = 3);
	heard();
	CALL(read(fd, data, sizeof data));
	ICMP(.type = 3, .code = 3);
	heard();
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, "x", 1, 0, SA(to)));
	report();
}

static void error_behind_data(void)
{
	open_connected();
	CRAFT(.text = "before");
	ICMP(.type = 3, .code = 3);
	CRAFT(.text = "behind");
	heard();
	say_recv("fd", fd, MSG_DONTWAIT);
	take_all("fd", fd);
	report();
}

static void not_connected(void)
{
	fd = udp_bound("0.0.0.0", PORT);
	send_to(fd, FAR, PEER_PORT, "first");
	peer_recv(1000);
	send_to(fd, FAR, PEER_PORT, "second");
	peer_recv(1000);
	ICMP(.type = 3, .code = 3);
	heard();
	look("fd", fd);
	CRAFT(.text = "hello");
	settle();
	take_all("fd", fd);
	report();
}

static void recverr_codes(void)
{
	fd = udp_bound("0.0.0.0", PORT);
	MUST(enable(fd, IPPROTO_IP, IP_RECVERR));
	send_to(fd, FAR, PEER_PORT, "first");
	peer_recv(1000);
	static const int codes[] = {0, 1, 3, 13};
	for (size_t i = 0; i < 4; i++) {
		ICMP(.type = 3, .code = codes[i]);
		heard();
		struct pollfd p = {fd, POLLIN | POLLOUT, 0};
		CALL(poll(&p, 1, 0));
		say("%s", event_names((unsigned)p.revents));
		error_queue(fd);
		error_queue(fd);
		look("fd", fd);
	}
	ICMP(.type = 11, .code = 0, .src = "10.78.0.12");
	heard();
	error_queue(fd);
	look("fd", fd);
	CRAFT(.text = "hello");
	settle();
	take_all("fd", fd);
	report();
}

static void quotes_of_others(void)
{
	open_connected();
	ICMP(.type = 3, .code = 3, .nport = PORT + 1);
	ICMP(.type = 3, .code = 3, .fport = PEER_PORT + 1);
	ICMP(.type = 3, .code = 3, .far = "10.78.0.12");
	ICMP(.type = 3, .code = 3, .near = NEAR_ALIAS);
	ICMP(.type = 3, .code = 3, .bad = 1);
	heard();
	look("fd", fd);
	ICMP(.type = 3, .code = 3, .src = "10.78.0.12");
	heard();
	look("fd", fd);
	report();
}

static void path_mtu(void)
{
	static char big[1400];
	open_connected();
	memset(big, 'x', sizeof big);
	sniff();
	CALL(send(fd, big, sizeof big, 0));
	sniffed("before");
	/* With less than the 8 bytes of ports nothing is learnt by a socket. */
	ICMP(.type = 3, .code = 4, .mtu = 1000);
	heard();
	look("fd", fd);
	int mtu = 0;
	socklen_t n = sizeof mtu;
	CALL(getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &n));
	say("mtu %d", mtu);
	sniff();
	CALL(send(fd, big, sizeof big, 0));
	CALL(send(fd, big, sizeof big, 0));
	CALL(send(fd, big, 900, 0));
	sniffed("behind");
	report();
}

static void path_mtu_not_connected(void)
{
	static char big[1400];
	struct sockaddr_in to = addr4(FAR, PEER_PORT), alias = addr4("10.78.0.12", PEER_PORT);
	fd = udp_bound("0.0.0.0", PORT);
	memset(big, 'x', sizeof big);
	send_to(fd, FAR, PEER_PORT, "first");
	peer_recv(1000);
	CALL(sendto(fd, big, sizeof big, 0, SA(to)));
	peer_recv(1000);
	ICMP(.type = 3, .code = 4, .mtu = 1000);
	heard();
	sniff();
	CALL(sendto(fd, big, sizeof big, 0, SA(to)));
	CALL(sendto(fd, big, 900, 0, SA(to)));
	CALL(sendto(fd, big, sizeof big, 0, SA(alias)));
	sniffed("behind");
	report();
}

static void path_mtu_asked_for(void)
{
	static const int kinds[] = {IP_PMTUDISC_DONT, IP_PMTUDISC_WANT, IP_PMTUDISC_DO, IP_PMTUDISC_PROBE};
	static char big[1400];
	memset(big, 'x', sizeof big);
	open_connected();
	ICMP(.type = 3, .code = 4, .mtu = 1000);
	heard();
	look("fd", fd);
	for (size_t i = 0; i < 4; i++) {
		MUST(set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, kinds[i]));
		sniff();
		CALL(send(fd, big, sizeof big, 0));
		CALL(send(fd, big, 500, 0));
		sniffed("on the wire");
		look("fd", fd);
	}
	report();
}

static void refused_by_the_peer(void)
{
	fd = connected("0.0.0.0", PORT, FAR, 7001);
	struct sockaddr_in open = addr4(FAR, PEER_PORT);
	for (int i = 0; i < 4; i++) {
		CALL(send(fd, "x", 1, 0));
		heard();
	}
	look("fd", fd);
	CALL(connect(fd, SA(open)));
	CALL(send(fd, "y", 1, 0));
	CALL(send(fd, "z", 1, 0));
	peer_recv(1000);
	peer_recv(1000);
	report();
}

static void no_socket_no_answer(void)
{
	/* What this host answers to datagrams for nobody, while the engine has the interface. */
	fd = udp_bound("0.0.0.0", PORT);
	sniff();
	CRAFT(.text = "to nobody", .dport = PORT + 9);
	CRAFT(.text = "to nobody's broadcast", .dport = PORT + 9, .dst = "10.78.0.255", .to = "ff:ff:ff:ff:ff:ff");
	CRAFT(.text = "to somebody");
	CRAFT(.text = "wrong sum", .sum = BAD, .dport = PORT + 9);
	sniffed("answers");
	take_all("fd", fd);
	struct sockaddr_in peer = addr4(FAR, 1);
	MUST(connect(fd, SA(peer)));
	sniff();
	CRAFT(.text = "from another than the peer");
	sniffed("answers");
	report();
}

int main(int argc, char **argv)
{
	static const struct scene scenes[] = {
		SCENE(unreachable_codes), SCENE(time_exceeded), SCENE(parameter_problem), SCENE(source_quench),
		SCENE(redirect), SCENE(error_at_each_call), SCENE(error_behind_data), SCENE(not_connected),
		SCENE(recverr_codes), SCENE(quotes_of_others), SCENE(path_mtu), SCENE(path_mtu_not_connected),
		SCENE(path_mtu_asked_for), SCENE(refused_by_the_peer), SCENE(no_socket_no_answer), {0}};
	return play(scenes, argc, argv);
}
