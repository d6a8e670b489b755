/* The largest datagram, one byte more, and "do not fragment". */
#include "common.h"

static char data[65508];

int main(void)
{
	int probe = IP_PMTUDISC_DO, want = IP_PMTUDISC_WANT, mtu = 0;
	socklen_t length = sizeof mtu;
	begin(10);
	peer_start();
	memset(data, 'x', sizeof data);
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, data, 1472, 0, SA(to)));
	peer_recv(1000);
	CALL(sendto(fd, data, 1473, 0, SA(to)));
	peer_recv(1000);
	CALL(sendto(fd, data, 4000, 0, SA(to)));
	peer_recv(1000);
	peer_recv(50);
	CALL(sendto(fd, data, 65507, 0, SA(to)));
	peer_recv(1000);
	CALL(sendto(fd, data, 65508, 0, SA(to)));
	CALL(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe));
	CALL(sendto(fd, data, 1473, 0, SA(to)));
	CALL(sendto(fd, data, 1472, 0, SA(to)));
	peer_recv(1000);
	CALL(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &want, sizeof want));
	CALL(sendto(fd, data, 1473, 0, SA(to)));
	peer_recv(1000);
	CALL(connect(fd, SA(to)));
	CALL(getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &length));
	say("  mtu %d", mtu);
	report();
	return done();
}
