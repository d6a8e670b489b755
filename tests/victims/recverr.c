/* IP_RECVERR: the error queue. */
#include "common.h"
#include <linux/errqueue.h>

int main(void)
{
	char data[32], control[256];
	struct sockaddr_in name;
	struct iovec io = {data, sizeof data};
	struct msghdr m = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &io,
			   .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in closed = addr4(FAR, 7999);
	CALL(enable(fd, IPPROTO_IP, IP_RECVERR));
	struct pollfd p = {.fd = fd, .events = POLLIN};
	CALL(sendto(fd, "payload", 7, 0, SA(closed)));
	sleep_ms(60);
	CALL(poll(&p, 1, 1000));
	say("  %s", event_names(p.revents));
	CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
	CALL(poll(&p, 1, 0));
	say("  %s", event_names(p.revents));
	CALL(recvmsg(fd, &m, MSG_ERRQUEUE));
	say_flags(m.msg_flags);
	say_addr("to", &name, m.msg_namelen);
	say_bytes("data", data, 7);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		struct sock_extended_err *e = (void *)CMSG_DATA(c);
		say("  level %d type %d length %zu", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
		say("  %s origin %d type %d code %d", strerrorname_np((int)e->ee_errno),
		    e->ee_origin, e->ee_type, e->ee_code);
		say_addr("offender", SO_EE_OFFENDER(e), sizeof(struct sockaddr_in));
	}
	CALL(poll(&p, 1, 0));
	CALL(recvmsg(fd, &m, MSG_ERRQUEUE));
	/* Ordinary traffic goes on. */
	peer_send(NEAR, PORT, "ordinary");
	CALL(recv(fd, data, sizeof data, 0));
	report();
	return done();
}
