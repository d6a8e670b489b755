/* A connected socket and a closed port: ICMP becomes ECONNREFUSED, once. */
#include "common.h"

int main(void)
{
	char data[16];
	int error = -1;
	socklen_t length = sizeof error;
	begin(10);
	peer_start();
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in closed = addr4(FAR, 7999), open = addr4(FAR, PEER_PORT);
	CALL(connect(fd, SA(closed)));
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLOUT};
	set_nonblock(fd, true);
	CALL(send(fd, "x", 1, 0));
	sleep_ms(60);
	CALL(poll(&p, 1, 1000));
	say("  %s", event_names(p.revents));
	CALL(recv(fd, data, sizeof data, 0));
	CALL(recv(fd, data, sizeof data, 0));
	/* The error belongs to the next call, whichever it is. */
	CALL(send(fd, "x", 1, 0));
	sleep_ms(60);
	CALL(send(fd, "x", 1, 0));
	sleep_ms(60);
	CALL(send(fd, "x", 1, 0));
	sleep_ms(60);
	CALL(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
	say("  %s", error ? strerrorname_np(error) : "0");
	CALL(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length));
	say("  %s", error ? strerrorname_np(error) : "0");
	/* Blocked in recv while it comes. */
	set_nonblock(fd, false);
	CALL(send(fd, "x", 1, 0));
	CALL(recv(fd, data, sizeof data, 0));
	/* Then an ordinary peer. */
	CALL(connect(fd, SA(open)));
	CALL(send(fd, "hello", 5, 0));
	peer_recv(1000);
	peer_send(NEAR, PORT, "answer");
	CALL(recv(fd, data, sizeof data, 0));
	/* Not connected: nobody is told. */
	int loose = udp_bound("0.0.0.0", PORT + 1);
	CALL(sendto(loose, "x", 1, 0, SA(closed)));
	sleep_ms(60);
	CALL(recv(loose, data, sizeof data, MSG_DONTWAIT));
	report();
	return done();
}
