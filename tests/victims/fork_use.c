/* A forked child uses an inherited socket in every way, then closes it. */
#include "common.h"

static int fd;

static void in_child(const char *what, void (*use)(void))
{
	pid_t child = fork();
	if (child == 0) {
		use();
		CALL(close(fd));
		fflush(stdout);
		_exit(0);
	}
	int status;
	MUST(waitpid(child, &status, 0));
	say("%s: child ended %#x", what, status);
}

static void look(void)
{
	char data[16];
	CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
}

static void set(void)
{
	int ttl = 9;
	CALL(setsockopt(fd, IPPROTO_IP, IP_TTL, &ttl, sizeof ttl));
}

static void name(void)
{
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(connect(fd, SA(to)));
}

int main(void)
{
	begin(15);
	peer_start();
	void (*const uses[])(void) = {look, set, name};
	const char *const names[] = {"recv", "setsockopt", "connect"};
	for (int i = 0; i < 3; i++) {
		fd = udp_bound("0.0.0.0", PORT + i);
		peer_send(NEAR, PORT + i, "for the parent");
		say_recv("parent", fd, 0);
		if (i == 2)
			report();
		in_child(names[i], uses[i]);
		if (i < 2)
			CALL(close(fd));
	}
	/* Not bound before the fork: the child has it to itself. */
	fd = MUST(socket(AF_INET, SOCK_DGRAM, 0));
	pid_t child = fork();
	if (child == 0) {
		struct sockaddr_in own = addr4("0.0.0.0", PORT + 7);
		CALL(bind(fd, SA(own)));
		look();
		CALL(close(fd));
		_exit(0);
	}
	int status;
	MUST(waitpid(child, &status, 0));
	say("bound late: child ended %#x", status);
	return done();
}
