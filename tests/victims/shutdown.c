/* shutdown on UDP. */
#include "common.h"

static int fd;

static void *shut(void *unused)
{
	(void)unused;
	sleep_ms(80);
	MUST(shutdown(fd, SHUT_RD));
	return NULL;
}

int main(void)
{
	char data[16];
	pthread_t t;
	begin(10);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT | POLLRDHUP};
	CALL(shutdown(fd, SHUT_RD));
	CALL(connect(fd, SA(to)));
	peer_send(NEAR, PORT, "before");
	CALL(recv(fd, data, sizeof data, 0));
	/* Wakes a blocked receive. */
	pthread_create(&t, NULL, shut, NULL);
	CALL(recv(fd, data, sizeof data, 0));
	pthread_join(t, NULL);
	CALL(poll(&p, 1, 0));
	say("  %s", event_names(p.revents));
	CALL(recv(fd, data, sizeof data, 0));
	CALL(send(fd, "out", 3, 0));
	peer_recv(1000);
	CALL(shutdown(fd, SHUT_WR));
	CALL(send(fd, "out", 3, MSG_NOSIGNAL));
	CALL(poll(&p, 1, 0));
	say("  %s", event_names(p.revents));
	report();
	return done();
}
