/* iovecs CALL WHAT: vectors of every shape. */
#include "common.h"
#include <limits.h>

static char data[4096];
static struct iovec io[1025];

int main(int argc, char **argv)
{
	const char *call = argv[1], *what = argv[2];
	void *volatile nowhere = NULL;
	struct iovec *v = io;
	size_t count = 3;
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in far = addr4(FAR, PEER_PORT);
	MUST(connect(fd, SA(far)));
	memcpy(data, "abcdefghijklmnopqrstuvwxyz", 26);
	for (int i = 0; i < 1025; i++)
		io[i] = (struct iovec){data + i, 1};
	if (argc < 3)
		die("arguments");
	if (!strcmp(what, "none"))
		count = 0;
	else if (!strcmp(what, "null_vector"))
		v = nowhere;
	else if (!strcmp(what, "null_vector_none"))
		v = nowhere, count = 0;
	else if (!strcmp(what, "one"))
		io[0].iov_len = 26, count = 1;
	else if (!strcmp(what, "gaps"))
		for (int i = 0; i < 1025; i++)
			io[i].iov_len = (size_t)(i % 3), count = 9;
	else if (!strcmp(what, "empty"))
		for (int i = 0; i < 1025; i++)
			io[i].iov_len = 0;
	else if (!strcmp(what, "most"))
		count = 1024;
	else if (!strcmp(what, "too_many"))
		count = 1025;
	else if (!strcmp(what, "null_base"))
		io[1].iov_base = nowhere;
	else if (!strcmp(what, "null_base_empty"))
		io[1] = (struct iovec){nowhere, 0};
	else if (!strcmp(what, "kernel_base"))
		io[1].iov_base = (void *)(1UL << 63);
	else if (!strcmp(what, "kernel_base_empty"))
		io[1] = (struct iovec){(void *)(1UL << 63), 0};
	else if (!strcmp(what, "kernel_end"))
		io[1].iov_len = SSIZE_MAX / 2;
	else if (!strcmp(what, "negative"))
		io[1].iov_len = (size_t)-1;
	else if (!strcmp(what, "sum"))
		io[0].iov_len = io[1].iov_len = SSIZE_MAX;
	else
		die(what);
	struct mmsghdr m = {.msg_hdr = {.msg_iov = v, .msg_iovlen = count}};
	if (strchr("rR", *call))
		peer_send(NEAR, PORT, "0123456789");
	memset(data + 26, '.', 30);
	if (!strcmp(call, "readv"))
		CALL(readv(fd, v, (int)count));
	else if (!strcmp(call, "recvmsg"))
		CALL(recvmsg(fd, &m.msg_hdr, MSG_DONTWAIT));
	else if (!strcmp(call, "recvmmsg"))
		CALL(recvmmsg(fd, &m, 1, MSG_DONTWAIT, NULL));
	else if (!strcmp(call, "writev"))
		CALL(writev(fd, v, (int)count));
	else if (!strcmp(call, "sendmsg"))
		CALL(sendmsg(fd, &m.msg_hdr, 0));
	else
		CALL(sendmmsg(fd, &m, 1, 0));
	say("  length %u", m.msg_len);
	say_flags(m.msg_hdr.msg_flags);
	say_bytes("data", data, 56);
	if (strchr("rR", *call)) {
		say_recv("left", fd, MSG_DONTWAIT);
		peer_send(NEAR, PORT, "end");
		say_recv("end", fd, 0);
	} else {
		CALL(send(fd, "end", 3, 0));
		peer_recv(1000);
		peer_recv(20);
	}
	report();
	return done();
}
