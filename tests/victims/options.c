/* What getsockopt says after setsockopt, and on a fresh socket. */
#include "common.h"

static const struct { int level, name; const char *text; int set; } options[] = {
#define O(level, name, set) {level, name, #name, set}
	O(SOL_SOCKET, SO_TYPE, -1), O(SOL_SOCKET, SO_DOMAIN, -1), O(SOL_SOCKET, SO_PROTOCOL, -1),
	O(SOL_SOCKET, SO_ERROR, -1), O(SOL_SOCKET, SO_ACCEPTCONN, -1),
	O(SOL_SOCKET, SO_RCVBUF, 1000), O(SOL_SOCKET, SO_RCVBUF, 50000), O(SOL_SOCKET, SO_SNDBUF, 50000),
	O(SOL_SOCKET, SO_BROADCAST, 1), O(SOL_SOCKET, SO_REUSEADDR, 1), O(SOL_SOCKET, SO_REUSEPORT, 1),
	O(SOL_SOCKET, SO_PRIORITY, 3), O(SOL_SOCKET, SO_KEEPALIVE, 1), O(SOL_SOCKET, SO_DONTROUTE, 1),
	O(SOL_SOCKET, SO_TIMESTAMP, 1), O(SOL_SOCKET, SO_TIMESTAMP, 0), O(SOL_SOCKET, SO_RXQ_OVFL, 0),
	O(IPPROTO_IP, IP_TOS, 16), O(IPPROTO_IP, IP_TTL, 9), O(IPPROTO_IP, IP_TTL, 300),
	O(IPPROTO_IP, IP_MULTICAST_TTL, 7), O(IPPROTO_IP, IP_MULTICAST_LOOP, 0),
	O(IPPROTO_IP, IP_MULTICAST_LOOP, 1), O(IPPROTO_IP, IP_MULTICAST_ALL, 0),
	O(IPPROTO_IP, IP_PKTINFO, 1), O(IPPROTO_IP, IP_RECVTTL, 0), O(IPPROTO_IP, IP_RECVTOS, 0),
	O(IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO), O(IPPROTO_IP, IP_MTU_DISCOVER, 99),
	O(IPPROTO_IP, IP_RECVERR, 0), O(IPPROTO_IP, IP_MTU, -1),
};

int main(void)
{
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		int value = -7;
		socklen_t length = sizeof value;
		say("%s", options[i].text);
		CALL(getsockopt(fd, options[i].level, options[i].name, &value, &length));
		say("  %d (%u bytes)", value, length);
		if (options[i].set == -1)
			continue;
		CALL(setsockopt(fd, options[i].level, options[i].name, &options[i].set, sizeof(int)));
		value = -7;
		CALL(getsockopt(fd, options[i].level, options[i].name, &value, &length));
		say("  %d (%u bytes)", value, length);
	}
	peer_send(NEAR, PORT, "still works");
	say_recv("fd", fd, 0);
	report();
	return done();
}
