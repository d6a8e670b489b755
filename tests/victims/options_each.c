/* options_each FAMILY LEVEL NAME...: each option set and read with all kinds of values and lengths, and
 * what comes and goes after. */
#include "common.h"

static int fd, level, name;

static void get(void)
{
	static const int rooms[] = {0, 1, 2, 4, 8, 16, 64, -1};
	for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
		unsigned char value[64];
		socklen_t room = (socklen_t)rooms[i];
		memset(value, 0xee, sizeof value);
		errno = 0;
		long n = getsockopt(fd, level, name, value, &room);
		printf("  get %d: %ld %s, length %d:", rooms[i], n, n ? strerrorname_np(errno) : "", (int)room);
		for (int k = 0; k < 16; k++)
			if (value[k] != 0xee)
				printf(" %02x", value[k]);
			else
				break;
		puts("");
	}
}

static void set(long value, int length)
{
	unsigned char bytes[64] = {0};
	memcpy(bytes, &value, sizeof value);
	errno = 0;
	long n = setsockopt(fd, level, name, length == -2 ? NULL : bytes, length == -2 ? 4 : (socklen_t)length);
	say("set %ld, %d bytes: %ld %s", value, length, n, n ? strerrorname_np(errno) : "");
}

static void try_option(bool v6)
{
	static const long values[] = {0, 1, 2, 5, -1, 64, 255, 256, 1000, 0x7fffffff};
	static const int lengths[] = {0, 1, 2, 3, 4, 5, 8, 16, 64, -1, -2};
	say("option %d", name);
	fd = MUST(socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
	struct sockaddr_in any = addr4("0.0.0.0", PORT), far = addr4(FAR, PEER_PORT);
	struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)},
			    far6 = addr6("::ffff:" FAR, PEER_PORT);
	MUST(v6 ? bind(fd, SA(any6)) : bind(fd, SA(any)));
	peer_send(NEAR, PORT, "before");
	say_recv("before", fd, 0);
	get();
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		set(values[i], 4);
		get();
	}
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		set(1, lengths[i]);
		get();
	}
	for (long on = 1; on >= 0; on--) {
		set(on, 4);
		for (int i = 0; i < 2; i++) {
			CALL(v6 ? sendto(fd, "data", 4, 0, SA(far6)) : sendto(fd, "data", 4, 0, SA(far)));
			peer_recv(10);
		}
		peer_send(NEAR, PORT, "one");
		peer_send(NEAR_ALIAS, PORT, "two");
		say_recv("first", fd, 0);
		say_recv("second", fd, 0);
		say_recv("none", fd, 0);
	}
	report();
	MUST(close(fd));
}

int main(int argc, char **argv)
{
	begin(15);
	if (argc < 4)
		die("arguments");
	level = atoi(argv[2]);
	peer_start();
	for (int i = 3; i < argc; i++) {
		name = atoi(argv[i]);
		try_option(!strcmp(argv[1], "v6"));
	}
	return done();
}
