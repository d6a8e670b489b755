/* IP_MULTICAST_ALL: groups that some other socket of the host has joined. */
#include "common.h"

static void show(const char *who, int fd)
{
	long n = 0;
	char data[16];
	while (recv(fd, data, sizeof data, MSG_DONTWAIT) > 0)
		n++;
	say("%s received %ld", who, n);
}

int main(void)
{
	int value = -1, off = 0;
	socklen_t length = sizeof value;
	begin(10);
	peer_start();
	int a = udp_shared("0.0.0.0", PORT), b = udp_shared("0.0.0.0", PORT);
	int c = udp_shared("0.0.0.0", PORT), six = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
	struct sockaddr_in6 any = addr6("::", PORT);
	MUST(enable(six, SOL_SOCKET, SO_REUSEADDR));
	CALL(bind(six, SA(any)));
	CALL(join(a, GROUP));
	CALL(join(b, GROUP2));
	CALL(getsockopt(a, IPPROTO_IP, IP_MULTICAST_ALL, &value, &length));
	say("  %d", value);
	CALL(getsockopt(six, IPPROTO_IP, IP_MULTICAST_ALL, &value, &length));
	say("  %d", value);
	peer_send(GROUP, PORT, "one");
	sleep_ms(10);
	show("joined one", a);
	show("joined two", b);
	show("joined none", c);
	show("six", six);
	CALL(setsockopt(b, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof off));
	CALL(setsockopt(six, IPPROTO_IPV6, 49, &off, sizeof off));
	peer_send(GROUP, PORT, "one");
	peer_send(GROUP2, PORT, "two");
	sleep_ms(10);
	show("joined one", a);
	show("joined two", b);
	show("joined none", c);
	show("six", six);
	CALL(join(six, GROUP));
	peer_send(GROUP, PORT, "one");
	sleep_ms(10);
	show("six", six);
	report();
	return done();
}
