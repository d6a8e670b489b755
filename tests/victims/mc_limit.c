/* More joins than the kernel allows. */
#include "common.h"

int main(void)
{
	int joined = 0, error = 0;
	begin(15);
	peer_start();
	int fd = udp_shared("0.0.0.0", PORT);
	for (int i = 0; i < 400 && !error; i++) {
		char group[32];
		snprintf(group, sizeof group, "239.79.%d.%d", i / 200, 1 + i % 200);
		if (join(fd, group) == -1)
			error = errno;
		else
			joined++;
	}
	say("joined %d, then %s", joined, error ? strerrorname_np(error) : "no error");
	peer_send("239.79.0.1", PORT, "first");
	say_recv("fd", fd, 0);
	report();
	return done();
}
