/* What the interpreter needs to send and receive: words, addresses, and what is said of a datagram. */
#ifndef INTERPRETER_H
#define INTERPRETER_H
#include "common.h"
#include <linux/errqueue.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/time.h>

#define SLOTS 6
#define SETS 2
#define EPHEMERAL 32768

static int sockets[SLOTS], families[SLOTS], sets[SETS];

/* ---- words and addresses ------------------------------------------------------ */

static char *words[24];
static int count;

static const char *word(int i) { return i < count ? words[i] : "0"; }
static int number(int i) { return atoi(word(i)); }
static int slot(int i)
{
	int n = number(i);
	if (n < 0 || n >= SLOTS)
		die("slot");
	return n;
}

/* A number, or @SLOT: the port that the socket there has. */
static int port_of(const char *text)
{
	if (text[0] != '@')
		return atoi(text);
	struct sockaddr_in6 a = {0};
	socklen_t length = sizeof a;
	int n = atoi(text + 1);
	if (n < 0 || n >= SLOTS || getsockname(sockets[n], (struct sockaddr *)&a, &length) == -1)
		return 1;
	return a.sin6_port ? ntohs(a.sin6_port) : 1;
}

/* IPv4 in the family of the socket; IPv6 as it is; "raw:" before it keeps it AF_INET. */
static socklen_t address(int family, const char *ip, const char *port, struct sockaddr_storage *out)
{
	int number = port_of(port);
	bool raw = strncmp(ip, "raw:", 4) == 0;
	memset(out, 0, sizeof *out);
	if (raw)
		ip += 4;
	if (strchr(ip, ':') || (family == AF_INET6 && !raw)) {
		char text[64];
		snprintf(text, sizeof text, strchr(ip, ':') ? "%s" : "::ffff:%s", ip);
		struct sockaddr_in6 a = addr6(text, number);
		memcpy(out, &a, sizeof a);
		return sizeof a;
	}
	struct sockaddr_in a = addr4(ip, number);
	memcpy(out, &a, sizeof a);
	return sizeof a;
}

static void say_from(const char *what, const void *address, socklen_t length)
{
	struct sockaddr_in6 copy = {0};
	memcpy(&copy, address, length < sizeof copy ? length : sizeof copy);
	if (ntohs(copy.sin6_port) >= EPHEMERAL && length >= 4)
		copy.sin6_port = htons(EPHEMERAL);
	say_addr(what, &copy, length);
}

/* ---- blocking calls ------------------------------------------------------------ */

static void on_signal(int signal) { (void)signal; }

/* A call that would wait for ever ends with EINTR. */
static void bounded(bool on)
{
	struct itimerval t = {{0, on ? 20000 : 0}, {0, on ? 20000 : 0}};
	setitimer(ITIMER_REAL, &t, NULL);
}

/* ---- receive ------------------------------------------------------------------- */

struct received {
	char form[12];
	int fd, flags, family, error;
	size_t room;
	long value;
	bool named;
	struct sockaddr_storage from;
	socklen_t length;
	struct msghdr header;
	struct mmsghdr batch[3];
	struct iovec parts[3][2];
	char control[3][512], data[3][70000];
	struct sockaddr_storage names[3];
};

static int receive_flags(const char *letters)
{
	int flags = 0;
	for (; *letters; letters++)
		flags |= *letters == 'p'   ? MSG_PEEK
			 : *letters == 't' ? MSG_TRUNC
			 : *letters == 'd' ? MSG_DONTWAIT
			 : *letters == 'w' ? MSG_WAITALL
			 : *letters == 'e' ? MSG_ERRQUEUE
			 : *letters == 'o' ? MSG_WAITFORONE
					   : 0;
	return flags;
}

static void receive(struct received *r)
{
	struct timespec now = {0, 0};
	for (int i = 0; i < 3; i++) {
		size_t first = r->room < 8 ? r->room : 8;
		r->parts[i][0] = (struct iovec){r->data[i], first};
		r->parts[i][1] = (struct iovec){r->data[i] + first, r->room - first};
		r->batch[i].msg_hdr = (struct msghdr){
			.msg_name = &r->names[i], .msg_namelen = sizeof r->names[i],
			.msg_iov = r->parts[i], .msg_iovlen = 2,
			.msg_control = r->control[i], .msg_controllen = sizeof r->control[i]};
	}
	errno = 0;
	r->named = false;
	r->length = sizeof r->from;
	if (strcmp(r->form, "recv") == 0)
		r->value = recv(r->fd, r->data[0], r->room, r->flags);
	else if (strcmp(r->form, "read") == 0)
		r->value = read(r->fd, r->data[0], r->room);
	else if (strcmp(r->form, "readv") == 0)
		r->value = readv(r->fd, r->parts[0], 2);
	else if (strcmp(r->form, "recvfrom") == 0) {
		r->value = recvfrom(r->fd, r->data[0], r->room, r->flags, (struct sockaddr *)&r->from, &r->length);
		r->named = true;
	} else if (strcmp(r->form, "recvmsg") == 0)
		r->value = recvmsg(r->fd, &r->batch[0].msg_hdr, r->flags);
	else if (strcmp(r->form, "recvmmsg") == 0)
		/* Waits for three only if a time-out would end it. */
		r->value = recvmmsg(r->fd, r->batch, 3, r->flags, r->flags & MSG_DONTWAIT ? NULL : &now);
	else
		die(r->form);
	r->error = errno;
}

static void say_data(const char *data, size_t length, long value)
{
	uint32_t hash = 2166136261u;
	size_t have = (size_t)value < length ? (size_t)value : length;
	for (size_t i = 0; i < have; i++)
		hash = (hash ^ (unsigned char)data[i]) * 16777619u;
	say("  data \"%.*s\" of %zu, %08x", (int)(have < 12 ? have : 12), data, have, hash);
}

static void say_control(struct msghdr *m)
{
	say("  control %zu", m->msg_controllen);
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t length = c->cmsg_len - CMSG_LEN(0);
		const unsigned char *data = CMSG_DATA(c);
		char text[INET6_ADDRSTRLEN], other[INET6_ADDRSTRLEN];
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type != SO_RXQ_OVFL) {
			say("  cmsg socket %d of %zu", c->cmsg_type, length);
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			const struct in_pktinfo *p = (const void *)data;
			inet_ntop(AF_INET, &p->ipi_spec_dst, text, sizeof text);
			say("  cmsg pktinfo %d %s %s", p->ipi_ifindex, text,
			    inet_ntop(AF_INET, &p->ipi_addr, other, sizeof other));
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVORIGDSTADDR) {
			say_from("cmsg destination", data, (socklen_t)length);
		} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
			   (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR)) {
			const struct sock_extended_err *e = (const void *)data;
			say("  cmsg error %s origin %d type %d code %d info %u", strerrorname_np((int)e->ee_errno),
			    e->ee_origin, e->ee_type, e->ee_code, e->ee_info);
			say_from("offender", SO_EE_OFFENDER(e), length - sizeof *e);
		} else {
			say("  cmsg %d %d of %zu", c->cmsg_level, c->cmsg_type, length);
			for (size_t i = 0; i < length && i < 24; i++)
				printf("%s%02x", i ? "" : "   ", data[i]);
			putchar('\n');
		}
	}
}

static void say_message(struct received *r, int i, long length)
{
	struct msghdr *m = &r->batch[i].msg_hdr;
	say_data(r->data[i], r->room, length);
	say_from("from", &r->names[i], m->msg_namelen);
	say_flags(m->msg_flags);
	say_control(m);
}

static void say_received(struct received *r)
{
	errno = r->error;
	say_call(r->form, r->value);
	if (r->value < 0)
		return;
	if (strcmp(r->form, "recvmmsg") == 0) {
		for (int i = 0; i < r->value && i < 3; i++) {
			say(" %d: %u", i, r->batch[i].msg_len);
			say_message(r, i, r->batch[i].msg_len);
		}
	} else if (strcmp(r->form, "recvmsg") == 0) {
		say_message(r, 0, r->value);
	} else {
		say_data(r->data[0], r->room, r->value);
		if (r->named)
			say_from("from", &r->from, r->length);
	}
}

/* recv SLOT FORM FLAGS ROOM */
static struct received *prepared(void)
{
	static struct received main_one, threads_one;
	struct received *r = words[0][0] == 'r' && words[0][2] == 'a' ? &threads_one : &main_one;
	snprintf(r->form, sizeof r->form, "%s", word(2));
	r->fd = sockets[slot(1)];
	r->flags = receive_flags(word(3));
	r->room = (size_t)number(4);
	return r;
}

static void step_recv(void)
{
	struct received *r = prepared();
	bounded(true);
	receive(r);
	bounded(false);
	say_received(r);
}

static pthread_t reader;
static struct received *reading;

static atomic_bool begun;

static void *read_in_thread(void *arg)
{
	sigset_t only;
	begun = true;
	sigfillset(&only);
	sigdelset(&only, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &only, NULL);
	receive(arg);
	return NULL;
}

/* read_in_thread like recv, but in a thread; `collect` waits for it, then interrupts it. */
static void step_reader(void)
{
	if (reading)
		return;
	reading = prepared();
	begun = false;
	if (pthread_create(&reader, NULL, read_in_thread, reading) != 0)
		die("thread");
	while (!begun)
		sched_yield();
	sleep_ms(4);
	say("reads in a thread");
}

static void step_collect(void)
{
	struct timespec until;
	if (!reading)
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	for (int i = 0;; i++) {
		until.tv_nsec += 15000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		if (pthread_timedjoin_np(reader, NULL, &until) == 0)
			break;
		if (i > 400)
			die("a reader does not end");
		pthread_kill(reader, SIGUSR1);
	}
	printf("thread: ");
	say_received(reading);
	reading = NULL;
}

/* ---- send ---------------------------------------------------------------------- */

/* Nobody is at the far host's port 7009: when its ICMP is back, between two messages or after
 * both, is the network's affair. */
static bool meets_nobody(int fd, const struct sockaddr_storage *to, socklen_t length)
{
	struct sockaddr_in6 peer = {0};
	socklen_t room = sizeof peer;
	if (length > 0)
		memcpy(&peer, to, length < sizeof peer ? length : sizeof peer);
	else if (getpeername(fd, (struct sockaddr *)&peer, &room) == -1)
		return false;
	return ntohs(peer.sin6_port) == 7009;
}

/* send SLOT FORM TAG LENGTH FLAGS [IP PORT [CONTROL…]] */
static void step_send(void)
{
	static char data[70000];
	char control[256];
	int n = slot(1), fd = sockets[n], flags = 0;
	const char *form = word(2), *tag = word(3);
	size_t length = (size_t)number(4);
	struct sockaddr_storage to;
	socklen_t to_length = 0;
	for (size_t i = 0; i < length; i++)
		data[i] = (char)('a' + i % 23);
	memcpy(data, tag, strlen(tag) < length ? strlen(tag) : length);
	for (const char *f = word(5); *f; f++)
		flags |= *f == 'd' ? MSG_DONTWAIT : *f == 'm' ? MSG_MORE : *f == 'c' ? MSG_CONFIRM
			 : *f == 'r' ? MSG_DONTROUTE : *f == 'n' ? MSG_NOSIGNAL : *f == 'o' ? MSG_OOB : 0;
	if (count > 7)
		to_length = address(families[n], word(6), word(7), &to);
	size_t half = length / 2;
	struct iovec parts[2] = {{data, half}, {data + half, length - half}};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2, .msg_name = to_length ? &to : NULL,
			   .msg_namelen = to_length, .msg_control = control};
	size_t used = 0;
	memset(control, 0, sizeof control);
	for (int i = 8; i + 1 < count; i += 2) {
		struct cmsghdr *c = (struct cmsghdr *)(control + used);
		c->cmsg_level = IPPROTO_IP;
		if (strcmp(word(i), "pktinfo") == 0) {
			struct in_pktinfo p = {.ipi_ifindex = 0};
			inet_pton(AF_INET, word(i + 1), &p.ipi_spec_dst);
			c->cmsg_type = IP_PKTINFO;
			c->cmsg_len = CMSG_LEN(sizeof p);
			memcpy(CMSG_DATA(c), &p, sizeof p);
			used += CMSG_SPACE(sizeof p);
		} else {
			int value = number(i + 1);
			c->cmsg_type = strcmp(word(i), "ttl") == 0 ? IP_TTL : IP_TOS;
			c->cmsg_len = CMSG_LEN(sizeof value);
			memcpy(CMSG_DATA(c), &value, sizeof value);
			used += CMSG_SPACE(sizeof value);
		}
	}
	m.msg_controllen = used;
	if (used == 0)
		m.msg_control = NULL;
	struct mmsghdr batch[2] = {{.msg_hdr = m}, {.msg_hdr = m}};
	unsigned messages = strcmp(form, "sendmmsg") == 0 && meets_nobody(fd, &to, to_length) ? 1 : 2;
	long value = -2;
	bounded(true);
	errno = 0;
	if (strcmp(form, "send") == 0)
		value = send(fd, data, length, flags);
	else if (strcmp(form, "write") == 0)
		value = write(fd, data, length);
	else if (strcmp(form, "writev") == 0)
		value = writev(fd, parts, 2);
	else if (strcmp(form, "sendto") == 0)
		value = sendto(fd, data, length, flags, to_length ? (struct sockaddr *)&to : NULL, to_length);
	else if (strcmp(form, "sendmsg") == 0)
		value = sendmsg(fd, &m, flags);
	else if (strcmp(form, "sendmmsg") == 0)
		value = sendmmsg(fd, batch, messages, flags);
	else
		die(form);
	say_call(form, value);
	bounded(false);
	if (strcmp(form, "sendmmsg") == 0 && value > 0)
		say("  %u %u", batch[0].msg_len, value > 1 ? batch[1].msg_len : 0);
}

#endif
