/* names CALL FAMILY: the sender's address in rooms of every size. */
#include "common.h"

int main(int argc, char **argv)
{
	static const int rooms[] = {0, 1, 2, 7, 8, 15, 16, 17, 27, 28, 29, 128, 1000, -1};
	char data[16];
	begin(10);
	bool message = !strcmp(argv[1], "recvmsg"), many = !strcmp(argv[1], "recvmmsg");
	bool v6 = !strcmp(argv[argc - 1], "v6");
	peer_start();
	int fd = MUST(socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0));
	if (v6) {
		struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
		MUST(bind(fd, SA(any)));
	} else {
		struct sockaddr_in any = addr4("0.0.0.0", PORT);
		MUST(bind(fd, SA(any)));
	}
	for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
		unsigned char name[1024];
		socklen_t room = (socklen_t)rooms[i];
		struct iovec io = {data, sizeof data};
		struct mmsghdr m = {.msg_hdr = {.msg_name = name, .msg_namelen = room, .msg_iov = &io,
						.msg_iovlen = 1}};
		memset(name, 0xee, sizeof name);
		peer_send(NEAR, PORT, "name");
		say("room %d", rooms[i]);
		if (message)
			CALL(recvmsg(fd, &m.msg_hdr, MSG_DONTWAIT));
		else if (many)
			CALL(recvmmsg(fd, &m, 1, MSG_DONTWAIT, NULL));
		else
			CALL(recvfrom(fd, data, sizeof data, MSG_DONTWAIT, (void *)name, &room));
		say("  length %d", message || many ? (int)m.msg_hdr.msg_namelen : (int)room);
		int touched = 0;
		for (int k = 0; k < 128; k++)
			if (name[k] != 0xee)
				touched = k + 1;
		say("  touched %d", touched);
		if (touched > 3 && touched <= 28)
			for (int k = 0; k < touched; k++)
				printf("%02x%s", name[k], k == touched - 1 ? "\n" : "");
		say_recv("left", fd, MSG_DONTWAIT);
	}
	struct sockaddr_storage from;
	socklen_t size = sizeof from;
	peer_send(NEAR, PORT, "no length");
	CALL(recvfrom(fd, data, sizeof data, MSG_DONTWAIT, (void *)&from, NULL));
	say_recv("left", fd, MSG_DONTWAIT);
	peer_send(NEAR, PORT, "no name");
	CALL(recvfrom(fd, data, sizeof data, MSG_DONTWAIT, NULL, &size));
	say("  length %u", size);
	report();
	return done();
}
