/* icmp CALL [recverr] [v6]: a closed port answers; each call tells, once. */
#include "common.h"
#include <linux/errqueue.h>

#define CLOSED 7999
static int fd, ep;
static char data[64];

static void tell(const char *call)
{
	struct iovec io = {data, sizeof data};
	struct mmsghdr m = {.msg_hdr = {.msg_iov = &io, .msg_iovlen = 1}};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event e[2] = {0};
	int error = -1;
	socklen_t size = sizeof error;
	long n = 0;
	if (!strcmp(call, "send"))
		CALL(send(fd, "x", 1, 0));
	else if (!strcmp(call, "write"))
		CALL(write(fd, "x", 1));
	else if (!strcmp(call, "sendmsg")) {
		io.iov_len = 1;
		CALL(sendmsg(fd, &m.msg_hdr, 0));
	} else if (!strcmp(call, "sendmmsg")) {
		io.iov_len = 1;
		CALL(sendmmsg(fd, &m, 1, 0));
	} else if (!strcmp(call, "sendto_other")) {
		struct sockaddr_in other = addr4(FAR, PEER_PORT);
		CALL(sendto(fd, "other", 5, 0, SA(other)));
		peer_recv(100);
	} else if (!strcmp(call, "recv"))
		CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
	else if (!strcmp(call, "recv_wait")) {
		struct timeval t = {.tv_usec = 100000};
		MUST(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
		CALL(recv(fd, data, sizeof data, 0));
	} else if (!strcmp(call, "peek"))
		CALL(recv(fd, data, sizeof data, MSG_DONTWAIT | MSG_PEEK));
	else if (!strcmp(call, "read")) {
		set_nonblock(fd, true);
		CALL(read(fd, data, sizeof data));
		set_nonblock(fd, false);
	} else if (!strcmp(call, "recvmsg"))
		CALL(recvmsg(fd, &m.msg_hdr, MSG_DONTWAIT));
	else if (!strcmp(call, "recvmmsg"))
		CALL(recvmmsg(fd, &m, 1, MSG_DONTWAIT, NULL));
	else if (!strcmp(call, "poll")) {
		CALL(poll(&p, 1, 50));
		say("  %s", event_names((unsigned)p.revents));
	} else if (!strcmp(call, "poll_nothing")) {
		p.events = 0;
		CALL(poll(&p, 1, 50));
		say("  %s", event_names((unsigned)p.revents));
	} else if (!strcmp(call, "poll_out")) {
		p.events = POLLOUT;
		CALL(poll(&p, 1, 50));
		say("  %s", event_names((unsigned)p.revents));
	} else if (!strcmp(call, "select")) {
		fd_set r, w, x;
		struct timeval t = {.tv_usec = 50000};
		FD_ZERO(&r); FD_ZERO(&w); FD_ZERO(&x);
		FD_SET(fd, &r); FD_SET(fd, &x);
		CALL(select(fd + 1, &r, &w, &x, &t));
		say("  read %d except %d", FD_ISSET(fd, &r) != 0, FD_ISSET(fd, &x) != 0);
	} else if (!strncmp(call, "epoll", 5)) {
		n = CALL(epoll_wait(ep, e, 2, 50));
		for (long i = 0; i < n; i++)
			say("  %s", event_names(e[i].events));
	} else if (!strcmp(call, "so_error")) {
		CALL(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size));
		say("  %s %u", strerrorname_np(error), size);
	} else if (!strcmp(call, "connect")) {
		struct sockaddr_in far = addr4(FAR, PEER_PORT);
		CALL(connect(fd, SA(far)));
	} else if (!strcmp(call, "errqueue")) {
		static char control[512];
		struct sockaddr_storage name = {0};
		struct msghdr q = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &io, .msg_iovlen = 1,
				   .msg_control = control, .msg_controllen = sizeof control};
		CALL(recvmsg(fd, &q, MSG_ERRQUEUE | MSG_DONTWAIT));
		say_flags(q.msg_flags);
		say_addr("name", &name, q.msg_namelen);
		say_bytes("data", data, 8);
		for (struct cmsghdr *c = CMSG_FIRSTHDR(&q); c; c = CMSG_NXTHDR(&q, c)) {
			struct sock_extended_err *s = (void *)CMSG_DATA(c);
			say("  level %d type %d length %zu: errno %u origin %u type %u code %u info %u data %u",
			    c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len, s->ee_errno, s->ee_origin,
			    s->ee_type, s->ee_code, s->ee_info, s->ee_data);
			say_addr("offender", SO_EE_OFFENDER(s), 16);
		}
	} else
		die(call);
}

int main(int argc, char **argv)
{
	bool recverr = false, v6 = false;
	begin(10);
	for (int i = 2; i < argc; i++) {
		recverr |= !strcmp(argv[i], "recverr");
		v6 |= !strcmp(argv[i], "v6");
	}
	peer_start();
	fd = MUST(socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in any = addr4("0.0.0.0", PORT), closed = addr4(FAR, CLOSED);
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)},
			    closed6 = addr6("::ffff:" FAR, CLOSED);
	MUST(v6 ? bind(fd, SA(any6)) : bind(fd, SA(any)));
	peer_send(NEAR, PORT, "before");
	say_recv("before", fd, 0);
	MUST(v6 ? connect(fd, SA(closed6)) : connect(fd, SA(closed)));
	if (recverr)
		MUST(enable(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVERR : IP_RECVERR));
	ep = MUST(epoll_create1(0));
	struct epoll_event e = {.events = EPOLLIN};
	if (!strcmp(argv[1], "epoll_edge"))
		e.events |= EPOLLET;
	if (!strcmp(argv[1], "epoll_once"))
		e.events |= EPOLLONESHOT;
	if (!strcmp(argv[1], "epoll_out"))
		e.events |= EPOLLOUT;
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
	CALL(send(fd, "first", 5, 0));
	sleep_ms(40);
	tell(argv[1]);
	tell(argv[1]);
	tell("recv");
	tell("recv");
	tell("so_error");
	tell("poll");
	tell("epoll");
	if (recverr) {
		tell("errqueue");
		tell("errqueue");
		tell("poll");
	}
	report();
	return done();
}
