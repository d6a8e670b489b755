/* Several behaviours in one program: the argument names the scene that is played. */
#ifndef SCENES_H
#define SCENES_H
#include "common.h"
#include <net/if_arp.h>

struct scene {
	const char *name;
	void (*play)(void);
};
#define SCENE(name) {#name, name}

static UNUSED int play(const struct scene *scenes, int argc, char **argv)
{
	begin(18);
	/* The second image of a program has its peer already. */
	if (!getenv("SECOND"))
		peer_start();
	for (; scenes->name; scenes++)
		if (argc > 1 && strcmp(scenes->name, argv[1]) == 0) {
			scenes->play();
			return done();
		}
	die("no such scene");
	return 1;
}

/* What is under way arrives. */
static UNUSED void settle(void)
{
	sleep_ms(12);
}

/* Everything that a socket has now, and that there is no more. */
static UNUSED void take_all(const char *who, int fd)
{
	for (int i = 0; i < 12; i++)
		if (say_recv(who, fd, MSG_DONTWAIT) < 0 && errno == EAGAIN)
			return;
	say("%s: no end", who);
}

static UNUSED int udp(void)
{
	return (int)MUST(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}

static UNUSED int udp_with(const char *ip, int port, int option)
{
	int fd = udp();
	struct sockaddr_in a = addr4(ip, port);
	MUST(enable(fd, SOL_SOCKET, option));
	MUST(bind(fd, SA(a)));
	return fd;
}

static UNUSED int connected(const char *ip, int port, const char *peer, int peer_port)
{
	int fd = udp_bound(ip, port);
	struct sockaddr_in a = addr4(peer, peer_port);
	MUST(connect(fd, SA(a)));
	return fd;
}

static UNUSED int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof value);
}

static UNUSED void send_to(int fd, const char *ip, int port, const char *text)
{
	struct sockaddr_in to = addr4(ip, port);
	errno = 0;
	long n = sendto(fd, text, strlen(text), 0, SA(to));
	int error = errno;
	if (n == -1)
		say("sends \"%s\" to %s: %s", text, ip, strerrorname_np(error));
	else
		say("sends \"%s\" to %s: %ld", text, ip, n);
	errno = error;
}

static UNUSED void ip_near(const char *words)
{
	PEER_DO("", 0, "ip near %s", words);
}

static UNUSED void ip_far(const char *words)
{
	PEER_DO("", 0, "ip far %s", words);
}

/* The engine hears of what has changed. */
static UNUSED void heard(void)
{
	sleep_ms(40);
}

/* A second wire, veth1 on both hosts: 10.79.0.1 and 10.79.0.2. */
static UNUSED void second_wire(void)
{
	ip_near("link add veth1 type veth peer name veth1 netns @far");
	for (int i = 1; i <= 2; i++) {
		const char *host = i == 1 ? "near" : "far";
		PEER_DO("", 0, "ip %s link set veth1 addrgenmode none", host);
		PEER_DO("", 0, "ip %s addr add 10.79.0.%d/24 brd + dev veth1", host, i);
		PEER_DO("", 0, "ip %s link set veth1 up", host);
	}
	peer_open(9, "10.79.0.2", PEER_PORT);
	heard();
}

static UNUSED void sniff(void)
{
	PEER_DO("", 0, "sniff");
}

static UNUSED void sniffed(const char *what)
{
	const char *answer = peer_ask("", 0, "sniffed 60");
	if (strncmp(answer, "ok\n", 3) != 0)
		die(answer);
	say("%s:", what);
	fputs(answer + 3, stdout);
	fflush(stdout);
}

#endif
