/* Join and leave: the stream starts and stops; wrong joins and leaves fail as Linux says. */
#include "common.h"

static void offer(int fd, const char *group)
{
	peer_send(group, PORT, group);
	sleep_ms(5);
	say_recv("member", fd, MSG_DONTWAIT);
}

int main(void)
{
	char group[32];
	begin(15);
	peer_start();
	int fd = udp_shared("0.0.0.0", PORT);
	offer(fd, GROUP);
	CALL(join(fd, GROUP));
	offer(fd, GROUP);
	CALL(join(fd, GROUP));
	CALL(leave(fd, GROUP2));
	CALL(join(fd, GROUP2));
	offer(fd, GROUP2);
	CALL(leave(fd, GROUP));
	offer(fd, GROUP);
	offer(fd, GROUP2);
	CALL(leave(fd, GROUP));
	CALL(join(fd, GROUP));
	offer(fd, GROUP);
	CALL(join(fd, "10.78.0.2"));
	/* Many, left in another order. */
	for (int i = 10; i < 28; i++) {
		snprintf(group, sizeof group, "239.78.1.%d", i);
		MUST(join(fd, group));
	}
	offer(fd, "239.78.1.20");
	for (int i = 0; i < 18; i++) {
		snprintf(group, sizeof group, "239.78.1.%d", 10 + (i * 7) % 18);
		MUST(leave(fd, group));
	}
	offer(fd, "239.78.1.20");
	offer(fd, GROUP);
	report();
	/* Closing leaves. */
	CALL(close(fd));
	fd = udp_shared("0.0.0.0", PORT);
	offer(fd, GROUP);
	report();
	return done();
}
