/* A signal handler that sends and receives, while the program is itself in a receive. */
#include "common.h"

static int fd, other;
static volatile int handled;
static struct sockaddr_in to;

static void handler(int signal)
{
	char data[16];
	int saved = errno;
	(void)signal;
	handled += recv(other, data, sizeof data, MSG_DONTWAIT) == 4;
	handled += sendto(other, "handled", 7, 0, SA(to)) == 7;
	handled += recv(fd, data, sizeof data, MSG_DONTWAIT) == -1;
	errno = saved;
}

static pthread_t waiter;

static void *sender(void *unused)
{
	(void)unused;
	sleep_ms(80);
	pthread_kill(waiter, SIGUSR1);
	return NULL;
}

int main(void)
{
	pthread_t t;
	struct sigaction a = {.sa_handler = handler, .sa_flags = SA_RESTART};
	begin(10);
	peer_start();
	waiter = pthread_self();
	to = addr4(FAR, PEER_PORT);
	fd = udp_bound("0.0.0.0", PORT);
	other = udp_bound("0.0.0.0", PORT + 1);
	MUST(sigaction(SIGUSR1, &a, NULL));
	for (int i = 0; i < 5; i++) {
		peer_send(NEAR, PORT + 1, "ping");
		pthread_create(&t, NULL, sender, NULL);
		peer_send_later(160, NEAR, PORT, "end of the wait");
		say_recv("fd", fd, 0);
		pthread_join(t, NULL);
		say("  handled %d", handled);
		peer_recv(1000);
	}
	report();
	return done();
}
