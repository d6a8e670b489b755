/* To an address of our own host: the kernel's loopback delivers. */
#include "common.h"

int main(void)
{
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT), other = udp_bound(NEAR, PORT + 1);
	int local = udp_bound("127.0.0.1", PORT + 2);
	struct sockaddr_in self = addr4(NEAR, PORT), alias = addr4(NEAR_ALIAS, PORT);
	struct sockaddr_in lo = addr4("127.0.0.1", PORT), at_lo = addr4("127.0.0.1", PORT + 2);
	struct sockaddr_in far = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, "self", 4, 0, SA(self)));
	say_recv("self", fd, 0);
	CALL(sendto(other, "other", 5, 0, SA(self)));
	say_recv("self", fd, 0);
	CALL(sendto(other, "alias", 5, 0, SA(alias)));
	say_recv("self", fd, 0);
	CALL(sendto(fd, "lo", 2, 0, SA(lo)));
	say_recv("self", fd, 0);
	CALL(sendto(fd, "at lo", 5, 0, SA(at_lo)));
	say_recv("local", local, 0);
	CALL(sendto(local, "far", 3, 0, SA(far)));
	/* Both sources on one socket. */
	peer_send(NEAR, PORT, "wire");
	say_recv("self", fd, 0);
	report();
	return done();
}
