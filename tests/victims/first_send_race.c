/* A receive begins in one thread while another thread's first send gives the socket its port: the
 * answer comes to the receive, whichever was first. As load generators do. */
#include "common.h"

static void *receiver(void *fd)
{
	char data[16];
	return (void *)recv((int)(intptr_t)fd, data, sizeof data, 0);
}

int main(void)
{
	int answered = 0;
	begin(15);
	peer_start();
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	for (int i = 0; i < 60; i++) {
		pthread_t t;
		void *received;
		struct sockaddr_in own;
		socklen_t length = sizeof own;
		int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
		pthread_create(&t, NULL, receiver, (void *)(intptr_t)fd);
		for (volatile int pause = 0; pause < i * 2000; pause++)
			;
		MUST(sendto(fd, "question", 8, 0, SA(to)));
		MUST(getsockname(fd, (struct sockaddr *)&own, &length));
		peer_send(NEAR, ntohs(own.sin_port), "answer");
		pthread_join(t, &received);
		answered += (long)received == 6;
		MUST(close(fd));
	}
	say("answered %d", answered);
	return done();
}
