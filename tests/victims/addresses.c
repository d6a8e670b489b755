/* addresses CALL FAMILY: destinations and peers, right and wrong. */
#include "common.h"

static int fd;
static bool v6;
static const char *call;

static void piece(const char *what, const void *address, socklen_t length)
{
	struct iovec io = {"data", 4};
	struct mmsghdr m = {.msg_hdr = {.msg_name = (void *)address, .msg_namelen = length, .msg_iov = &io, .msg_iovlen = 1}};
	say("%s, %d bytes", what, (int)length);
	if (!strcmp(call, "sendto"))
		CALL(sendto(fd, "data", 4, 0, address, length));
	else if (!strcmp(call, "sendmsg"))
		CALL(sendmsg(fd, &m.msg_hdr, 0));
	else if (!strcmp(call, "sendmmsg"))
		CALL(sendmmsg(fd, &m, 1, 0));
	else {
		struct sockaddr_storage name = {0};
		socklen_t room = sizeof name;
		if (!strcmp(call, "connect"))
			CALL(connect(fd, address, length));
		else
			CALL(bind(fd, address, length));
		CALL(getpeername(fd, (struct sockaddr *)&name, &room));
		if (name.ss_family)
			say_addr("peer", &name, room);
		room = sizeof name;
		memset(&name, 0, sizeof name);
		CALL(getsockname(fd, (struct sockaddr *)&name, &room));
		in_port_t port = ((struct sockaddr_in *)&name)->sin_port;
		if (ntohs(port) >= 32768)
			((struct sockaddr_in *)&name)->sin_port = htons(1);
		say_addr("name", &name, room);
		struct sockaddr_in none = {.sin_family = AF_UNSPEC};
		if (!strcmp(call, "connect"))
			CALL(connect(fd, SA(none)));
	}
	while (strncmp(peer_ask("", 0, "recv 0 1"), "none", 4))
		say("  it came");
}

int main(int argc, char **argv)
{
	begin(20);
	if (argc < 3)
		die("arguments");
	call = argv[1];
	v6 = !strcmp(argv[2], "v6");
	peer_start();
	fd = MUST(socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in far = addr4(FAR, PEER_PORT), bad = far;
	struct sockaddr_in6 far6 = addr6("::ffff:" FAR, PEER_PORT), bad6 = far6;
	char big[1024] = {0};
	if (strcmp(call, "bind")) {
		struct sockaddr_in any = addr4("0.0.0.0", PORT);
		struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
		MUST(v6 ? bind(fd, SA(any6)) : bind(fd, SA(any)));
	}
	for (int i = 0; i < 2; i++) {
		memcpy(big, i ? (void *)&far6 : (void *)&far, 28);
		for (const int *n = (int[]){0, 1, 2, 4, 8, 15, 16, 17, 20, 24, 27, 28, 29, 128, 129, 1000, -1, INT32_MIN}; ; n++) {
			piece(i ? "v6" : "v4", big, (socklen_t)*n);
			if (*n == INT32_MIN)
				break;
		}
	}
	piece("null", NULL, 16);
	piece("null", NULL, 0);
	piece("null", NULL, 1000);
	piece("nowhere", (void *)8, 16);
	piece("kernel", (void *)(1UL << 63), 16);
	for (int family = 0; family < 18; family += 1 + (family > 2) * 3) {
		bad.sin_family = (sa_family_t)family;
		bad6.sin6_family = (sa_family_t)family;
		say("family %d", family);
		piece("v4", &bad, sizeof bad);
		piece("v6", &bad6, sizeof bad6);
	}
	static const char *const hosts[] = {"0.0.0.0", "10.78.0.255", "255.255.255.255", "127.0.0.1", "224.0.0.1", NEAR, NEAR_ALIAS,
		"192.0.2.1", "10.78.0.0", "240.0.0.1", "0.1.2.3"};
	for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
		bad = addr4(hosts[i], 4242);
		char text[64];
		snprintf(text, sizeof text, "::ffff:%s", hosts[i]);
		bad6 = addr6(text, 4242);
		if (v6)
			piece(text, &bad6, sizeof bad6);
		else
			piece(hosts[i], &bad, sizeof bad);
	}
	bad = addr4(FAR, 0);
	piece("port 0", &bad, sizeof bad);
	bad6 = addr6("::", 0);
	piece("none", &bad6, sizeof bad6);
	bad6 = addr6("fd78::2", 4242);
	piece("native", &bad6, sizeof bad6);
	bad6 = addr6("fe80::1", 4242);
	piece("link local", &bad6, sizeof bad6);
	if (v6)
		piece("good", &far6, sizeof far6);
	else
		piece("good", &far, sizeof far);
	report();
	return done();
}
