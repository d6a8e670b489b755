/* The route goes away, comes back, and the address changes: each send does what Linux says. */
#include "common.h"

int main(void)
{
	begin(15);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT), off_link = addr4("10.88.0.1", PEER_PORT);
	CALL(sendto(fd, "direct", 6, 0, SA(to)));
	peer_recv(1000);
	CALL(sendto(fd, "no route", 8, 0, SA(off_link)));
	PEER_DO("", 0, "ip far addr add 10.88.0.1/32 dev lo");
	PEER_DO("", 0, "open 5 10.88.0.1 7000");
	PEER_DO("", 0, "ip near route add 10.88.0.0/24 via " FAR);
	CALL(sendto(fd, "by gateway", 10, 0, SA(off_link)));
	peer_recv_slot(5, 1000);
	CALL(sendto(fd, "by gateway", 10, 0, SA(off_link)));
	peer_recv_slot(5, 1000);
	PEER_DO("", 0, "ip near route replace 10.88.0.0/24 via " FAR " src " NEAR_ALIAS);
	CALL(sendto(fd, "other source", 12, 0, SA(off_link)));
	peer_recv_slot(5, 1000);
	PEER_DO("", 0, "ip near route replace unreachable 10.88.0.0/24");
	CALL(sendto(fd, "unreachable", 11, 0, SA(off_link)));
	PEER_DO("", 0, "ip near route replace prohibit 10.88.0.0/24");
	CALL(sendto(fd, "prohibited", 10, 0, SA(off_link)));
	PEER_DO("", 0, "ip near route del prohibit 10.88.0.0/24");
	CALL(sendto(fd, "gone", 4, 0, SA(off_link)));
	PEER_DO("", 0, "ip near link set veth0 mtu 1000");
	int probe = IP_PMTUDISC_DO;
	CALL(setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe));
	static char big[1200];
	CALL(sendto(fd, big, sizeof big, 0, SA(to)));
	CALL(sendto(fd, big, 900, 0, SA(to)));
	peer_recv(1000);
	report();
	PEER_DO("", 0, "ip near link set veth0 down");
	CALL(sendto(fd, "down", 4, 0, SA(to)));
	PEER_DO("", 0, "ip near link set veth0 up");
	sleep_ms(200);
	/* Resolving anew is not under test. */
	for (int i = 0; i < 50 && sendto(fd, "up", 2, 0, SA(to)) != 2; i++)
		sleep_ms(20);
	peer_recv(2000);
	peer_send(NEAR, PORT, "received");
	say_recv("fd", fd, 0);
	return done();
}
