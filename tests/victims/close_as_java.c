/* close_as_java LEAVES: how a JVM closes a socket under a thread that receives. It puts a dead descriptor in
 * its place, then wakes the thread by one signal, no more: whoever has not gone to sleep yet must find the
 * dead descriptor. LEAVES: first it leaves its group, which moves the socket to the kernel. */
#include "common.h"
#include <stdatomic.h>

enum { ROUNDS = 100 };

static int fd;
static atomic_bool open_;
static atomic_int got;

static void woken(int number)
{
	(void)number;
}

static void *receive(void *unused)
{
	char data[64];
	do {
		if (recvfrom(fd, data, sizeof data, 0, NULL, NULL) > 0)
			got++;
	} while (open_);
	return unused;
}

int main(int argc, char **argv)
{
	struct sigaction wake = {.sa_handler = woken};
	int dead[2], mine = SIGRTMAX - 2, late = 0;
	bool leaves = argc > 1 && !strcmp(argv[1], "leaves");
	begin(30);
	peer_start();
	MUST(sigaction(mine, &wake, NULL));
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, dead));
	close(dead[1]);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t reader;
		struct timespec limit;
		fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
		MUST(enable(fd, SOL_SOCKET, SO_REUSEADDR));
		struct sockaddr_in at = addr4(GROUP, PORT);
		MUST(bind(fd, SA(at)));
		MUST(join(fd, GROUP));
		open_ = true;
		got = 0;
		MUST(pthread_create(&reader, NULL, receive, NULL));
		peer_send(GROUP, PORT, "one");
		while (!got)
			sleep_ms(1);
		if (round == 0)
			report();
		usleep(round % 4 * 300);
		if (leaves)
			MUST(leave(fd, GROUP));
		for (int64_t end = now_us() + round % 20 * 5; now_us() < end;)
			;
		open_ = false;
		MUST(dup2(dead[0], fd));
		MUST(pthread_kill(reader, mine));
		clock_gettime(CLOCK_REALTIME, &limit);
		limit.tv_sec += 2;
		if (pthread_timedjoin_np(reader, NULL, &limit) != 0) {
			late++;
			/* So that the next round has its descriptor to itself. */
			pthread_kill(reader, mine);
			pthread_join(reader, NULL);
		}
		close(fd);
	}
	say("late %d", late);
	return done();
}
