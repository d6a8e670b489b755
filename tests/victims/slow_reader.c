/* A reader that does not read: the others are served, and it keeps what fits. */
#include "common.h"

int main(void)
{
	char data[2048];
	int size = 20000, count = 0;
	begin(10);
	peer_start();
	int slow = udp_bound("0.0.0.0", PORT), quick = udp_bound("0.0.0.0", PORT + 1);
	CALL(setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
	peer_burst(NEAR, PORT, 2000, 1000, 1);
	peer_send(NEAR, PORT + 1, "served");
	say_recv("quick", quick, 0);
	/* The first ones are there, in order, and not without limit. */
	for (long n; (n = recv(slow, data, sizeof data, MSG_DONTWAIT)) > 0; count++) {
		data[8] = 0;
		if (atoi(data) != count)
			say("out of order: %s at %d", data, count);
	}
	say("some %d, limited %d", count > 5, count < 1000);
	peer_send(NEAR, PORT, "fresh");
	say_recv("slow", slow, 0);
	report();
	return done();
}
