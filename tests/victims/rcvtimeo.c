/* SO_RCVTIMEO: how long a receive waits. */
#include "common.h"

static void limit(int fd, long sec, long usec)
{
	struct timeval t = {sec, usec}, back = {-1, -1};
	socklen_t length = sizeof back;
	CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
	CALL(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &back, &length));
	say("  %ld.%06ld", back.tv_sec, back.tv_usec);
}

int main(void)
{
	char data[16];
	struct timeval bad = {0, 1000000};
	begin(20);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	limit(fd, 0, 200000);
	int64_t start = now_us();
	CALL(recv(fd, data, sizeof data, 0));
	say_took(start, 200, 400);
	start = now_us();
	CALL(read(fd, data, sizeof data));
	say_took(start, 200, 400);
	peer_send_later(60, NEAR, PORT, "in time");
	CALL(recv(fd, data, sizeof data, 0));
	limit(fd, 0, 4000);
	start = now_us();
	CALL(recv(fd, data, sizeof data, 0));
	say_took(start, 4, 100);
	/* None: waits for as long as it takes. */
	limit(fd, 0, 0);
	start = now_us();
	peer_send_later(300, NEAR, PORT, "at last");
	CALL(recv(fd, data, sizeof data, 0));
	say_took(start, 290, 2000);
	CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bad, sizeof bad));
	CALL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &bad, 4));
	/* Set before bind, it still holds. */
	int early = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	limit(early, 0, 100000);
	struct sockaddr_in a = addr4("0.0.0.0", PORT + 1);
	CALL(bind(early, SA(a)));
	start = now_us();
	CALL(recv(early, data, sizeof data, 0));
	say_took(start, 100, 300);
	report();
	return done();
}
