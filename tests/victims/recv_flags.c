/* recv_flags CALL FLAG...: three datagrams, a short buffer, then an empty queue. */
#include "common.h"

static char data[8], control[64];
static const char *call;

static int by_name(const char *name)
{
	static const struct { const char *name; int bit; } flags[] = {
		{"peek", MSG_PEEK}, {"trunc", MSG_TRUNC}, {"waitall", MSG_WAITALL},
		{"dontwait", MSG_DONTWAIT}, {"errqueue", MSG_ERRQUEUE}, {"oob", MSG_OOB},
		{"cloexec", MSG_CMSG_CLOEXEC}, {"nosignal", MSG_NOSIGNAL}, {"ctrunc", MSG_CTRUNC},
		{"waitforone", MSG_WAITFORONE}, {"confirm", MSG_CONFIRM}, {"unknown", 1 << 24},
		{"eor", MSG_EOR}, {"dontroute", MSG_DONTROUTE},
	};
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (!strcmp(name, flags[i].name))
			return flags[i].bit;
	die(name);
	return 0;
}

static void once(int fd, int flags, size_t room)
{
	struct sockaddr_in from = {0};
	socklen_t size = sizeof from;
	struct iovec io[2] = {{data, room / 2}, {data + room / 2, room - room / 2}};
	struct mmsghdr m[3];
	memset(data, 0, sizeof data);
	memset(m, 0, sizeof m);
	for (int i = 0; i < 3; i++)
		m[i].msg_hdr = (struct msghdr){.msg_name = &from, .msg_namelen = size, .msg_iov = io,
			.msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof control,
			.msg_flags = 0x55};
	long n;
	if (!strcmp(call, "recv")) {
		n = CALL(recv(fd, data, room, flags));
		size = 0;
	} else if (!strcmp(call, "recvfrom")) {
		n = CALL(recvfrom(fd, data, room, flags, (struct sockaddr *)&from, &size));
	} else if (!strcmp(call, "recvmsg")) {
		n = CALL(recvmsg(fd, &m->msg_hdr, flags));
	} else {
		n = CALL(recvmmsg(fd, m, 2, flags, NULL));
		say("  lengths %u %u", m[0].msg_len, m[1].msg_len);
	}
	if (!strcmp(call, "recvmsg") || !strcmp(call, "recvmmsg")) {
		say("  name %u control %zu", m->msg_hdr.msg_namelen, (size_t)m->msg_hdr.msg_controllen);
		say_flags(m->msg_hdr.msg_flags);
		size = m->msg_hdr.msg_namelen;
	}
	if (n >= 0 && from.sin_family)
		say_addr("from", &from, size);
	say_bytes("data", data, sizeof data);
}

int main(int argc, char **argv)
{
	int flags = 0;
	begin(10);
	call = argv[1];
	for (int i = 2; i < argc; i++)
		flags |= by_name(argv[i]);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "warm");
	say_recv("warm", fd, 0);
	peer_send(NEAR, PORT, "abcdefghij");
	peer_send(NEAR, PORT, "");
	peer_send(NEAR, PORT, "third");
	int queued = -1;
	CALL(ioctl(fd, FIONREAD, &queued));
	say("  %d", queued);
	once(fd, flags | MSG_DONTWAIT, 4);
	once(fd, flags | MSG_DONTWAIT, 8);
	once(fd, flags | MSG_DONTWAIT, 0);
	while (say_recv("rest", fd, MSG_DONTWAIT) >= 0)
		;
	once(fd, flags | MSG_DONTWAIT, 4);
	report();
	return done();
}
