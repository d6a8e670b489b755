/* UDP_SEGMENT and UDP_GRO on the program's own socket. */
#include "common.h"

int main(void)
{
	static char data[4000];
	char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
	struct iovec io = {data, 2500};
	int segment = 1000, off = 0;
	uint16_t small = 400;
	begin(10);
	peer_start();
	memset(data, 'g', sizeof data);
	int fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	struct msghdr m = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &io, .msg_iovlen = 1,
			   .msg_control = control, .msg_controllen = sizeof control};
	CALL(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof segment));
	CALL(sendto(fd, data, 2500, 0, SA(to)));
	for (int i = 0; i < 4; i++)
		peer_recv(i < 3 ? 1000 : 50);
	CALL(setsockopt(fd, SOL_UDP, UDP_SEGMENT, &off, sizeof off));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){.cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof small)};
	memcpy(CMSG_DATA(c), &small, sizeof small);
	io.iov_len = 900;
	CALL(sendmsg(fd, &m, 0));
	for (int i = 0; i < 4; i++)
		peer_recv(i < 3 ? 1000 : 50);
	int on = 1;
	CALL(setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on));
	peer_send(NEAR, PORT, "still received");
	say_recv("fd", fd, 0);
	report();
	return done();
}
