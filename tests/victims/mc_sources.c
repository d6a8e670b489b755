/* Source filters: include, block, unblock. */
#include "common.h"

static int fd;

static void source(int option, const char *group, const char *from)
{
	struct ip_mreq_source m;
	inet_pton(AF_INET, group, &m.imr_multiaddr);
	inet_pton(AF_INET, NEAR, &m.imr_interface);
	inet_pton(AF_INET, from, &m.imr_sourceaddr);
	CALL(setsockopt(fd, IPPROTO_IP, option, &m, sizeof m));
}

static void offer(void)
{
	peer_send_from(0, GROUP, PORT, "main");
	peer_send_from(1, GROUP, PORT, "alias");
	sleep_ms(10);
	for (int i = 0; i < 3; i++)
		if (say_recv("fd", fd, MSG_DONTWAIT) < 0)
			break;
}

int main(void)
{
	int off = 0;
	begin(10);
	peer_start();
	peer_open(1, "10.78.0.12", PEER_PORT);
	fd = udp_shared("0.0.0.0", PORT);
	CALL(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off));
	source(IP_ADD_SOURCE_MEMBERSHIP, GROUP, FAR);
	offer();
	source(IP_ADD_SOURCE_MEMBERSHIP, GROUP, "10.78.0.12");
	offer();
	source(IP_DROP_SOURCE_MEMBERSHIP, GROUP, FAR);
	offer();
	source(IP_DROP_SOURCE_MEMBERSHIP, GROUP, "10.78.0.12");
	offer();
	CALL(join(fd, GROUP));
	offer();
	source(IP_BLOCK_SOURCE, GROUP, FAR);
	source(IP_BLOCK_SOURCE, GROUP, FAR);
	offer();
	source(IP_UNBLOCK_SOURCE, GROUP, FAR);
	offer();
	report();
	CALL(leave(fd, GROUP));
	offer();
	return done();
}
