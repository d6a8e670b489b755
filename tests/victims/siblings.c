/* Several sockets on one group, a thread each. What is missing on a socket is printed as
 * ranges of numbers, and how often one came again or late. */
#include "common.h"

enum { SOCKETS = 3 };

struct seen {
	int fd, next, again, gaps;
	int from[4096], to[4096];
};

static void *reader(void *argument)
{
	struct seen *s = argument;
	char data[64];
	for (;;) {
		long n = MUST(recv(s->fd, data, sizeof data - 1, 0));
		data[n] = 0;
		if (!strcmp(data, "end"))
			return NULL;
		int number = atoi(data);
		if (number < s->next) {
			s->again++;
			continue;
		}
		if (number > s->next && s->gaps < 4096) {
			s->from[s->gaps] = s->next;
			s->to[s->gaps++] = number;
		}
		s->next = number + 1;
	}
}

int main(void)
{
	static struct seen sockets[SOCKETS];
	pthread_t threads[SOCKETS];
	int size = 8 << 20;
	begin(60);
	for (int i = 0; i < SOCKETS; i++) {
		int fd = sockets[i].fd = udp_shared("0.0.0.0", PORT);
		MUST(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size));
		MUST(join(fd, GROUP));
	}
	say("ready");
	for (int i = 0; i < SOCKETS; i++)
		MUST(-pthread_create(&threads[i], NULL, reader, &sockets[i]));
	for (int i = 0; i < SOCKETS; i++) {
		MUST(-pthread_join(threads[i], NULL));
		say("socket %d up to %d again %d", i, sockets[i].next, sockets[i].again);
		for (int g = 0; g < sockets[i].gaps; g++)
			say("missing %d %d", sockets[i].from[g], sockets[i].to[g]);
	}
	return done();
}
