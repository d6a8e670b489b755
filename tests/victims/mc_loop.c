/* Sending to a group with members on our own host: IP_MULTICAST_LOOP and the wire. */
#include "common.h"

static int a, b;

static void offer(const char *text)
{
	struct sockaddr_in to = addr4(GROUP, PORT);
	CALL(sendto(a, text, strlen(text), 0, SA(to)));
	sleep_ms(10);
	say_recv("a", a, MSG_DONTWAIT);
	say_recv("b", b, MSG_DONTWAIT);
	say_recv("b again", b, MSG_DONTWAIT);
	peer_recv_slot(4, 200);
	peer_recv_slot(4, 20);
}

int main(void)
{
	int off = 0, on = 1, zero = 0, one = 1;
	begin(10);
	peer_open(4, "0.0.0.0", PORT);
	PEER_DO("", 0, "join 4 " GROUP);
	a = udp_shared("0.0.0.0", PORT);
	b = udp_shared("0.0.0.0", PORT);
	offer("no member here");
	CALL(join(a, GROUP));
	CALL(join(b, GROUP));
	offer("loop on");
	CALL(setsockopt(a, IPPROTO_IP, IP_MULTICAST_LOOP, &off, sizeof off));
	offer("loop off");
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
