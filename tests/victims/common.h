/* What every victim needs: a transcript of each call's outcome, bounded waits, and
 * the peer on the far host (tests/src/peer.rs). Victims know nothing of the library. */
#ifndef COMMON_H
#define COMMON_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NEAR "10.78.0.1"
#define NEAR_ALIAS "10.78.0.11"
#define FAR "10.78.0.2"
#define GROUP "239.78.0.1"
#define GROUP2 "239.78.0.2"
#define PORT 5000 /* the victim's own */
#define PEER_PORT 7000

#define UNUSED __attribute__((unused))

/* ---- transcript ------------------------------------------------------------ */

static UNUSED void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static UNUSED void say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

/* Ends the victim: something that is not under test went wrong. */
static UNUSED void die(const char *what)
{
	say("FATAL %s: %s", what, strerror(errno));
	_exit(99);
}

/* The text of a call, its value and error; a success must leave errno alone. */
static UNUSED long say_call(const char *text, long value)
{
	int error = errno;
	if (value == -1)
		say("%s = -1 %s", text, strerrorname_np(error));
	else if (error != 0)
		say("%s = %ld, errno disturbed: %s", text, value, strerrorname_np(error));
	else
		say("%s = %ld", text, value);
	errno = error;
	return value;
}
#define CALL(expression) (errno = 0, say_call(#expression, (long)(expression)))
/* A call that must work for the test to make sense, and is not itself under test. */
#define MUST(expression)                           \
	({                                         \
		long must_ = (long)(expression);   \
		if (must_ == -1)                   \
			die(#expression);          \
		must_;                             \
	})

static UNUSED void say_bytes(const char *what, const void *data, long length)
{
	char text[97];
	long shown = length < 0 ? 0 : length > 96 ? 96 : length;
	for (long i = 0; i < shown; i++) {
		unsigned char byte = ((const unsigned char *)data)[i];
		text[i] = byte >= ' ' && byte < 127 ? (char)byte : '#';
	}
	text[shown] = 0;
	say("  %s \"%s\"%s", what, text, length > 96 ? "..." : "");
}

static UNUSED void say_addr(const char *what, const void *address, socklen_t length)
{
	char text[INET6_ADDRSTRLEN];
	const struct sockaddr_in *v4 = address;
	const struct sockaddr_in6 *v6 = address;
	if (length == 0)
		say("  %s none", what);
	else if (v4->sin_family == AF_INET)
		say("  %s %s:%d (%u bytes)", what, inet_ntop(AF_INET, &v4->sin_addr, text, sizeof text),
		    ntohs(v4->sin_port), length);
	else if (v4->sin_family == AF_INET6)
		say("  %s [%s]:%d scope %u (%u bytes)", what,
		    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof text), ntohs(v6->sin6_port),
		    v6->sin6_scope_id, length);
	else
		say("  %s family %d (%u bytes)", what, v4->sin_family, length);
}

/* Flags by name; what is left over as a number. */
static UNUSED void say_flags(int flags)
{
	static const struct { int bit; const char *name; } names[] = {
		{MSG_TRUNC, "TRUNC"}, {MSG_CTRUNC, "CTRUNC"}, {MSG_ERRQUEUE, "ERRQUEUE"},
		{MSG_EOR, "EOR"}, {MSG_OOB, "OOB"}, {MSG_CMSG_CLOEXEC, "CMSG_CLOEXEC"},
	};
	printf("  flags");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (flags & names[i].bit) {
			printf(" %s", names[i].name);
			flags &= ~names[i].bit;
		}
	say(flags ? " %#x" : "%.0d", flags);
}

static UNUSED const char *event_names(unsigned events)
{
	static __thread char text[128];
	static const struct { unsigned bit; const char *name; } names[] = {
		{EPOLLIN, "IN"}, {EPOLLPRI, "PRI"}, {EPOLLOUT, "OUT"}, {EPOLLERR, "ERR"},
		{EPOLLHUP, "HUP"}, {EPOLLRDHUP, "RDHUP"}, {EPOLLRDNORM, "RDNORM"},
		{EPOLLWRNORM, "WRNORM"}, {POLLNVAL, "NVAL"},
	};
	text[0] = 0;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (events & names[i].bit) {
			strcat(text, text[0] ? "|" : "");
			strcat(text, names[i].name);
			events &= ~names[i].bit;
		}
	if (events)
		sprintf(text + strlen(text), "|%#x", events);
	return text[0] ? text : "none";
}

/* ---- time ------------------------------------------------------------------ */

static UNUSED int64_t now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static UNUSED void sleep_ms(int ms)
{
	struct timespec t = {ms / 1000, (ms % 1000) * 1000000L};
	while (nanosleep(&t, &t) == -1 && errno == EINTR)
		;
	errno = 0;
}

/* Says whether a wait lasted as long as it should; generous upwards, the machine is shared. */
static UNUSED void say_took(int64_t start_us, int at_least_ms, int at_most_ms)
{
	int64_t took = now_us() - start_us;
	if (took < at_least_ms * 1000LL - 1000)
		say("  too short: %lld us", (long long)took);
	else if (took > at_most_ms * 1000LL)
		say("  too long: %lld us", (long long)took);
	else
		say("  took %d to %d ms", at_least_ms, at_most_ms);
}

/* Every victim begins here: nothing waits for ever. */
static UNUSED void begin(unsigned seconds)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(seconds);
}

/* And ends here. */
static UNUSED int done(void)
{
	say("done");
	return 0;
}

/* ---- sockets --------------------------------------------------------------- */

static UNUSED struct sockaddr_in addr4(const char *ip, int port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	if (inet_pton(AF_INET, ip, &a.sin_addr) != 1)
		die(ip);
	return a;
}

static UNUSED struct sockaddr_in6 addr6(const char *ip, int port)
{
	struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	if (inet_pton(AF_INET6, ip, &a.sin6_addr) != 1)
		die(ip);
	return a;
}

#define SA(address) ((struct sockaddr *)&(address)), (socklen_t)sizeof(address)

static UNUSED int enable(int fd, int level, int name)
{
	int on = 1;
	return setsockopt(fd, level, name, &on, sizeof on);
}

static UNUSED int udp_bound(const char *ip, int port)
{
	int fd = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	struct sockaddr_in a = addr4(ip, port);
	MUST(bind(fd, SA(a)));
	return fd;
}

static UNUSED int udp_shared(const char *ip, int port)
{
	int fd = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	struct sockaddr_in a = addr4(ip, port);
	MUST(enable(fd, SOL_SOCKET, SO_REUSEADDR));
	MUST(bind(fd, SA(a)));
	return fd;
}

static UNUSED int join(int fd, const char *group)
{
	struct ip_mreqn m = {.imr_ifindex = (int)if_nametoindex("veth0")};
	inet_pton(AF_INET, group, &m.imr_multiaddr);
	return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m);
}

static UNUSED int leave(int fd, const char *group)
{
	struct ip_mreqn m = {.imr_ifindex = (int)if_nametoindex("veth0")};
	inet_pton(AF_INET, group, &m.imr_multiaddr);
	return setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &m, sizeof m);
}

static UNUSED void set_nonblock(int fd, bool on)
{
	int flags = MUST(fcntl(fd, F_GETFL));
	MUST(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
}

/* One receive, with everything that it says. */
static UNUSED long say_recv(const char *who, int fd, int flags)
{
	char data[70000];
	struct sockaddr_storage from;
	socklen_t length = sizeof from;
	memset(&from, 0, sizeof from);
	errno = 0;
	long n = recvfrom(fd, data, sizeof data, flags, (struct sockaddr *)&from, &length);
	int error = errno;
	if (n < 0) {
		say("%s receives nothing: %s", who, strerrorname_np(error));
	} else {
		say("%s receives %ld%s", who, n, error ? ", errno disturbed" : "");
		say_bytes("data", data, n);
		say_addr("from", &from, length);
	}
	errno = error;
	return n;
}

/* ---- the peer on the far host ---------------------------------------------- */

/* High, so that the descriptors under test get the numbers they would get anyway. */
#define PEER_FD 700
static int peer_fd = -1;

static UNUSED void peer_connect(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const char *path = getenv("PEER");
	if (!path || strlen(path) >= sizeof a.sun_path)
		die("PEER");
	strcpy(a.sun_path, path);
	int fd = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
	MUST(connect(fd, (struct sockaddr *)&a, sizeof a));
	peer_fd = MUST(fcntl(fd, F_DUPFD_CLOEXEC, PEER_FD));
	MUST(close(fd));
}

static UNUSED void full_write(const void *data, size_t length)
{
	for (size_t sent = 0; sent < length;)
		sent += MUST(write(peer_fd, (const char *)data + sent, length - sent));
}

static UNUSED void full_read(void *data, size_t length)
{
	for (size_t have = 0; have < length;) {
		long n = MUST(read(peer_fd, (char *)data + have, length - have));
		if (n == 0)
			die("the peer went away");
		have += n;
	}
}

/* Sends a command with a payload; the answer's header line, and its payload after it. */
static UNUSED const char *peer_ask(const void *payload, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static UNUSED const char *peer_ask(const void *payload, size_t size, const char *format, ...)
{
	static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
	static __thread char answer[70000];
	char head[256];
	va_list args;
	int saved = errno;
	pthread_mutex_lock(&turn);
	if (peer_fd == -1)
		peer_connect();
	va_start(args, format);
	size_t length = (size_t)vsnprintf(head, sizeof head - 1, format, args);
	va_end(args);
	head[length++] = '\n';
	uint32_t total = (uint32_t)(length + size);
	full_write(&total, sizeof total);
	full_write(head, length);
	full_write(payload, size);
	full_read(&total, sizeof total);
	if (total >= sizeof answer)
		die("answer too long");
	full_read(answer, total);
	pthread_mutex_unlock(&turn);
	answer[total] = 0;
	errno = saved;
	return answer;
}

static UNUSED void peer_do(const void *payload, size_t size, const char *command)
{
	const char *answer = peer_ask(payload, size, "%s", command);
	if (strncmp(answer, "ok", 2) != 0)
		die(answer);
}

#define PEER_DO(payload, size, ...)                                \
	do {                                                       \
		char command_[256];                                \
		snprintf(command_, sizeof command_, __VA_ARGS__);  \
		peer_do(payload, size, command_);                  \
	} while (0)

/* Slot 0 is the peer's usual socket, FAR:PEER_PORT. */
static UNUSED void peer_open(int slot, const char *ip, int port)
{
	PEER_DO("", 0, "open %d %s %d", slot, ip, port);
}

static UNUSED void peer_start(void)
{
	peer_open(0, FAR, PEER_PORT);
}

static UNUSED void peer_send(const char *ip, int port, const char *text)
{
	PEER_DO(text, strlen(text), "send 0 %s %d", ip, port);
}

static UNUSED void peer_send_from(int slot, const char *ip, int port, const char *text)
{
	PEER_DO(text, strlen(text), "send %d %s %d", slot, ip, port);
}

static UNUSED void peer_send_bytes(const char *ip, int port, size_t size)
{
	static char data[66000];
	for (size_t i = 0; i < size; i++)
		data[i] = (char)('a' + i % 23);
	PEER_DO(data, size, "send 0 %s %d", ip, port);
}

static UNUSED void peer_send_later(int ms, const char *ip, int port, const char *text)
{
	PEER_DO(text, strlen(text), "later %d 0 %s %d", ms, ip, port);
}

static UNUSED void peer_burst(const char *ip, int port, int count, int size, int gap_us)
{
	PEER_DO("", 0, "burst 0 %s %d %d %d %d", ip, port, count, size, gap_us);
}

/* What the peer received within ms: length, sender (port shown only if it is fixed), data. */
static UNUSED void peer_recv_slot(int slot, int ms)
{
	const char *answer = peer_ask("", 0, "recv %d %d", slot, ms);
	int length, port;
	char ip[64];
	if (sscanf(answer, "ok %d %63s %d", &length, ip, &port) != 3) {
		say("peer receives nothing: %s", answer[0] == 'n' ? "timeout" : answer);
		return;
	}
	if (port < 32768)
		say("peer receives %d from %s:%d", length, ip, port);
	else
		say("peer receives %d from %s", length, ip);
	const char *data = strchr(answer, '\n') + 1;
	say_bytes("data", data, length);
}

static UNUSED void peer_recv(int ms)
{
	peer_recv_slot(0, ms);
}

/* Asks for a snapshot of this process's statistics now, while the sockets are open. */
static UNUSED void report(void)
{
	PEER_DO("", 0, "report %d", (int)getpid());
}

/* Waits for ever in one of five calls: recv, recvmsg, poll, select, epoll_wait. */
static UNUSED void block_in(int call, int fd, int ep)
{
	char data[64];
	struct iovec v = {data, sizeof data};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct epoll_event e;
	fd_set set;
	FD_ZERO(&set);
	FD_SET(fd, &set);
	switch (call) {
	case 0:
		recv(fd, data, sizeof data, 0);
		break;
	case 1:
		recvmsg(fd, &m, 0);
		break;
	case 2:
		poll(&p, 1, -1);
		break;
	case 3:
		select(fd + 1, &set, NULL, NULL, NULL);
		break;
	default:
		epoll_wait(ep, &e, 1, -1);
	}
}

#endif
