/* One thread is blocked in recv when another joins the group, as with java.net.MulticastSocket:
 * the blocked call gets the first datagram, and the calls after it all the others. */
#include "common.h"

static int fd;

static void *reader(void *unused)
{
	for (int i = 0; i < 6; i++)
		say_recv("reader", fd, 0);
	return unused;
}

int main(void)
{
	pthread_t thread;
	begin(15);
	peer_start();
	udp_bound("0.0.0.0", PORT + 1); /* the device is open before the group is joined */
	fd = udp_shared("0.0.0.0", PORT);
	MUST(-pthread_create(&thread, NULL, reader, NULL));
	sleep_ms(100);
	CALL(join(fd, GROUP));
	for (int i = 0; i < 6; i++) {
		peer_send(GROUP, PORT, "to the group");
		sleep_ms(20);
	}
	pthread_join(thread, NULL);
	report();
	return done();
}
