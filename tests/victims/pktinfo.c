/* IP_PKTINFO, IP_RECVTTL, IP_RECVTOS, IP_ORIGDSTADDR on receive; IP_PKTINFO and IP_TTL on send. */
#include "common.h"

static char data[64], control[256];

static void receive(int fd, size_t room)
{
	struct sockaddr_in from;
	struct iovec io = {data, sizeof data};
	struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &io,
			   .msg_iovlen = 1, .msg_control = control, .msg_controllen = room};
	char text[2][INET_ADDRSTRLEN];
	CALL(recvmsg(fd, &m, 0));
	say_flags(m.msg_flags);
	say("  control %zu", (size_t)m.msg_controllen);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		printf("  level %d type %d length %zu:", c->cmsg_level, c->cmsg_type, (size_t)c->cmsg_len);
		if (c->cmsg_type == IP_PKTINFO) {
			struct in_pktinfo *p = (void *)CMSG_DATA(c);
			char name[IF_NAMESIZE] = "?";
			if_indextoname((unsigned)p->ipi_ifindex, name);
			say(" %s spec %s addr %s", name,
			    inet_ntop(AF_INET, &p->ipi_spec_dst, text[0], sizeof text[0]),
			    inet_ntop(AF_INET, &p->ipi_addr, text[1], sizeof text[1]));
		} else if (c->cmsg_type == IP_TOS) {
			say(" %d", *CMSG_DATA(c));
		} else {
			say(" %d", *(int *)CMSG_DATA(c));
		}
	}
}

static void transmit(int fd, int type, const void *value, size_t size)
{
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	struct iovec io = {"control", 7};
	struct msghdr m = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &io, .msg_iovlen = 1,
			   .msg_control = control, .msg_controllen = CMSG_SPACE(size)};
	memset(control, 0, sizeof control);
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){.cmsg_level = IPPROTO_IP, .cmsg_type = type, .cmsg_len = CMSG_LEN(size)};
	memcpy(CMSG_DATA(c), value, size);
	CALL(sendmsg(fd, &m, 0));
	peer_recv(200);
}

int main(void)
{
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	CALL(enable(fd, IPPROTO_IP, IP_PKTINFO));
	peer_send(NEAR, PORT, "unicast");
	receive(fd, sizeof control);
	peer_send(NEAR_ALIAS, PORT, "alias");
	receive(fd, sizeof control);
	CALL(join(fd, GROUP));
	peer_send(GROUP, PORT, "group");
	receive(fd, sizeof control);
	CALL(enable(fd, IPPROTO_IP, IP_RECVTTL));
	CALL(enable(fd, IPPROTO_IP, IP_RECVTOS));
	peer_send(NEAR, PORT, "all");
	receive(fd, sizeof control);
	peer_send(NEAR, PORT, "room for one");
	receive(fd, CMSG_SPACE(sizeof(struct in_pktinfo)));
	peer_send(NEAR, PORT, "room for half");
	receive(fd, 20);
	peer_send(NEAR, PORT, "no room");
	receive(fd, 0);
	peer_send(NEAR, PORT, "plain");
	say_recv("fd", fd, 0);

	struct in_pktinfo info = {0};
	transmit(fd, IP_PKTINFO, &info, sizeof info);
	inet_pton(AF_INET, NEAR_ALIAS, &info.ipi_spec_dst);
	transmit(fd, IP_PKTINFO, &info, sizeof info);
	info.ipi_ifindex = (int)if_nametoindex("veth0");
	transmit(fd, IP_PKTINFO, &info, sizeof info);
	info.ipi_ifindex = 9999;
	transmit(fd, IP_PKTINFO, &info, sizeof info);
	info.ipi_ifindex = 0;
	inet_pton(AF_INET, "10.99.0.1", &info.ipi_spec_dst);
	transmit(fd, IP_PKTINFO, &info, sizeof info);
	int ttl = 3, bad = 0;
	transmit(fd, IP_TTL, &ttl, sizeof ttl);
	transmit(fd, IP_TTL, &bad, sizeof bad);
	transmit(fd, 250, &ttl, sizeof ttl);
	report();
	return done();
}
