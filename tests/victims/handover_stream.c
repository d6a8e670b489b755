/* A stream that never stops, while its socket joins and leaves a group that another
 * socket of the host keeps: each move between kernel and engine loses nothing, doubles
 * nothing and keeps the order. */
#include "common.h"

enum { BETWEEN_MOVES = 100 };

int main(void)
{
	char data[64];
	int size = 8 << 20, next = 0, lost = 0, again = 0, moves = 0;
	begin(60);
	int member = udp_shared("0.0.0.0", PORT + 1);
	MUST(join(member, GROUP));
	/* A port that others may share: without a group of its own the kernel receives. */
	int fd = udp_shared("0.0.0.0", PORT);
	MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size));
	say("ready");
	for (int count = 1;; count++) {
		long n = MUST(recv(fd, data, sizeof data - 1, 0));
		data[n] = 0;
		if (!strcmp(data, "end"))
			break;
		int number = atoi(data);
		if (number < next)
			again++;
		else
			lost += number - next;
		next = number < next ? next : number + 1;
		if (count % BETWEEN_MOVES == 0)
			MUST(moves++ % 2 ? leave(fd, GROUP) : join(fd, GROUP));
	}
	say("moves %d, up to %d, lost %d, again or late %d", moves, next, lost, again);
	return done();
}
