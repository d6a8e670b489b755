/* One datagram in and one out by the call family that argv[1] names. */
#include "common.h"

/* Not a constant for the compiler, so that a fortified build takes the checked twins. */
static volatile size_t room = 64;

static long receive(const char *how, int fd, char *data)
{
	size_t size = room;
	struct sockaddr_in from = {0};
	socklen_t length = sizeof from;
	struct iovec io[2] = {{data, 3}, {data + 3, size - 3}};
	if (!strcmp(how, "recv"))
		return CALL(recv(fd, data, size, 0));
	if (!strcmp(how, "read"))
		return CALL(read(fd, data, size));
	if (!strcmp(how, "readv"))
		return CALL(readv(fd, io, 2));
	if (!strcmp(how, "recvfrom")) {
		long n = CALL(recvfrom(fd, data, size, 0, (struct sockaddr *)&from, &length));
		say_addr("from", &from, length);
		return n;
	}
	struct mmsghdr m[2] = {{.msg_hdr = {.msg_name = &from, .msg_namelen = length,
					    .msg_iov = io, .msg_iovlen = 2}}};
	if (!strcmp(how, "recvmsg")) {
		long n = CALL(recvmsg(fd, &m[0].msg_hdr, 0));
		say_addr("from", &from, m[0].msg_hdr.msg_namelen);
		say_flags(m[0].msg_hdr.msg_flags);
		return n;
	}
	m[1] = m[0];
	CALL(recvmmsg(fd, m, 1, 0, NULL));
	say_addr("from", &from, m[0].msg_hdr.msg_namelen);
	return m[0].msg_len;
}

static void transmit(const char *how, int fd, struct sockaddr_in *to, char *data, size_t n)
{
	struct iovec io[2] = {{data, 2}, {data + 2, n - 2}};
	struct mmsghdr m[2] = {{.msg_hdr = {.msg_name = to, .msg_namelen = to ? sizeof *to : 0,
					    .msg_iov = io, .msg_iovlen = 2}}};
	m[1] = m[0];
	if (!strcmp(how, "recv"))
		CALL(send(fd, data, n, 0));
	else if (!strcmp(how, "read"))
		CALL(write(fd, data, n));
	else if (!strcmp(how, "readv"))
		CALL(writev(fd, io, 2));
	else if (!strcmp(how, "recvfrom"))
		CALL(sendto(fd, data, n, 0, (struct sockaddr *)to, sizeof *to));
	else if (!strcmp(how, "recvmsg"))
		CALL(sendmsg(fd, &m[0].msg_hdr, 0));
	else {
		CALL(sendmmsg(fd, m, 2, 0));
		say("  lengths %u %u", m[0].msg_len, m[1].msg_len);
		peer_recv(1000);
	}
	peer_recv(1000);
}

int main(int argc, char **argv)
{
	char data[64];
	const char *how = argc > 1 ? argv[1] : "recvfrom";
	bool connected = !strcmp(how, "recv") || !strcmp(how, "read") || !strcmp(how, "readv");
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	if (connected)
		CALL(connect(fd, SA(to)));
	for (int i = 0; i < 3; i++) {
		memset(data, 0, sizeof data);
		peer_send(NEAR, PORT, "hello, near host");
		long n = receive(how, fd, data);
		say_bytes("data", data, n);
		transmit(how, fd, connected ? NULL : &to, data, n);
	}
	/* And one that has to be waited for. */
	peer_send_later(40, NEAR, PORT, "late");
	say_bytes("data", data, receive(how, fd, data));
	report();
	return done();
}
