/* The first datagrams to a host whose hardware address is not known yet all arrive, in order;
 * a dead host is not an error of the send that meets it first. */
#include "common.h"

int main(void)
{
	begin(15);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT), dead = addr4("10.78.0.77", PEER_PORT);
	char data[8];
	for (int i = 0; i < 5; i++) {
		snprintf(data, sizeof data, "%d", i);
		CALL(sendto(fd, data, 1, 0, SA(to)));
	}
	for (int i = 0; i < 5; i++)
		peer_recv(2000);
	PEER_DO("", 0, "ip near neigh flush dev veth0");
	CALL(sendto(fd, "again", 5, 0, SA(to)));
	peer_recv(2000);
	for (int i = 0; i < 20; i++) {
		snprintf(data, sizeof data, "s%d", i);
		CALL(sendto(fd, data, strlen(data), 0, SA(to)));
	}
	for (int i = 0; i < 20; i++)
		peer_recv(1000);
	CALL(sendto(fd, "dead", 4, 0, SA(dead)));
	CALL(sendto(fd, "dead", 4, 0, SA(dead)));
	report();
	return done();
}
