/* connect, then connect(AF_UNSPEC): names, and who may send. */
#include "common.h"

static void name(int fd)
{
	struct sockaddr_in a = {0};
	socklen_t length = sizeof a;
	CALL(getsockname(fd, (struct sockaddr *)&a, &length));
	if (ntohs(a.sin_port) >= 32768)
		a.sin_port = htons(1); /* an automatic port: only that there is one */
	say_addr("local", &a, length);
	length = sizeof a;
	if (CALL(getpeername(fd, (struct sockaddr *)&a, &length)) == 0)
		say_addr("peer", &a, length);
}

int main(void)
{
	begin(10);
	peer_start();
	peer_open(1, FAR, PEER_PORT + 1);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	struct sockaddr nobody = {.sa_family = AF_UNSPEC};
	int automatic = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	name(automatic);
	CALL(connect(automatic, SA(to)));
	name(automatic);
	CALL(send(automatic, "from an automatic port", 22, 0));
	peer_recv(1000);
	CALL(connect(automatic, &nobody, sizeof nobody));
	name(automatic);
	CALL(send(automatic, "x", 1, 0));

	int fd = udp_bound("0.0.0.0", PORT);
	CALL(connect(fd, SA(to)));
	name(fd);
	peer_send_from(1, NEAR, PORT, "from a third party");
	say_recv("connected", fd, MSG_DONTWAIT);
	peer_send(NEAR, PORT, "from the peer");
	say_recv("connected", fd, 0);
	CALL(connect(fd, &nobody, sizeof nobody));
	name(fd);
	peer_send_from(1, NEAR, PORT, "from a third party");
	say_recv("free", fd, 0);
	CALL(send(fd, "x", 1, 0));
	CALL(sendto(fd, "to the peer", 11, 0, SA(to)));
	peer_recv(1000);
	report();
	return done();
}
