/* syscall(2): calls by number on the same sockets as calls by name. */
#include "common.h"
#include <sys/syscall.h>

int main(void)
{
	char data[64];
	struct sockaddr_in from, to = addr4(FAR, PEER_PORT);
	socklen_t length = sizeof from;
	struct iovec io = {data, sizeof data};
	struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &io, .msg_iovlen = 1};
	struct mmsghdr many = {.msg_hdr = m};
	begin(20);
	peer_start();
	int fd = (int)CALL(syscall(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	struct sockaddr_in here = addr4("0.0.0.0", PORT);
	CALL(syscall(SYS_bind, fd, &here, sizeof here));

	peer_send(NEAR, PORT, "recvfrom");
	CALL(syscall(SYS_recvfrom, fd, data, sizeof data, 0, &from, &length));
	say_bytes("data", data, 8);
	say_addr("from", &from, length);
	peer_send(NEAR, PORT, "recvmsg");
	CALL(syscall(SYS_recvmsg, fd, &m, 0));
	peer_send(NEAR, PORT, "recvmmsg");
	CALL(syscall(SYS_recvmmsg, fd, &many, 1, 0, NULL));
	peer_send(NEAR, PORT, "read");
	CALL(syscall(SYS_read, fd, data, sizeof data));
	peer_send(NEAR, PORT, "readv");
	CALL(syscall(SYS_readv, fd, &io, 1));
	CALL(syscall(SYS_recvfrom, fd, data, sizeof data, MSG_DONTWAIT, NULL, NULL));

	CALL(syscall(SYS_sendto, fd, "sendto", 6, 0, &to, sizeof to));
	peer_recv(1000);
	m = (struct msghdr){.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &io, .msg_iovlen = 1};
	memcpy(data, "message", 7);
	io.iov_len = 7;
	CALL(syscall(SYS_sendmsg, fd, &m, 0));
	peer_recv(1000);
	many.msg_hdr = m;
	CALL(syscall(SYS_sendmmsg, fd, &many, 1, 0));
	peer_recv(1000);

	say("readiness");
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct timespec second = {1, 0};
	struct timeval tv = {1, 0};
	fd_set set;
	struct epoll_event want = {.events = EPOLLIN}, got;
	int ep = (int)CALL(syscall(SYS_epoll_create1, EPOLL_CLOEXEC));
	CALL(syscall(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, fd, &want));
	peer_send(NEAR, PORT, "ready");
	CALL(syscall(SYS_ppoll, &p, 1, &second, NULL, 8));
	say("  of the second %s is left", second.tv_sec == 0 && second.tv_nsec > 0 ? "something" : "nothing or all");
	CALL(syscall(SYS_ppoll, &p, 1, &second, data, 7));
	second = (struct timespec){1, 0};
	FD_ZERO(&set);
	FD_SET(fd, &set);
	CALL(syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &second, NULL));
	say("  of the second %s is left", second.tv_sec == 0 && second.tv_nsec > 0 ? "something" : "nothing or all");
	CALL(syscall(SYS_epoll_pwait, ep, &got, 1, 1000, NULL, 8));
#ifdef __x86_64__
	CALL(syscall(SYS_poll, &p, 1, 1000));
	CALL(syscall(SYS_select, fd + 1, &set, NULL, NULL, &tv));
	CALL(syscall(SYS_epoll_wait, ep, &got, 1, 1000));
#endif
	second = (struct timespec){1, 0};
	CALL(syscall(SYS_epoll_pwait2, ep, &got, 1, &second, NULL, 8));
	CALL(syscall(SYS_read, fd, data, sizeof data));
	second = (struct timespec){0, 20000000};
	CALL(syscall(SYS_ppoll, &p, 1, &second, NULL, 8));
	say("  %ld.%09ld is left", (long)second.tv_sec, second.tv_nsec);
	/* The kernel does not mind a time-out that it cannot write. */
	static const struct timespec constant = {0, 20000000};
	CALL(syscall(SYS_ppoll, &p, 1, &constant, NULL, 8));
	FD_SET(fd, &set);
	CALL(syscall(SYS_pselect6, fd + 1, &set, NULL, NULL, &constant, NULL));
#ifdef __x86_64__
	static const struct timeval constant_tv = {0, 20000};
	FD_SET(fd, &set);
	CALL(syscall(SYS_select, fd + 1, &set, NULL, NULL, &constant_tv));
#endif
	second = (struct timespec){0, 0};
	CALL(syscall(SYS_ppoll, &p, 1, &second, NULL, 8));

	say("numbers");
	int twin = (int)CALL(syscall(SYS_dup, fd));
	CALL(syscall(SYS_fcntl, fd, F_SETFL, O_NONBLOCK));
	CALL(syscall(SYS_read, twin, data, sizeof data));
	CALL(syscall(SYS_close, fd));
	peer_send(NEAR, PORT, "twin");
	sleep_ms(20);
	CALL(syscall(SYS_read, twin, data, sizeof data));
	report();
	CALL(syscall(SYS_dup3, 0, twin, O_CLOEXEC));
	CALL(syscall(SYS_recvfrom, twin, data, sizeof data, MSG_DONTWAIT, NULL, NULL));
	CALL(syscall(SYS_close, twin));
	CALL(syscall(SYS_close, twin));

	say("everything else");
	CALL(syscall(SYS_getpid) == getpid());
	CALL(syscall(SYS_gettid) == gettid());
	/* Six arguments, the last on the stack. */
	long page = syscall(SYS_mmap, NULL, 8192L, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1L, 0L);
	say("mmap %s", page != -1 && *(char *)page == 0 ? "works" : strerrorname_np(errno));
	CALL(syscall(SYS_mmap, NULL, 8192L, PROT_READ, MAP_PRIVATE, 0L, 1L));
	CALL(syscall(-1));
	CALL(syscall(SYS_recvfrom, -1, data, sizeof data, 0, NULL, NULL));
	int pair[2];
	CALL(syscall(SYS_pipe2, pair, O_CLOEXEC));
	CALL(syscall(SYS_write, pair[1], "x", 1));
	CALL(syscall(SYS_read, pair[0], data, 1));
	return done();
}
