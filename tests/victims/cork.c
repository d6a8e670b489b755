/* MSG_MORE and UDP_CORK: several calls, one datagram. */
#include "common.h"

int main(void)
{
	int on = 1, off = 0;
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, "warm", 4, 0, SA(to)));
	peer_recv(1000);
	CALL(sendto(fd, "one ", 4, MSG_MORE, SA(to)));
	CALL(sendto(fd, "two ", 4, MSG_MORE, SA(to)));
	peer_recv(50);
	CALL(sendto(fd, "three", 5, 0, SA(to)));
	peer_recv(1000);
	CALL(connect(fd, SA(to)));
	CALL(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &on, sizeof on));
	CALL(send(fd, "corked ", 7, 0));
	CALL(write(fd, "whole", 5));
	peer_recv(50);
	CALL(setsockopt(fd, IPPROTO_UDP, UDP_CORK, &off, sizeof off));
	peer_recv(1000);
	CALL(send(fd, "plain", 5, 0));
	peer_recv(1000);
	/* stdio and dprintf write behind the library's back. */
	dprintf(fd, "%s %d", "formatted", 1);
	peer_recv(1000);
	report();
	return done();
}
