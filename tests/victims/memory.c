/* The memory of a program with one UDP socket in use, in KiB: the pages that it holds,
 * rings with them. */
#include "common.h"

int main(void)
{
	char line[256];
	FILE *status;
	begin(20);
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	for (int i = 0; i < 100; i++) {
		sendto(fd, "x", 1, 0, SA(to));
		recv(fd, line, sizeof line, MSG_DONTWAIT);
	}
	sleep_ms(100);
	status = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, status))
		if (strncmp(line, "VmRSS:", 6) == 0)
			fputs(line, stdout);
	fclose(status);
	return 0;
}
