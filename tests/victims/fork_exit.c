/* Children that end, in every way, do not disturb the parent's stream. */
#include "common.h"

static int fd;

static void stream(int count)
{
	char data[16];
	peer_burst(NEAR, PORT, count, 8, 0);
	for (int i = 0; i < count; i++) {
		memset(data, 0, sizeof data);
		MUST(recv(fd, data, 8, 0));
		if (atoi(data) != i)
			say("got %s instead of %d", data, i);
	}
	say("  %d received", count);
}

static void wait_for(pid_t child)
{
	int status;
	MUST(waitpid(child, &status, 0));
	say("child ended %#x", status);
}

int main(void)
{
	begin(15);
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	CALL(join(fd, GROUP));
	stream(20);
	report();
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	wait_for(child);
	stream(20);
	child = fork();
	if (child == 0)
		exit(3);
	wait_for(child);
	stream(20);
	child = fork();
	if (child == 0) {
		close(fd);
		execl("/bin/true", "true", NULL);
		_exit(9);
	}
	wait_for(child);
	stream(20);
	child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	stream(20);
	kill(child, SIGKILL);
	wait_for(child);
	stream(20);
	int status = CALL(system("exit 4"));
	say("  %d", WEXITSTATUS(status));
	FILE *pipe = popen("echo from a pipe", "r");
	char line[64] = "";
	if (!pipe || !fgets(line, sizeof line, pipe))
		die("popen");
	printf("  %s", line);
	CALL(pclose(pipe));
	stream(20);
	report();
	return done();
}
