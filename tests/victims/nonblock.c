/* Four ways to be non-blocking, back to blocking, and MSG_DONTWAIT for one call. */
#include "common.h"

static void try(int fd)
{
	char data[16];
	CALL(fcntl(fd, F_GETFL) & O_NONBLOCK);
	CALL(recv(fd, data, sizeof data, 0));
}

int main(void)
{
	char data[16];
	int on = 1, off = 0;
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	int born = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
	struct sockaddr_in a = addr4("0.0.0.0", PORT + 1);
	CALL(bind(born, SA(a)));
	try(born);
	CALL(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK));
	try(fd);
	CALL(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK));
	CALL(ioctl(fd, FIONBIO, &on));
	try(fd);
	CALL(ioctl(fd, FIONBIO, &off));
	CALL(fcntl64(fd, F_SETFL, fcntl64(fd, F_GETFL) | O_NONBLOCK));
	try(fd);
	CALL(fcntl64(fd, F_SETFL, 0));
	CALL(fcntl(fd, F_GETFL) & O_NONBLOCK);
	CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
	/* Blocking again: the call waits. */
	int64_t start = now_us();
	peer_send_later(80, NEAR, PORT, "late");
	CALL(recv(fd, data, sizeof data, 0));
	say_took(start, 60, 2000);
	/* Before bind, too. */
	int early = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	CALL(ioctl(early, FIONBIO, &on));
	a = addr4("0.0.0.0", PORT + 2);
	CALL(bind(early, SA(a)));
	try(early);
	peer_send(NEAR, PORT + 2, "now");
	CALL(recv(early, data, sizeof data, 0));
	try(early);
	report();
	return done();
}
