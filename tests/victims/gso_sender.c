/* Sends argv[3] bytes in one call as segments of argv[2] bytes (UDP_SEGMENT) to argv[1]:PORT,
 * the first four digits of each its number. Runs on the far host. */
#include "common.h"

int main(int argc, char **argv)
{
	static char data[65000];
	begin(10);
	if (argc != 4)
		return 2;
	int fd = MUST(socket(AF_INET, SOCK_DGRAM, 0)), segment = atoi(argv[2]), total = atoi(argv[3]);
	struct sockaddr_in to = addr4(argv[1], PORT);
	MUST(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment));
	memset(data, '.', sizeof data);
	for (int i = 0; i * segment < total; i++) {
		char number[16];
		snprintf(number, sizeof number, "%04d", i);
		memcpy(data + i * segment, number, 4);
	}
	MUST(sendto(fd, data, total, 0, SA(to)));
	return done();
}
