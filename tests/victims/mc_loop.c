/* mc_loop [v6]: sending to a group with members on our own host: IP_MULTICAST_LOOP and the wire. An AF_INET6
 * socket goes by its own family's option, whatever it sends. */
#include "common.h"

static int a, b;
static bool v6;

static void offer(const char *text)
{
	struct sockaddr_in to = addr4(GROUP, PORT);
	struct sockaddr_in6 mapped = addr6("::ffff:" GROUP, PORT);
	if (v6)
		CALL(sendto(a, text, strlen(text), 0, SA(mapped)));
	else
		CALL(sendto(a, text, strlen(text), 0, SA(to)));
	sleep_ms(10);
	say_recv("a", a, MSG_DONTWAIT);
	say_recv("b", b, MSG_DONTWAIT);
	say_recv("b again", b, MSG_DONTWAIT);
	peer_recv_slot(4, 200);
	peer_recv_slot(4, 20);
}

static int shared_v6(void)
{
	struct sockaddr_in6 any = addr6("::", PORT);
	int fd = MUST(socket(AF_INET6, SOCK_DGRAM, 0));
	MUST(enable(fd, SOL_SOCKET, SO_REUSEADDR));
	MUST(bind(fd, SA(any)));
	return fd;
}

int main(int argc, char **argv)
{
	int off = 0, on = 1, zero = 0, one = 1;
	v6 = argc > 1 && !strcmp(argv[1], "v6");
	begin(10);
	peer_open(4, "0.0.0.0", PORT);
	PEER_DO("", 0, "join 4 " GROUP);
	a = v6 ? shared_v6() : udp_shared("0.0.0.0", PORT);
	b = udp_shared("0.0.0.0", PORT);
	offer("no member here");
	CALL(join(a, GROUP));
	CALL(join(b, GROUP));
	offer("loop on");
	CALL(setsockopt(a, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof off));
	offer("loop off");
	if (v6) {
		CALL(setsockopt(a, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &off, sizeof off));
		offer("loop off for v6");
		CALL(setsockopt(a, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &on, sizeof on));
	}
	CALL(setsockopt(a, IPPROTO_IP, IP_MULTICAST_LOOP, &on, sizeof on));
	CALL(setsockopt(a, IPPROTO_IP, IP_MULTICAST_TTL, &zero, sizeof zero));
	offer("ttl 0");
	CALL(setsockopt(a, IPPROTO_IP, IP_MULTICAST_TTL, &one, sizeof one));
	CALL(leave(b, GROUP));
	offer("one member");
	report();
	CALL(leave(a, GROUP));
	offer("no member");
	return done();
}
