/* cmsg_send CALL FAMILY: control messages of sendmsg, right and wrong, and what the far host sees of them. */
#include "common.h"

#define SEEN 7001
static int fd;
static bool v6, many;
static char control[512];
static size_t used;

static void add(int level, int type, const void *data, size_t size)
{
	struct cmsghdr *c = (void *)(control + used);
	*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(size), .cmsg_level = level, .cmsg_type = type};
	memcpy(CMSG_DATA(c), data, size);
	used += CMSG_SPACE(size);
}

static void number(int level, int type, int value, size_t size)
{
	add(level, type, &value, size);
}

static void info(const char *source, int index)
{
	struct in_pktinfo i = {.ipi_ifindex = index};
	inet_pton(AF_INET, source, &i.ipi_spec_dst);
	add(IPPROTO_IP, IP_PKTINFO, &i, sizeof i);
}

static void info6(const char *source, unsigned index)
{
	struct in6_pktinfo i = {.ipi6_ifindex = index};
	inet_pton(AF_INET6, source, &i.ipi6_addr);
	add(IPPROTO_IPV6, IPV6_PKTINFO, &i, sizeof i);
}

static void go(const char *what)
{
	struct sockaddr_in far = addr4(FAR, SEEN);
	struct sockaddr_in6 far6 = addr6("::ffff:" FAR, SEEN);
	struct iovec io = {"data", 4};
	struct mmsghdr m = {.msg_hdr = {.msg_name = v6 ? (void *)&far6 : (void *)&far,
					.msg_namelen = v6 ? sizeof far6 : sizeof far, .msg_iov = &io, .msg_iovlen = 1,
					.msg_control = control, .msg_controllen = used}};
	say("%s", what);
	if (many)
		CALL(sendmmsg(fd, &m, 1, 0));
	else
		CALL(sendmsg(fd, &m.msg_hdr, 0));
	const char *answer = peer_ask("", 0, "observed 1 30");
	say("  %s", strncmp(answer, "ok", 2) ? "nothing" : answer);
	memset(control, 0, sizeof control);
	used = 0;
}

int main(int argc, char **argv)
{
	begin(20);
	if (argc < 3)
		die("arguments");
	many = !strcmp(argv[1], "sendmmsg");
	v6 = !strcmp(argv[2], "v6");
	peer_start();
	PEER_DO("", 0, "observe 1 %s %d", FAR, SEEN);
	fd = MUST(socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in any = addr4("0.0.0.0", PORT);
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	MUST(v6 ? bind(fd, SA(any6)) : bind(fd, SA(any)));
	int veth = (int)if_nametoindex("veth0"), lo = (int)if_nametoindex("lo");
	int rights[2] = {0, 1};
	go("nothing");
	go("nothing again");
	info("0.0.0.0", 0); go("pktinfo of nothing");
	info(NEAR_ALIAS, 0); go("source");
	info(NEAR_ALIAS, veth); go("source and interface");
	info("0.0.0.0", veth); go("interface");
	info("0.0.0.0", lo); go("other interface");
	info("0.0.0.0", 9999); go("no interface");
	info("0.0.0.0", -1); go("negative interface");
	info("192.0.2.1", 0); go("foreign source");
	info("127.0.0.1", 0); go("loopback source");
	info("224.0.0.1", 0); go("multicast source");
	info("255.255.255.255", 0); go("broadcast source");
	for (const int *ttl = (int[]){0, 1, 7, 255, 256, -1, 1000}; *ttl != 1000; ttl++) {
		char text[32];
		snprintf(text, sizeof text, "ttl %d", *ttl);
		number(IPPROTO_IP, IP_TTL, *ttl, 4); go(text);
	}
	number(IPPROTO_IP, IP_TTL, 7, 1); go("ttl in a byte");
	number(IPPROTO_IP, IP_TTL, 7, 8); go("ttl too long");
	for (const int *tos = (int[]){0, 0x10, 0xb8, 0xff, 1, 2, 3, 256, -1, 1000}; *tos != 1000; tos++) {
		char text[32];
		snprintf(text, sizeof text, "tos %d", *tos);
		number(IPPROTO_IP, IP_TOS, *tos, 4); go(text);
		number(IPPROTO_IP, IP_TOS, *tos, 1); go(text);
	}
	number(IPPROTO_IP, IP_TOS, 1, 2); go("tos in two bytes");
	info(NEAR_ALIAS, veth); number(IPPROTO_IP, IP_TTL, 9, 4); number(IPPROTO_IP, IP_TOS, 8, 1); go("all three");
	info(NEAR, 0); info(NEAR_ALIAS, 0); go("twice");
	number(IPPROTO_IP, IP_TTL, 3, 4); number(IPPROTO_IP, IP_TTL, 5, 4); go("ttl twice");
	number(IPPROTO_IP, 200, 1, 4); go("unknown type");
	number(200, IP_TTL, 1, 4); go("unknown level");
	number(SOL_SOCKET, 200, 1, 4); go("unknown to SOL_SOCKET");
	add(SOL_SOCKET, SCM_RIGHTS, rights, sizeof rights); go("rights");
	number(SOL_SOCKET, SO_MARK, 5, 4); go("mark");
	number(SOL_SOCKET, SO_MARK, 5, 8); go("mark too long");
	number(SOL_SOCKET, 82, 5, 4); go("priority");
	number(SOL_SOCKET, SO_TIMESTAMPING, 1 << 1, 4); go("timestamping");
	number(SOL_UDP, UDP_SEGMENT, 2, 2); go("segments of 2");
	peer_ask("", 0, "observed 1 30");
	number(SOL_UDP, UDP_SEGMENT, 2, 4); go("segment too long");
	number(SOL_UDP, UDP_SEGMENT, 0, 2); go("segments of 0");
	number(SOL_UDP, UDP_SEGMENT, 100, 2); go("segment larger than the payload");
	number(SOL_UDP, 99, 1, 4); go("unknown to UDP");
	number(IPPROTO_IP, IP_TTL, 7, 4); ((struct cmsghdr *)control)->cmsg_len = 4; go("length below a header");
	number(IPPROTO_IP, IP_TTL, 7, 4); ((struct cmsghdr *)control)->cmsg_len = 400; go("length above the buffer");
	number(IPPROTO_IP, IP_TTL, 7, 4); used = 15; go("buffer below a header");
	number(IPPROTO_IP, IP_TTL, 7, 4); used = 19; go("buffer cut");
	number(IPPROTO_IP, IP_TTL, 7, 4); used = 30; go("rest behind");
	number(IPPROTO_IP, IP_TTL, 7, 4); ((struct cmsghdr *)control)->cmsg_len = 0; go("length 0");
	info6("::ffff:" NEAR_ALIAS, 0); go("v6 source");
	info6("::", (unsigned)veth); go("v6 interface");
	info6("fd78::1", 0); go("v6 native source");
	number(IPPROTO_IPV6, IPV6_HOPLIMIT, 9, 4); go("hop limit");
	number(IPPROTO_IPV6, IPV6_TCLASS, 9, 4); go("traffic class");
	go("nothing at last");
	report();
	return done();
}
