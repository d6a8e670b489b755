/* Ports are the kernel's: conflicts, reuse, and the choice among twins. */
#include "common.h"

static int open_with(int option, const char *ip, int port)
{
	int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	struct sockaddr_in a = addr4(ip, port);
	if (option)
		MUST(enable(fd, SOL_SOCKET, option));
	CALL(bind(fd, SA(a)));
	return fd;
}

int main(void)
{
	begin(10);
	peer_start();
	int wild = open_with(0, "0.0.0.0", PORT);
	open_with(0, "0.0.0.0", PORT);
	open_with(0, NEAR, PORT);
	open_with(SO_REUSEADDR, NEAR, PORT);
	open_with(0, "10.99.0.1", PORT);
	open_with(0, "0.0.0.0", PORT + 1);
	/* SO_REUSEADDR twins: wildcard, address, and which of them gets a datagram. */
	int any = open_with(SO_REUSEADDR, "0.0.0.0", PORT + 2);
	int exact = open_with(SO_REUSEADDR, NEAR, PORT + 2);
	int last = open_with(SO_REUSEADDR, "0.0.0.0", PORT + 2);
	peer_send(NEAR, PORT + 2, "to the address");
	say_recv("any", any, MSG_DONTWAIT);
	say_recv("exact", exact, MSG_DONTWAIT);
	say_recv("last", last, MSG_DONTWAIT);
	peer_send(NEAR_ALIAS, PORT + 2, "to the alias");
	say_recv("any", any, MSG_DONTWAIT);
	say_recv("exact", exact, MSG_DONTWAIT);
	say_recv("last", last, MSG_DONTWAIT);
	CALL(close(last));
	peer_send(NEAR_ALIAS, PORT + 2, "to the alias");
	say_recv("any", any, MSG_DONTWAIT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(connect(any, SA(to)));
	peer_send(NEAR, PORT + 2, "connected or exact");
	say_recv("any", any, MSG_DONTWAIT);
	say_recv("exact", exact, MSG_DONTWAIT);
	open_with(SO_REUSEPORT, "0.0.0.0", PORT + 3);
	open_with(SO_REUSEADDR, "0.0.0.0", PORT + 3);
	peer_send(NEAR, PORT, "wild");
	say_recv("wild", wild, 0);
	report();
	return done();
}
