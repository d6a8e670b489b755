/* SO_REUSEPORT: flows are spread over the group, each sticks to one socket. */
#include "common.h"

#define FLOWS 24

int main(void)
{
	int fd[2], first[FLOWS];
	char data[16];
	begin(10);
	peer_start();
	for (int i = 0; i < 2; i++) {
		struct sockaddr_in a = addr4("0.0.0.0", PORT);
		fd[i] = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
		CALL(enable(fd[i], SOL_SOCKET, SO_REUSEPORT));
		CALL(bind(fd[i], SA(a)));
	}
	int strays = 0, moved = 0, counts[2] = {0};
	for (int round = 0; round < 2; round++)
		for (int f = 0; f < FLOWS; f++) {
			peer_open(10, FAR, 7100 + f);
			peer_send_from(10, NEAR, PORT, "flow");
			int got = -1;
			for (int i = 0; i < 2; i++)
				while (recv(fd[i], data, sizeof data, 0) == 4) {
					strays += got != -1;
					got = i;
				}
			strays += got == -1;
			if (round == 0)
				first[f] = got;
			else
				moved += first[f] != got;
			if (got != -1)
				counts[got]++;
		}
	say("strays %d, moved %d, both served %d", strays, moved, counts[0] && counts[1]);
	CALL(close(fd[0]));
	peer_send_from(10, NEAR, PORT, "rest");
	CALL(recv(fd[1], data, sizeof data, 0));
	report();
	return done();
}
