/* cmsg_receive FAMILY OPTION...: what each option brings, in rooms of every size. */
#include "common.h"
#include <linux/net_tstamp.h>
#ifndef IP_RECVFRAGSIZE
#define IP_RECVFRAGSIZE 25
#endif

static const struct { const char *name; int level, option, value; } options[] = {
	{"pktinfo", IPPROTO_IP, IP_PKTINFO, 1}, {"ttl", IPPROTO_IP, IP_RECVTTL, 1},
	{"tos", IPPROTO_IP, IP_RECVTOS, 1}, {"origdst", IPPROTO_IP, IP_RECVORIGDSTADDR, 1},
	{"fragsize", IPPROTO_IP, IP_RECVFRAGSIZE, 1}, {"checksum", IPPROTO_IP, 23, 1},
	{"recvopts", IPPROTO_IP, IP_RECVOPTS, 1}, {"retopts", IPPROTO_IP, IP_RETOPTS, 1},
	{"passsec", IPPROTO_IP, IP_PASSSEC, 1},
	{"timestamp", SOL_SOCKET, SO_TIMESTAMP, 1}, {"timestampns", SOL_SOCKET, SO_TIMESTAMPNS, 1},
	{"timestamp_new", SOL_SOCKET, 63, 1}, {"timestampns_new", SOL_SOCKET, 64, 1},
	{"timestamping", SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE},
	{"timestamping_new", SOL_SOCKET, 65, SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE},
	{"timestamping_report", SOL_SOCKET, SO_TIMESTAMPING, SOF_TIMESTAMPING_SOFTWARE},
	{"timestamping_raw", SOL_SOCKET, SO_TIMESTAMPING,
	 SOF_TIMESTAMPING_RX_HARDWARE | SOF_TIMESTAMPING_RAW_HARDWARE},
	{"timestamping_pktinfo", SOL_SOCKET, SO_TIMESTAMPING,
	 SOF_TIMESTAMPING_RX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_CMSG},
	{"ovfl", SOL_SOCKET, SO_RXQ_OVFL, 1}, {"passcred", SOL_SOCKET, SO_PASSCRED, 1},
	{"mark", SOL_SOCKET, 75, 1}, {"priority", SOL_SOCKET, 82, 1},
	{"wifi", SOL_SOCKET, SO_WIFI_STATUS, 1},
	{"gro", SOL_UDP, UDP_GRO, 1},
	{"pktinfo6", IPPROTO_IPV6, IPV6_RECVPKTINFO, 1}, {"hoplimit", IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1},
	{"tclass", IPPROTO_IPV6, IPV6_RECVTCLASS, 1}, {"origdst6", IPPROTO_IPV6, 74, 1},
	{"flowinfo", IPPROTO_IPV6, 11, 1}, {"rthdr", IPPROTO_IPV6, IPV6_RECVRTHDR, 1},
	{"hopopts", IPPROTO_IPV6, IPV6_RECVHOPOPTS, 1}, {"fragsize6", IPPROTO_IPV6, 77, 1},
	{"pathmtu", IPPROTO_IPV6, IPV6_RECVPATHMTU, 1}, {"oldpktinfo6", IPPROTO_IPV6, IPV6_2292PKTINFO, 1},
};

static void set(int fd, const char *name, bool on)
{
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (!strcmp(options[i].name, name)) {
			int value = on ? options[i].value : 0;
			say("%s %d", name, on);
			CALL(setsockopt(fd, options[i].level, options[i].option, &value, sizeof value));
			return;
		}
	die(name);
}

static bool is_time(const struct cmsghdr *c)
{
	return c->cmsg_level == SOL_SOCKET && (c->cmsg_type == SO_TIMESTAMP || c->cmsg_type == SO_TIMESTAMPNS ||
	       c->cmsg_type == SO_TIMESTAMPING || (c->cmsg_type >= 63 && c->cmsg_type <= 65));
}

static void one(int fd, size_t room, int flags)
{
	static unsigned char control[1024];
	char data[64];
	struct sockaddr_storage from;
	struct iovec io = {data, sizeof data};
	struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &io, .msg_iovlen = 1,
			   .msg_control = control, .msg_controllen = room};
	memset(control, 0xee, sizeof control);
	say("room %zu", room);
	CALL(recvmsg(fd, &m, flags));
	say_flags(m.msg_flags);
	say("  control %zu", (size_t)m.msg_controllen);
	int touched = 0;
	for (int i = 0; i < (int)sizeof control; i++)
		if (control[i] != 0xee)
			touched = i + 1;
	say("  touched %d", touched);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		size_t length = c->cmsg_len - sizeof *c;
		printf("  level %d type %d length %zu:", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
		if (is_time(c)) {
			/* Times differ; that there is one, or none, does not. */
			int64_t *word = (void *)CMSG_DATA(c);
			for (size_t i = 0; i < length / 8; i += 2)
				printf(" %s", !word[i] ? "none" : llabs(word[i] - time(NULL)) < 5 ? "now" : "odd");
			puts("");
		} else {
			for (size_t i = 0; i < length && i < 32; i++)
				printf(" %02x", CMSG_DATA(c)[i]);
			puts("");
		}
	}
}

int main(int argc, char **argv)
{
	static const int rooms[] = {0, 1, 15, 16, 17, 20, 24, 28, 32, 40, 48, 64, 80, 1000};
	bool v6 = !strcmp(argv[1], "v6");
	begin(10);
	peer_start();
	int fd = MUST(socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in any = addr4("0.0.0.0", PORT);
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	MUST(v6 ? bind(fd, SA(any6)) : bind(fd, SA(any)));
	for (int i = 2; i < argc; i++)
		set(fd, argv[i], true);
	sleep_ms(5);
	for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
		peer_send(NEAR, PORT, "data");
		if (rooms[i] == 1000)
			one(fd, 1000, MSG_DONTWAIT | MSG_PEEK);
		one(fd, (size_t)rooms[i], MSG_DONTWAIT);
	}
	peer_send(NEAR_ALIAS, PORT, "alias");
	one(fd, 1000, MSG_DONTWAIT);
	/* What is queued when the option goes, and comes. Whether SO_TIMESTAMPING finds a stamp then
	 * is up to the other programs on the machine. */
	bool local = true;
	for (int i = 2; i < argc; i++)
		local &= strncmp(argv[i], "timestamping", 12) != 0;
	for (int on = 0; on < 2 && local; on++) {
		peer_send(NEAR, PORT, "queued");
		for (int i = 2; i < argc; i++)
			set(fd, argv[i], on);
		one(fd, 1000, MSG_DONTWAIT);
	}
	struct iovec io = {(char[8]){0}, 8};
	struct msghdr none = {.msg_iov = &io, .msg_iovlen = 1, .msg_controllen = 100};
	peer_send(NEAR, PORT, "null");
	CALL(recvmsg(fd, &none, MSG_DONTWAIT));
	say_flags(none.msg_flags);
	say("  control %zu", (size_t)none.msg_controllen);
	say_recv("left", fd, MSG_DONTWAIT);
	report();
	return done();
}
