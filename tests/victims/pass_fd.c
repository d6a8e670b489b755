/* A socket sent to another process over a Unix socket works there. */
#include "common.h"

int main(void)
{
	int pair[2];
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec io = {&byte, 1};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = control,
			   .msg_controllen = sizeof control};
	begin(10);
	peer_start();
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		peer_fd = -1;
		alarm(10);
		MUST(recvmsg(pair[1], &m, 0));
		int fd;
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
		peer_send(NEAR, PORT, "to the other process");
		say_recv("other process", fd, 0);
		struct pollfd p = {.fd = fd, .events = POLLIN};
		peer_send_later(40, NEAR, PORT, "polled");
		CALL(poll(&p, 1, 3000));
		say_recv("other process", fd, 0);
		struct sockaddr_in to = addr4(FAR, PEER_PORT);
		CALL(sendto(fd, "out", 3, 0, SA(to)));
		peer_recv(1000);
		fflush(stdout);
		_exit(0);
	}
	int fd = udp_bound("0.0.0.0", PORT), status;
	peer_send(NEAR, PORT, "warm");
	say_recv("first process", fd, 0);
	report();
	memset(control, 0, sizeof control);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	byte = 'x';
	CALL(sendmsg(pair[0], &m, 0));
	CALL(close(fd));
	MUST(waitpid(child, &status, 0));
	say("child ended %#x", status);
	return done();
}
