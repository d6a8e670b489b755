/* Children are forked while other threads are inside calls on the same sockets: whatever
 * those threads hold, a child can use and close what it inherited. */
#include "common.h"
#include <stdatomic.h>

static int shared;
static atomic_bool over;

static void *sets(void *unused)
{
	(void)unused;
	for (int ttl = 1; !atomic_load(&over); ttl = ttl % 200 + 1)
		setsockopt(shared, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl);
	return NULL;
}

static void *opens(void *unused)
{
	(void)unused;
	while (!atomic_load(&over)) {
		int fd = socket(AF_INET, SOCK_DGRAM, 0);
		struct sockaddr_in any = addr4("0.0.0.0", 0);
		bind(fd, SA(any));
		close(fd);
	}
	return NULL;
}

int main(void)
{
	enum { CHILDREN = 25 };
	int well = 0;
	pthread_t threads[3];
	begin(60);
	shared = udp_bound("0.0.0.0", PORT);
	MUST(pthread_create(&threads[0], NULL, sets, NULL));
	MUST(pthread_create(&threads[1], NULL, opens, NULL));
	MUST(pthread_create(&threads[2], NULL, opens, NULL));
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = MUST(fork());
		if (child == 0) {
			struct sockaddr_in to = addr4(FAR, PEER_PORT);
			int ttl = 64;
			char data[16];
			signal(SIGALRM, SIG_DFL);
			alarm(10);
			if (i % 2)
				recv(shared, data, sizeof data, MSG_DONTWAIT);
			setsockopt(shared, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl);
			sendto(shared, "x", 1, MSG_DONTWAIT, SA(to));
			close(shared);
			_exit(0);
		}
		int status = -1;
		MUST(waitpid(child, &status, 0));
		well += status == 0;
		if (status)
			break;
	}
	atomic_store(&over, true);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	say("%d of %d children ended well", well, CHILDREN);
	return done();
}
