/* A vfork child and a posix_spawn child close everything: they share the parent's memory, but the
 * parent's sockets are its own. */
#include "common.h"
#include <spawn.h>

extern char **environ;
static int fd;

static void stream(void)
{
	char data[16];
	peer_burst(NEAR, PORT, 10, 8, 0);
	for (int i = 0; i < 10; i++) {
		memset(data, 0, sizeof data);
		MUST(recv(fd, data, 8, 0));
		if (atoi(data) != i)
			say("got %s instead of %d", data, i);
	}
	say("  ten received");
}

int main(void)
{
	int status;
	pid_t child;
	begin(15);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	stream();
	child = vfork();
	if (child == 0) {
		for (int i = 3; i < 64; i++)
			close(i);
		execl("/bin/true", "true", NULL);
		_exit(9);
	}
	MUST(waitpid(child, &status, 0));
	say("vfork child ended %#x", status);
	stream();
	child = vfork();
	if (child == 0) {
		dup2(fd, 60);
		close_range(3, 59, 0);
		_exit(2);
	}
	MUST(waitpid(child, &status, 0));
	say("vfork child ended %#x", status);
	stream();
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	for (int i = 3; i < 64; i++)
		posix_spawn_file_actions_addclose(&actions, i);
	char *args[] = {"true", NULL};
	if (posix_spawn(&child, "/bin/true", &actions, NULL, args, environ) != 0)
		die("posix_spawn");
	MUST(waitpid(child, &status, 0));
	say("spawned child ended %#x", status);
	stream();
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	CALL(sendto(fd, "out", 3, 0, SA(to)));
	peer_recv(1000);
	report();
	return done();
}
