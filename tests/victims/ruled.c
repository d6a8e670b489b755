/* Sockets that a rules file leaves to the kernel, one for each role, and one that it does not. */
#include "common.h"

int main(void)
{
	const char *os = "a rule in the configuration file says os";
	begin(20);
	peer_start();
	say("%d %s", udp_bound("0.0.0.0", PORT), os);
	int fd = udp_bound("0.0.0.0", PORT + 1);
	MUST(join(fd, GROUP));
	say("%d %s", fd, os);
	fd = udp_bound("0.0.0.0", PORT + 2);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	MUST(connect(fd, SA(to)));
	say("%d %s", fd, os);
	say("%d accelerated", udp_bound("0.0.0.0", PORT + 3));
	report();
	return done();
}
