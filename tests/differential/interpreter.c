/* One host's side of the random test: a step a line on standard input, what came of it on
 * standard output, then a line ".". Slots hold sockets, epoll sets have their own. Nothing in a
 * transcript depends on time or on a number that the kernel draws. */
#include "interpreter.h"
#include <linux/filter.h>
#include <sys/syscall.h>

#define MARKER_PORT 6999

static int marker = -1;

/* ---- options ------------------------------------------------------------------- */

static const struct { const char *name; int level, option; char kind; } options[] = {
	{"reuseaddr", SOL_SOCKET, SO_REUSEADDR, 'i'}, {"reuseport", SOL_SOCKET, SO_REUSEPORT, 'i'},
	{"broadcast", SOL_SOCKET, SO_BROADCAST, 'i'}, {"rcvbuf", SOL_SOCKET, SO_RCVBUF, 'i'},
	{"sndbuf", SOL_SOCKET, SO_SNDBUF, 'i'}, {"rcvtimeo", SOL_SOCKET, SO_RCVTIMEO, 't'},
	{"error", SOL_SOCKET, SO_ERROR, 'i'}, {"type", SOL_SOCKET, SO_TYPE, 'i'},
	{"domain", SOL_SOCKET, SO_DOMAIN, 'i'}, {"priority", SOL_SOCKET, SO_PRIORITY, 'i'},
	{"timestamp", SOL_SOCKET, SO_TIMESTAMP, 'i'}, {"timestampns", SOL_SOCKET, SO_TIMESTAMPNS, 'i'},
	{"rxq_ovfl", SOL_SOCKET, SO_RXQ_OVFL, 'i'}, {"device", SOL_SOCKET, SO_BINDTODEVICE, 'd'},
	{"busy_poll", SOL_SOCKET, SO_BUSY_POLL, 'i'}, {"rcvlowat", SOL_SOCKET, SO_RCVLOWAT, 'i'},
	{"dontroute", SOL_SOCKET, SO_DONTROUTE, 'i'}, {"no_check", SOL_SOCKET, SO_NO_CHECK, 'i'},
	{"pktinfo", IPPROTO_IP, IP_PKTINFO, 'i'}, {"recvttl", IPPROTO_IP, IP_RECVTTL, 'i'},
	{"recvtos", IPPROTO_IP, IP_RECVTOS, 'i'}, {"ttl", IPPROTO_IP, IP_TTL, 'i'},
	{"tos", IPPROTO_IP, IP_TOS, 'i'}, {"recverr", IPPROTO_IP, IP_RECVERR, 'i'},
	{"origdst", IPPROTO_IP, IP_RECVORIGDSTADDR, 'i'}, {"freebind", IPPROTO_IP, IP_FREEBIND, 'i'},
	{"mc_all", IPPROTO_IP, IP_MULTICAST_ALL, 'i'}, {"mc_loop", IPPROTO_IP, IP_MULTICAST_LOOP, 'i'},
	{"mc_ttl", IPPROTO_IP, IP_MULTICAST_TTL, 'i'}, {"mc_if", IPPROTO_IP, IP_MULTICAST_IF, 'a'},
	{"mtu_discover", IPPROTO_IP, IP_MTU_DISCOVER, 'i'}, {"minttl", IPPROTO_IP, IP_MINTTL, 'i'},
	{"peek_off", SOL_SOCKET, SO_PEEK_OFF, 'i'}, {"cork", IPPROTO_UDP, UDP_CORK, 'i'},
	{"segment", IPPROTO_UDP, UDP_SEGMENT, 'i'}, {"recvopts", IPPROTO_IP, IP_RECVOPTS, 'i'},
	{"v6only", IPPROTO_IPV6, IPV6_V6ONLY, 'i'}, {"v6pktinfo", IPPROTO_IPV6, IPV6_RECVPKTINFO, 'i'},
	{"v6hops", IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 'i'}, {"v6tclass", IPPROTO_IPV6, IPV6_RECVTCLASS, 'i'},
	{"v6recverr", IPPROTO_IPV6, IPV6_RECVERR, 'i'}, {"v6mc_loop", IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 'i'},
	{"v6ttl", IPPROTO_IPV6, IPV6_UNICAST_HOPS, 'i'}, {"v6mc_all", IPPROTO_IPV6, IPV6_MULTICAST_ALL, 'i'},
};

/* set SLOT NAME VALUE; get SLOT NAME */
static void step_option(bool set)
{
	int fd = sockets[slot(1)];
	for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
		if (strcmp(options[i].name, word(2)) != 0)
			continue;
		int level = options[i].level, option = options[i].option, value = set ? number(3) : -1;
		struct timeval t = {0, set ? number(3) : -1};
		struct in_addr a = {0};
		char name[IFNAMSIZ] = "";
		void *data = &value;
		socklen_t length = sizeof value;
		if (options[i].kind == 't')
			data = &t, length = sizeof t;
		if (options[i].kind == 'a') {
			data = &a, length = sizeof a;
			if (set)
				inet_pton(AF_INET, word(3), &a);
		}
		if (options[i].kind == 'd') {
			data = name, length = sizeof name;
			if (set && strcmp(word(3), "none") != 0)
				snprintf(name, sizeof name, "%s", word(3)), length = (socklen_t)strlen(name);
		}
		if (set) {
			CALL(setsockopt(fd, level, option, data, length));
		} else {
			CALL(getsockopt(fd, level, option, data, &length));
			char text[INET_ADDRSTRLEN];
			say("  %u: %d, %ld %ld, %s, \"%.15s\"", length, value, (long)t.tv_sec, (long)t.tv_usec,
			    inet_ntop(AF_INET, &a, text, sizeof text), name);
		}
		return;
	}
	die(word(2));
}

/* member SLOT FORM VERB GROUP [SOURCE]: by interface's index, by address, or independent of the family. */
static void step_member(void)
{
	const char *verbs[] = {"join", "leave", "source_join", "source_leave", "block", "unblock"};
	const int by_ip[] = {IP_ADD_MEMBERSHIP, IP_DROP_MEMBERSHIP, IP_ADD_SOURCE_MEMBERSHIP,
			     IP_DROP_SOURCE_MEMBERSHIP, IP_BLOCK_SOURCE, IP_UNBLOCK_SOURCE};
	const int by_any[] = {MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP, MCAST_JOIN_SOURCE_GROUP,
			      MCAST_LEAVE_SOURCE_GROUP, MCAST_BLOCK_SOURCE, MCAST_UNBLOCK_SOURCE};
	int fd = sockets[slot(1)], verb = 0, index = (int)if_nametoindex("veth0");
	const char *form = word(2);
	while (verb < 5 && strcmp(verbs[verb], word(3)) != 0)
		verb++;
	if (strcmp(form, "any") == 0) {
		struct sockaddr_in group = addr4(word(4), 0), source = addr4(verb > 1 ? word(5) : FAR, 0);
		struct group_source_req r = {.gsr_interface = (uint32_t)index};
		struct group_req g = {.gr_interface = (uint32_t)index};
		memcpy(&r.gsr_group, &group, sizeof group);
		memcpy(&r.gsr_source, &source, sizeof source);
		memcpy(&g.gr_group, &group, sizeof group);
		if (verb > 1)
			CALL(setsockopt(fd, IPPROTO_IP, by_any[verb], &r, sizeof r));
		else
			CALL(setsockopt(fd, IPPROTO_IP, by_any[verb], &g, sizeof g));
	} else if (verb > 1) {
		struct ip_mreq_source m = {0};
		inet_pton(AF_INET, word(4), &m.imr_multiaddr);
		inet_pton(AF_INET, word(5), &m.imr_sourceaddr);
		inet_pton(AF_INET, strcmp(form, "default") == 0 ? "0.0.0.0" : NEAR, &m.imr_interface);
		CALL(setsockopt(fd, IPPROTO_IP, by_ip[verb], &m, sizeof m));
	} else {
		struct ip_mreqn m = {.imr_ifindex = strcmp(form, "index") == 0 ? index : 0};
		inet_pton(AF_INET, word(4), &m.imr_multiaddr);
		if (strcmp(form, "address") == 0)
			inet_pton(AF_INET, NEAR, &m.imr_address);
		CALL(setsockopt(fd, IPPROTO_IP, by_ip[verb], &m, sizeof m));
	}
}

/* filter SLOT MODE GROUP [SOURCE…]: the whole source filter at once. */
static void step_filter(void)
{
	union {
		struct ip_msfilter f;
		char room[IP_MSFILTER_SIZE(4)];
	} u;
	memset(&u, 0, sizeof u);
	inet_pton(AF_INET, word(3), &u.f.imsf_multiaddr);
	inet_pton(AF_INET, NEAR, &u.f.imsf_interface);
	u.f.imsf_fmode = word(2)[0] == 'i' ? MCAST_INCLUDE : MCAST_EXCLUDE;
	for (int i = 4; i < count && i < 8; i++)
		inet_pton(AF_INET, word(i), &u.f.imsf_slist[u.f.imsf_numsrc++]);
	CALL(setsockopt(sockets[slot(1)], IPPROTO_IP, IP_MSFILTER, &u.f, IP_MSFILTER_SIZE(u.f.imsf_numsrc)));
}

/* bpf SLOT ROOM: a filter of the program's own that keeps so much of a packet; 0 takes it off. */
static void step_bpf(void)
{
	struct sock_filter keep = BPF_STMT(BPF_RET | BPF_K, (unsigned)number(2));
	struct sock_fprog program = {1, &keep};
	int none = 0;
	if (number(2))
		CALL(setsockopt(sockets[slot(1)], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
	else
		CALL(setsockopt(sockets[slot(1)], SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof none));
}

/* ---- sockets ------------------------------------------------------------------- */

static void step_open(void)
{
	int n = slot(1);
	if (sockets[n] != -1) {
		say("in use");
		return;
	}
	families[n] = number(2) == 6 ? AF_INET6 : AF_INET;
	sockets[n] = (int)CALL(socket(families[n], SOCK_DGRAM | SOCK_CLOEXEC | (number(3) ? SOCK_NONBLOCK : 0), 0));
}

static void step_bind(void)
{
	struct sockaddr_storage a;
	socklen_t length = address(families[slot(1)], word(2), word(3), &a);
	CALL(bind(sockets[slot(1)], (struct sockaddr *)&a, length));
}

static void step_connect(void)
{
	struct sockaddr_storage a;
	socklen_t length = address(families[slot(1)], word(2), word(3), &a);
	CALL(connect(sockets[slot(1)], (struct sockaddr *)&a, length));
}

static void step_unconnect(void)
{
	struct sockaddr a = {.sa_family = AF_UNSPEC};
	CALL(connect(sockets[slot(1)], &a, sizeof a));
}

static void step_close(void)
{
	CALL(close(sockets[slot(1)]));
	sockets[slot(1)] = -1;
}

static void step_dup(void)
{
	int n = slot(2);
	if (sockets[n] != -1) {
		say("in use");
		return;
	}
	families[n] = families[slot(1)];
	sockets[n] = (int)CALL(dup(sockets[slot(1)]));
}

static void step_dup2(void)
{
	int n = slot(2);
	if (sockets[n] == -1 || sockets[slot(1)] == -1)
		return;
	if (CALL(dup2(sockets[slot(1)], sockets[n])) >= 0)
		families[n] = families[slot(1)];
}

static void step_names(void)
{
	struct sockaddr_storage a = {0};
	socklen_t length = sizeof a;
	if (CALL(getsockname(sockets[slot(1)], (struct sockaddr *)&a, &length)) == 0)
		say_from("name", &a, length);
	length = sizeof a;
	if (CALL(getpeername(sockets[slot(1)], (struct sockaddr *)&a, &length)) == 0)
		say_from("peer", &a, length);
}

static void step_fionread(void)
{
	int value = -1;
	CALL(ioctl(sockets[slot(1)], FIONREAD, &value));
	say("  %d", value);
}

static void step_nonblock(void)
{
	int fd = sockets[slot(1)], on = number(2);
	if (number(3)) {
		CALL(ioctl(fd, FIONBIO, &on));
	} else {
		int flags = fcntl(fd, F_GETFL);
		CALL(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
	}
	say("  %#x", fcntl(fd, F_GETFL));
}

/* ---- readiness ----------------------------------------------------------------- */

static unsigned event_bits(const char *letters)
{
	unsigned bits = 0;
	for (; *letters; letters++)
		bits |= *letters == 'i'	  ? EPOLLIN
			: *letters == 'o' ? EPOLLOUT
			: *letters == 'e' ? EPOLLET
			: *letters == '1' ? EPOLLONESHOT
			: *letters == 'r' ? EPOLLRDHUP
			: *letters == 'x' ? EPOLLEXCLUSIVE
					  : 0;
	return bits;
}

/* ctl SET add|mod|del SLOT EVENTS */
static void step_ctl(void)
{
	struct epoll_event e = {.events = event_bits(word(4)), .data.u32 = (uint32_t)slot(3)};
	int set = sets[number(1) % SETS];
	int verb = word(2)[0] == 'a' ? EPOLL_CTL_ADD : word(2)[0] == 'm' ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
	CALL(epoll_ctl(set, verb, sockets[slot(3)], &e));
}

/* nest add|mod|del EVENTS: the first set within the second. */
static void step_nest(void)
{
	struct epoll_event e = {.events = event_bits(word(2)), .data.u32 = SLOTS};
	int verb = word(1)[0] == 'a' ? EPOLL_CTL_ADD : word(1)[0] == 'm' ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
	CALL(epoll_ctl(sets[1], verb, sets[0], &e));
}

static int by_slot(const void *a, const void *b)
{
	const struct epoll_event *x = a, *y = b;
	return (int)x->data.u32 - (int)y->data.u32;
}

/* wait SET TIMEOUT ROOM; in the order of slots, for the order among ready ones is nobody's promise. */
static void step_wait(void)
{
	struct epoll_event e[8];
	int room = number(3), set = sets[number(1) % SETS], ready;
	ready = (int)CALL(epoll_wait(set, e, room, number(2)));
	if (ready > 0 && room > 1) {
		qsort(e, (size_t)ready, sizeof *e, by_slot);
		for (int i = 0; i < ready; i++)
			say("  %u: %s", e[i].data.u32, event_names(e[i].events));
	}
}

static void step_poll(void)
{
	struct pollfd p[SLOTS + SETS];
	for (int i = 0; i < SLOTS; i++)
		p[i] = (struct pollfd){sockets[i], (short)(event_bits(word(1)) & (POLLIN | POLLOUT)), 0};
	for (int i = 0; i < SETS; i++)
		p[SLOTS + i] = (struct pollfd){sets[i], POLLIN, 0};
	CALL(poll(p, SLOTS + SETS, number(2)));
	for (int i = 0; i < SLOTS + SETS; i++)
		if (p[i].revents)
			say("  %d: %s", i, event_names((unsigned short)p[i].revents));
}

static void step_select(void)
{
	fd_set sets[3];
	int highest = -1;
	struct timeval t = {0, number(2) * 1000};
	for (int s = 0; s < 3; s++) {
		FD_ZERO(&sets[s]);
		for (int i = 0; i < SLOTS; i++)
			if (sockets[i] >= 0 && strchr(word(1), "ioe"[s])) {
				FD_SET(sockets[i], &sets[s]);
				highest = sockets[i] > highest ? sockets[i] : highest;
			}
	}
	CALL(select(highest + 1, &sets[0], &sets[1], &sets[2], &t));
	for (int s = 0; s < 3; s++)
		for (int i = 0; i < SLOTS; i++)
			if (sockets[i] >= 0 && FD_ISSET(sockets[i], &sets[s]))
				say("  %d: %c", i, "ioe"[s]);
}

/* ---- the wire ------------------------------------------------------------------ */

/* System calls of their own: the marker is no socket under test. */
static void open_marker(const char *ip, int port, bool serve)
{
	struct sockaddr_in a = addr4(ip, port);
	struct timeval t = {0, 50000};
	int fd = (int)MUST(syscall(SYS_socket, AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	marker = (int)MUST(syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, PEER_FD));
	syscall(SYS_close, fd);
	syscall(SYS_setsockopt, marker, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
	MUST(syscall(serve ? SYS_bind : SYS_connect, marker, &a, sizeof a));
}

static void *echo(void *unused)
{
	for (;;) {
		uint32_t n;
		struct sockaddr_in from;
		socklen_t length = sizeof from;
		if (recvfrom(marker, &n, sizeof n, 0, (struct sockaddr *)&from, &length) == sizeof n)
			sendto(marker, &n, sizeof n, 0, (struct sockaddr *)&from, length);
	}
	return unused;
}

/* Goes there and back: whatever was on the wire, and the answers to it, has arrived. */
static void step_settle(void)
{
	static uint32_t serial;
	for (int tries = 0; tries < 40; tries++) {
		uint32_t n = 0;
		serial++;
		/* Nothing travels while the link is down. */
		if (syscall(SYS_sendto, marker, &serial, sizeof serial, 0, NULL, 0) == -1 && errno != ECONNREFUSED)
			return;
		do {
			if (syscall(SYS_recvfrom, marker, &n, sizeof n, 0, NULL, NULL) != sizeof n)
				break;
		} while (n != serial);
		if (n == serial) {
			if (number(1))
				sleep_ms(number(1));
			return;
		}
	}
	die("the wire does not settle");
}

static void drain(void)
{
	for (int n = 0; n < SLOTS; n++) {
		char line[64];
		for (int i = 0; sockets[n] != -1 && i < 20; i++) {
			snprintf(line, sizeof line, "%d", n);
			static struct received r;
			strcpy(r.form, "recvfrom");
			r.fd = sockets[n], r.flags = MSG_DONTWAIT, r.room = sizeof r.data[0];
			receive(&r);
			if (r.value < 0)
				break;
			printf("slot %s: ", line);
			say_received(&r);
		}
	}
}

static void obey(void);
static void step_reap(void);

static void parse(char *line)
{
	count = 0;
	for (char *w = strtok(line, " \n"); w && count < 24; w = strtok(NULL, " \n"))
		words[count++] = w;
}

static void reset(void)
{
	step_collect();
	step_reap();
	for (int i = 0; i < SLOTS; i++) {
		if (sockets[i] != -1)
			close(sockets[i]);
		sockets[i] = -1;
	}
	for (int i = 0; i < SETS; i++) {
		if (sets[i] != -1)
			close(sets[i]);
		sets[i] = -1;
	}
}

/* fork STEP…: the child does it and ends. */
static void step_fork(void)
{
	int status = 0;
	memmove(words, words + 1, sizeof words - sizeof *words);
	count--;
	fflush(stdout);
	pid_t once = (pid_t)MUST(fork());
	if (once == 0) {
		obey();
		fflush(stdout);
		_exit(0);
	}
	while (waitpid(once, &status, 0) == -1 && errno == EINTR)
		;
	say("child ends with %#x", status);
}

static pid_t child;
static int to_child = -1, from_child = -1;

/* child: one that waits for `in STEP…` and has what its parent had. */
static void step_child(void)
{
	int down[2], up[2];
	char line[512];
	if (child)
		return;
	fflush(stdout);
	MUST(pipe2(down, O_CLOEXEC));
	MUST(pipe2(up, O_CLOEXEC));
	to_child = (int)MUST(fcntl(down[1], F_DUPFD_CLOEXEC, PEER_FD));
	from_child = (int)MUST(fcntl(up[0], F_DUPFD_CLOEXEC, PEER_FD));
	int in = (int)MUST(fcntl(down[0], F_DUPFD_CLOEXEC, PEER_FD)), out = (int)MUST(fcntl(up[1], F_DUPFD_CLOEXEC, PEER_FD));
	for (int i = 0; i < 2; i++)
		close(down[i]), close(up[i]);
	child = (pid_t)MUST(fork());
	if (child == 0) {
		close(to_child);
		/* Its first use of all sockets: what comes before that is the parent's (README). */
		drain();
		fflush(stdout);
		MUST(write(out, "", 1));
		for (long n; (n = read(in, line, sizeof line - 1)) > 0;) {
			line[n] = 0;
			parse(line);
			obey();
			fflush(stdout);
			MUST(write(out, "", 1));
		}
		_exit(0);
	}
	close(in);
	close(out);
	char ready;
	if (read(from_child, &ready, 1) != 1)
		die("child");
	say("child");
}

static void step_in(void)
{
	char line[512] = "", done;
	if (!child)
		return;
	for (int i = 1; i < count; i++) {
		strcat(line, i > 1 ? " " : "");
		strcat(line, words[i]);
	}
	fflush(stdout);
	MUST(write(to_child, line, strlen(line)));
	if (read(from_child, &done, 1) != 1)
		say("the child has ended");
}

static void step_reap(void)
{
	if (!child)
		return;
	int status = 0;
	close(to_child);
	close(from_child);
	while (waitpid(child, &status, 0) == -1 && errno == EINTR)
		;
	say("child ends with %#x", status);
	child = 0;
}

/* pass SLOT OTHER: through a Unix socket. */
static void step_pass(void)
{
	int pair[2], n = slot(2);
	char byte = 'x', control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	if (sockets[n] != -1 || sockets[slot(1)] == -1)
		return;
	MUST(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair));
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	*c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(c), &sockets[slot(1)], sizeof(int));
	CALL(sendmsg(pair[0], &m, 0));
	CALL(recvmsg(pair[1], &m, MSG_CMSG_CLOEXEC));
	memcpy(&sockets[n], CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	families[n] = families[slot(1)];
	close(pair[0]);
	close(pair[1]);
	say("  as %d", sockets[n]);
}

/* exec: the same program anew, with all that is open. */
static void step_exec(void)
{
	char state[256] = "";
	if (child || reading)
		return;
	for (int i = 0; i < SLOTS; i++) {
		sprintf(state + strlen(state), "%d %d ", sockets[i], families[i]);
		if (sockets[i] != -1)
			fcntl(sockets[i], F_SETFD, 0);
	}
	for (int i = 0; i < SETS; i++) {
		sprintf(state + strlen(state), "%d ", sets[i]);
		if (sets[i] != -1)
			fcntl(sets[i], F_SETFD, 0);
	}
	syscall(SYS_fcntl, marker, F_SETFD, 0);
	sprintf(state + strlen(state), "%d", marker);
	setenv("STATE", state, 1);
	fflush(stdout);
	execl("/proc/self/exe", "interpreter", "near", NULL);
	die("exec");
}

static void resume(const char *state)
{
	int used = 0, at = 0;
	for (int i = 0; i < SLOTS; i++, at += used)
		sscanf(state + at, "%d %d %n", &sockets[i], &families[i], &used);
	for (int i = 0; i < SETS; i++, at += used)
		sscanf(state + at, "%d %n", &sets[i], &used);
	marker = atoi(state + at);
	say("exec");
	say(".");
}

static void step_epoll(void)
{
	int n = number(1) % SETS;
	if (sets[n] == -1)
		sets[n] = (int)CALL(epoll_create1(EPOLL_CLOEXEC));
}

static void step_epoll_close(void)
{
	int n = number(1) % SETS;
	CALL(close(sets[n]));
	sets[n] = -1;
}

static void step_set(void) { step_option(true); }
static void step_get(void) { step_option(false); }
static void step_shutdown(void) { CALL(shutdown(sockets[slot(1)], number(2) % 3)); }
static void step_port(void)
{
	char text[4];
	snprintf(text, sizeof text, "@%d", slot(1));
	say("%d", port_of(text));
}

static void obey(void)
{
	static const struct { const char *name; void (*step)(void); } steps[] = {
		{"open", step_open}, {"bind", step_bind}, {"connect", step_connect}, {"unconnect", step_unconnect},
		{"close", step_close}, {"dup", step_dup}, {"dup2", step_dup2}, {"names", step_names},
		{"member", step_member}, {"set", step_set}, {"get", step_get}, {"send", step_send},
		{"recv", step_recv}, {"reader", step_reader}, {"collect", step_collect}, {"fork", step_fork},
		{"epoll", step_epoll}, {"epoll_close", step_epoll_close}, {"ctl", step_ctl}, {"wait", step_wait},
		{"poll", step_poll}, {"select", step_select}, {"shutdown", step_shutdown},
		{"fionread", step_fionread}, {"nonblock", step_nonblock}, {"port", step_port},
		{"filter", step_filter}, {"bpf", step_bpf}, {"nest", step_nest}, {"child", step_child}, {"in", step_in},
		{"reap", step_reap}, {"pass", step_pass}, {"exec", step_exec}, {"settle", step_settle}, {"drain", drain}, {"reset", reset},
	};
	for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
		if (strcmp(steps[i].name, words[0]) == 0) {
			steps[i].step();
			return;
		}
	die(words[0]);
}

int main(int argc, char **argv)
{
	char line[512];
	pthread_t echoes;
	struct sigaction action = {.sa_handler = on_signal};
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	setvbuf(stdin, NULL, _IONBF, 0);
	for (int i = 0; i < SLOTS; i++)
		sockets[i] = -1;
	for (int i = 0; i < SETS; i++)
		sets[i] = -1;
	if (argc > 1 && strcmp(argv[1], "far") == 0) {
		open_marker(FAR, MARKER_PORT, true);
		sigset_t all;
		sigfillset(&all);
		pthread_sigmask(SIG_BLOCK, &all, NULL);
		pthread_create(&echoes, NULL, echo, NULL);
		pthread_sigmask(SIG_UNBLOCK, &all, NULL);
	} else if (getenv("STATE")) {
		resume(getenv("STATE"));
	} else {
		open_marker(FAR, MARKER_PORT, false);
	}
	while (fgets(line, sizeof line, stdin)) {
		parse(line);
		if (count > 0)
			obey();
		say(".");
	}
	return 0;
}
