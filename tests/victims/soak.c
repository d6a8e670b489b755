/* A long run of many threads and many sockets. One end sends numbered datagrams, the other
 * receives them by sockets that are closed, opened, dup'd, joined and forked at random.
 *
 * soak send SECONDS
 * soak receive SECONDS SEED THREADS [children]
 *
 * Nothing may be lost on a socket that stays open, nothing come twice, nothing too late. */
#include "common.h"
#include <dirent.h>
#include <stdatomic.h>

enum { UNICAST = 8, GROUPS = 4, MEMBERS = 2, SLOTS = UNICAST + GROUPS * MEMBERS, GAP_US = 5000 };

struct datagram {
	uint32_t stream, number;
	char rest[192];
};

static int64_t end_us;
static bool children;
static atomic_long received, lost, twice, opened, forks, left_to_children;

struct slot {
	int fd;
	int stream;     /* below UNICAST: a port; else a group */
	uint32_t last;  /* highest number seen on this slot, also by earlier sockets */
	bool gap;       /* the next one may be any later one */
};

static struct sockaddr_in address(int stream)
{
	char text[32];
	if (stream < UNICAST)
		return addr4(NEAR, 6000 + stream);
	snprintf(text, sizeof text, "239.78.1.%d", stream);
	return addr4(text, 6000 + stream);
}

static int sender(void)
{
	struct datagram d = {0};
	unsigned seed = 7;
	int fd = udp_bound(FAR, PEER_PORT);
	int64_t next = now_us();
	say("sending");
	while (now_us() < end_us) {
		d.number++;
		for (int i = 0; i < UNICAST + GROUPS; i++) {
			struct sockaddr_in to = address(i);
			d.stream = (uint32_t)i;
			size_t size = 8 + (size_t)rand_r(&seed) % sizeof d.rest;
			if (sendto(fd, &d, size, 0, SA(to)) == -1 && errno != ECONNREFUSED)
				die("sendto");
		}
		next += GAP_US;
		int64_t wait = next - now_us();
		if (wait > 0)
			usleep((useconds_t)wait);
	}
	return done();
}

/* ---- the receiver ----------------------------------------------------------- */

static void take(struct slot *s, const struct datagram *d, long size)
{
	if (size < 8 || d->stream != (uint32_t)s->stream) {
		say("stream %d got %ld bytes of %u", s->stream, size, d->stream);
		atomic_fetch_add(&twice, 1);
		return;
	}
	atomic_fetch_add(&received, 1);
	if (d->number <= s->last) {
		say("stream %d: %u after %u", s->stream, d->number, s->last);
		atomic_fetch_add(&twice, 1);
		return;
	}
	if (!s->gap && d->number != s->last + 1) {
		say("stream %d: %u after %u on an open socket", s->stream, d->number, s->last);
		atomic_fetch_add(&lost, d->number - s->last - 1);
	}
	s->gap = false;
	s->last = d->number;
}

/* One receive by any call of the family; false: nothing there. */
static bool receive(struct slot *s, int flags, unsigned *seed)
{
	struct datagram d[4];
	struct iovec io[4];
	struct mmsghdr m[4];
	long n;
	switch (rand_r(seed) % 4) {
	case 0:
		n = recv(s->fd, d, sizeof *d, flags);
		break;
	case 1:
		io[0] = (struct iovec){d, sizeof *d};
		m[0].msg_hdr = (struct msghdr){.msg_iov = io, .msg_iovlen = 1};
		n = recvmsg(s->fd, &m[0].msg_hdr, flags);
		break;
	case 2:
		for (int i = 0; i < 4; i++) {
			io[i] = (struct iovec){&d[i], sizeof d[i]};
			m[i].msg_hdr = (struct msghdr){.msg_iov = &io[i], .msg_iovlen = 1};
		}
		n = recvmmsg(s->fd, m, 4, flags | MSG_WAITFORONE, NULL);
		for (int i = 0; i < n; i++)
			take(s, &d[i], m[i].msg_len);
		if (n > 0)
			return true;
		break;
	default:
		n = recvfrom(s->fd, d, sizeof *d, flags, NULL, NULL);
	}
	if (n == -1 && errno != EAGAIN && errno != EINTR)
		die("receive");
	if (n > 0)
		take(s, d, n);
	return n > 0;
}

static void empty(struct slot *s, unsigned *seed)
{
	while (receive(s, MSG_DONTWAIT, seed))
		;
}

static void membership(struct slot *s, int option)
{
	struct ip_mreqn m = {.imr_multiaddr = address(s->stream).sin_addr,
			     .imr_ifindex = (int)if_nametoindex("veth0")};
	MUST(setsockopt(s->fd, IPPROTO_IP, option, &m, sizeof m));
}

static void watch(int ep, struct slot *s)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, s->fd, &e));
}

static void open_slot(int ep, struct slot *s)
{
	struct timeval limit = {0, 10000};
	struct sockaddr_in a = addr4("0.0.0.0", 6000 + s->stream);
	s->fd = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	MUST(setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
	if (s->stream >= UNICAST)
		MUST(enable(s->fd, SOL_SOCKET, SO_REUSEADDR));
	/* A child of another thread may hold the socket of before for a moment. */
	for (int i = 0; bind(s->fd, SA(a)) == -1; i++) {
		if (errno != EADDRINUSE || i == 2000)
			die("bind");
		sleep_ms(1);
	}
	s->gap = true;
	if (s->stream >= UNICAST)
		membership(s, IP_ADD_MEMBERSHIP);
	watch(ep, s);
	atomic_fetch_add(&opened, 1);
}

/* What the socket is done to besides being read. */
static void change(int ep, struct slot *s, int what)
{
	struct sockaddr_in far = addr4(FAR, PEER_PORT);
	struct sockaddr none = {.sa_family = AF_UNSPEC};
	int twin;
	switch (what) {
	case 0:
		MUST(close(s->fd));
		open_slot(ep, s);
		break;
	case 1: /* The number changes, the socket stays. */
		twin = (int)MUST(fcntl(s->fd, F_DUPFD_CLOEXEC, 0));
		MUST(epoll_ctl(ep, EPOLL_CTL_DEL, s->fd, NULL));
		MUST(close(s->fd));
		s->fd = twin;
		watch(ep, s);
		break;
	case 2:
		/* Linux takes it out of its tables for a moment. */
		s->gap = true;
		if (s->stream >= UNICAST) {
			membership(s, IP_DROP_MEMBERSHIP);
			membership(s, IP_ADD_MEMBERSHIP);
		} else {
			MUST(connect(s->fd, SA(far)));
			MUST(connect(s->fd, &none, sizeof none));
		}
		break;
	}
}

/* A child that ends without a look at its parent's sockets, or that reads one of them. */
static void fork_one(struct slot *s)
{
	int tube[2];
	long n;
	struct datagram d;
	MUST(pipe2(tube, O_CLOEXEC));
	pid_t pid = (pid_t)MUST(fork());
	if (pid == 0) {
		for (int i = 0; children && i < 3; i++)
			if ((n = recv(s->fd, &d, sizeof d, MSG_DONTWAIT)) >= 8)
				MUST(write(tube[1], &d, 8));
		_exit(0);
	}
	MUST(close(tube[1]));
	MUST(waitpid(pid, NULL, 0));
	/* What the child has is not lost; it is in order, for nobody else read meanwhile. */
	while (read(tube[0], &d, 8) == 8) {
		take(s, &d, 8);
		atomic_fetch_add(&left_to_children, 1);
	}
	MUST(close(tube[0]));
	atomic_fetch_add(&forks, 1);
}

struct worker {
	pthread_t thread;
	unsigned seed;
	int count;
	struct slot slots[SLOTS];
};

static void *work(void *argument)
{
	struct worker *w = argument;
	struct pollfd p[SLOTS];
	struct epoll_event e[SLOTS];
	int ep = MUST(epoll_create1(EPOLL_CLOEXEC));
	for (int i = 0; i < w->count; i++)
		open_slot(ep, &w->slots[i]);
	while (now_us() < end_us) {
		struct slot *s = &w->slots[rand_r(&w->seed) % (unsigned)w->count];
		unsigned dice = (unsigned)rand_r(&w->seed) % 1000;
		int wait = rand_r(&w->seed) % 15;
		if (dice < 300) {
			empty(s, &w->seed);
		} else if (dice < 500) {
			receive(s, 0, &w->seed);
		} else if (dice < 700) {
			for (int i = 0; i < w->count; i++)
				p[i] = (struct pollfd){.fd = w->slots[i].fd, .events = POLLIN};
			MUST(poll(p, (nfds_t)w->count, wait));
			for (int i = 0; i < w->count; i++)
				if (p[i].revents)
					empty(&w->slots[i], &w->seed);
		} else if (dice < 950) {
			int n = MUST(epoll_wait(ep, e, SLOTS, wait));
			for (int i = 0; i < n; i++)
				empty(e[i].data.ptr, &w->seed);
		} else if (dice < 997) {
			change(ep, s, rand_r(&w->seed) % 3);
		} else {
			fork_one(s);
		}
	}
	for (int i = 0; i < w->count; i++)
		MUST(close(w->slots[i].fd));
	MUST(close(ep));
	return NULL;
}

static int descriptors(void)
{
	int count = 0;
	DIR *dir = opendir("/proc/self/fd");
	/* The library's own are high; how many it has depends on its rings. */
	for (struct dirent *d; (d = readdir(dir));)
		count += atoi(d->d_name) < 500 && d->d_name[0] != '.';
	closedir(dir);
	return count;
}

static long resident_kib(void)
{
	char line[128];
	long value = 0;
	FILE *file = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, file))
		sscanf(line, "VmRSS: %ld", &value);
	fclose(file);
	return value;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 1;
	int seconds = atoi(argv[2]);
	begin((unsigned)seconds + 60);
	end_us = now_us() + seconds * 1000000LL;
	if (!strcmp(argv[1], "send"))
		return sender();
	unsigned seed = (unsigned)atoi(argv[3]);
	int threads = atoi(argv[4]);
	children = argc > 5;
	int before = descriptors();
	static struct worker workers[SLOTS];
	for (int i = 0; i < SLOTS; i++) {
		struct worker *w = &workers[i % threads];
		int stream = i < UNICAST ? i : UNICAST + (i - UNICAST) % GROUPS;
		w->slots[w->count++] = (struct slot){.stream = stream, .gap = true};
	}
	for (int i = 0; i < threads; i++) {
		workers[i].seed = seed * 1000 + (unsigned)i;
		MUST(pthread_create(&workers[i].thread, NULL, work, &workers[i]));
	}
	sleep_ms(seconds * 300);
	long early = resident_kib();
	report();
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	long late = resident_kib();
	if (peer_fd != -1)
		close(peer_fd);
	say("received %ld opened %ld forks %ld children %ld", atomic_load(&received),
	    atomic_load(&opened), atomic_load(&forks), atomic_load(&left_to_children));
	say("lost %ld", atomic_load(&lost));
	say("twice %ld", atomic_load(&twice));
	say("descriptors %d", descriptors() - before);
	say("grown %ld KiB", late - early);
	return done();
}
