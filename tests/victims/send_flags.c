/* send_flags CALL FLAG...: what send flags do, and that the next send is whole. */
#include "common.h"

static int by_name(const char *name)
{
	static const struct { const char *name; int bit; } flags[] = {
		{"oob", MSG_OOB}, {"dontroute", MSG_DONTROUTE}, {"dontwait", MSG_DONTWAIT}, {"eor", MSG_EOR},
		{"confirm", MSG_CONFIRM}, {"nosignal", MSG_NOSIGNAL}, {"more", MSG_MORE}, {"peek", MSG_PEEK},
		{"trunc", MSG_TRUNC}, {"probe", 0x10}, {"zerocopy", 0x4000000}, {"fastopen", 0x20000000},
		{"splice", 0x8000000}, {"batch", 0x40000}, {"unknown", 1 << 24}, {"fin", 0x200}, {"syn", 0x400},
		{"rst", 0x1000}, {"errqueue", MSG_ERRQUEUE}, {"waitall", MSG_WAITALL}, {"cloexec", MSG_CMSG_CLOEXEC},
		{"none", 0},
	};
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (!strcmp(name, flags[i].name))
			return flags[i].bit;
	die(name);
	return 0;
}

int main(int argc, char **argv)
{
	int flags = 0;
	begin(10);
	for (int i = 2; i < argc; i++)
		flags |= by_name(argv[i]);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in far = addr4(FAR, PEER_PORT);
	struct iovec io[2] = {{"abc", 3}, {"defg", 4}};
	struct mmsghdr m[2] = {{.msg_hdr = {.msg_name = &far, .msg_namelen = sizeof far, .msg_iov = io, .msg_iovlen = 2}},
			       {.msg_hdr = {.msg_name = &far, .msg_namelen = sizeof far, .msg_iov = io, .msg_iovlen = 1}}};
	MUST(sendto(fd, "warm", 4, 0, SA(far)));
	peer_recv(1000);
	for (int round = 0; round < 2; round++) {
		if (!strcmp(argv[1], "sendto"))
			CALL(sendto(fd, "data", 4, flags, SA(far)));
		else if (!strcmp(argv[1], "sendmsg"))
			CALL(sendmsg(fd, &m->msg_hdr, flags));
		else if (!strcmp(argv[1], "sendmmsg"))
			CALL(sendmmsg(fd, m, 2, (unsigned)flags));
		else {
			CALL(connect(fd, SA(far)));
			CALL(send(fd, "data", 4, flags));
		}
		say("  lengths %u %u", m[0].msg_len, m[1].msg_len);
		peer_recv(30);
	}
	CALL(sendto(fd, "next", 4, 0, SA(far)));
	while (strncmp(peer_ask("", 0, "recv 0 40"), "none", 4))
		say("  one more");
	CALL(sendto(fd, "last", 4, 0, SA(far)));
	peer_recv(200);
	peer_send(NEAR, PORT, "answer");
	say_recv("answer", fd, 0);
	report();
	return done();
}
