/* wait_arguments CALL: sets, counts, times and masks of every kind, over an idle and a readable socket. */
#include "common.h"
/* Wrong arguments are the point here. */
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wnonnull"

static int idle, ready, gone = 600;

static void tell_poll(const char *what, struct pollfd *p, nfds_t n, long result)
{
	(void)what;
	for (nfds_t i = 0; i < n && i < 4 && result >= 0; i++)
		say("  %lu: %s", (unsigned long)i, event_names((unsigned short)p[i].revents));
}

static void polls(bool with_mask)
{
	struct pollfd p[4] = {{idle, POLLIN, 0x55}, {ready, POLLIN, 0x55}, {-1, POLLIN, 0x55}, {gone, POLLIN, 0x55}};
	struct pollfd *volatile nowhere = NULL;
	static const struct timespec zero, bad_ns = {0, 1000000000}, neg_ns = {0, -1}, neg_s = {-1, 0}, some = {0, 20000000};
#define P(set, n, ms, ts) tell_poll("", set, n, with_mask ? CALL(ppoll(set, n, ts, NULL)) : CALL(poll(set, n, ms)))
	P(p, 4, 0, &zero);
	P(p, 1, 20, &some);
	P(p, 0, 20, &some);
	P(nowhere, 0, 20, &some);
	P(p + 2, 1, 20, &some);
	P(p + 2, 2, -1, NULL);
	P(p + 1, 1, -5, NULL);
	P(nowhere, 1, 0, &zero);
	P(p, 1 << 30, 0, &zero);
	P((struct pollfd *)(1UL << 63), 1, 0, &zero);
	if (with_mask) {
		P(p, 2, 0, &bad_ns);
		P(p, 2, 0, &neg_ns);
		P(p, 2, 0, &neg_s);
		CALL(ppoll(p, 2, &zero, (sigset_t *)(1UL << 63)));
		struct timespec left = {5, 0};
		CALL(ppoll(p, 2, &left, NULL));
		say("  left %ld", (long)left.tv_sec);
	}
	for (unsigned k = 0; k < 16; k++) {
		struct pollfd one = {ready, (short)(1 << k), 0};
		say("event %#x", 1 << k);
		P(&one, 1, 0, &zero);
		one.fd = idle;
		P(&one, 1, 0, &zero);
	}
	struct pollfd twice[3] = {{ready, POLLIN, 0}, {ready, POLLOUT, 0}, {ready, POLLIN | POLLOUT, 0}};
	P(twice, 3, 10, &some);
	struct pollfd same[3] = {{idle, POLLIN, 0}, {idle, 0, 0}, {ready, 0, 0}};
	P(same, 3, 10, &some);
}

static void selects(bool pselecting)
{
	fd_set r, w, x, none;
	struct timespec ts;
	struct timeval tv;
	fd_set *volatile nowhere = (fd_set *)(1UL << 63);
	FD_ZERO(&none);
#define RESET() (r = w = x = none, FD_SET(idle, &r), FD_SET(ready, &r), \
		 FD_SET(ready, &w), FD_SET(ready, &x), tv = (struct timeval){0, 20000}, ts = (struct timespec){0, 20000000})
#define SHOW() say("  r %d%d%d w %d%d x %d%d", FD_ISSET(idle, &r) != 0, FD_ISSET(ready, &r) != 0, FD_ISSET(gone, &r) != 0, \
		   FD_ISSET(idle, &w) != 0, FD_ISSET(ready, &w) != 0, FD_ISSET(idle, &x) != 0, FD_ISSET(ready, &x) != 0)
#define S(n, a, b, c) (pselecting ? CALL(pselect(n, a, b, c, &ts, NULL)) : CALL(select(n, a, b, c, &tv)))
	RESET(); S(ready + 1, &r, &w, &x); SHOW();
	RESET(); S(ready, &r, &w, &x); SHOW();
	RESET(); S(0, &r, &w, &x); SHOW();
	RESET(); S(-1, &r, &w, &x); SHOW();
	RESET(); S(FD_SETSIZE, &r, NULL, NULL); SHOW();
	RESET(); S(ready + 1, NULL, &w, NULL); SHOW();
	RESET(); S(ready + 1, NULL, NULL, &x); SHOW();
	RESET(); S(ready + 1, NULL, NULL, NULL); SHOW();
	RESET(); S(ready + 1, nowhere, NULL, NULL); SHOW();
	RESET(); S(ready + 1, &r, nowhere, NULL); SHOW();
	RESET(); FD_SET(gone, &r); S(gone, &r, NULL, NULL); SHOW();
	RESET(); FD_SET(gone, &r); S(gone + 1, &r, NULL, NULL); SHOW();
	RESET(); FD_ZERO(&r); FD_SET(idle, &r); S(idle + 1, &r, NULL, NULL); SHOW();
	say("  left %ld", (long)(pselecting ? ts.tv_nsec : tv.tv_usec));
	RESET(); tv.tv_sec = -1; ts.tv_sec = -1; S(ready + 1, &r, NULL, NULL); SHOW();
	RESET(); tv.tv_usec = -1; ts.tv_nsec = -1; S(ready + 1, &r, NULL, NULL); SHOW();
	RESET(); tv.tv_usec = 1500000; ts.tv_nsec = 1500000000; S(ready + 1, &r, NULL, NULL); SHOW();
	RESET(); tv.tv_sec = 7; ts.tv_sec = 7; S(ready + 1, &r, NULL, NULL); SHOW();
	say("  left %ld", (long)(pselecting ? ts.tv_sec : tv.tv_sec));
	RESET(); CALL(select(ready + 1, &r, NULL, NULL, NULL)); SHOW();
}

static void epolls(const char *call)
{
	struct epoll_event e[4], add = {.events = EPOLLIN};
	static const struct timespec zero, bad_ns = {0, 1000000000}, neg_s = {-1, 0}, some = {0, 20000000};
	int ep = MUST(epoll_create1(0)), empty = MUST(epoll_create1(0));
	bool two = !strcmp(call, "epoll_pwait2");
	sigset_t all;
	sigfillset(&all);
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, idle, &add));
	MUST(epoll_ctl(ep, EPOLL_CTL_ADD, ready, &add));
#define E(s, ev, n, ms, ts) (!strcmp(call, "epoll_wait") ? CALL(epoll_wait(s, ev, n, ms)) : \
			     two ? CALL(epoll_pwait2(s, ev, n, ts, &all)) : CALL(epoll_pwait(s, ev, n, ms, &all)))
	E(ep, e, 4, 0, &zero);
	E(ep, e, 1, 0, &zero);
	E(ep, e, 0, 0, &zero);
	E(ep, e, -1, 0, &zero);
	E(ep, e, 1 << 30, 0, &zero);
	E(ep, e, 4, -1, NULL);
	E(ep, e, 4, -7, NULL);
	E(empty, e, 4, 20, &some);
	E(idle, e, 4, 0, &zero);
	E(gone, e, 4, 0, &zero);
	E(-1, e, 4, 0, &zero);
	E(ep, NULL, 4, 0, &zero);
	E(empty, NULL, 4, 0, &zero);
	E(ep, (struct epoll_event *)(1UL << 63), 4, 0, &zero);
	if (two) {
		CALL(epoll_pwait2(ep, e, 4, &bad_ns, NULL));
		CALL(epoll_pwait2(ep, e, 4, &neg_s, NULL));
		CALL(epoll_pwait2(ep, e, 4, (struct timespec *)(1UL << 63), NULL));
		CALL(epoll_pwait2(ep, e, 4, &zero, (sigset_t *)(1UL << 63)));
	}
	CALL(epoll_ctl(ep, 4, idle, &add));
	CALL(epoll_ctl(ep, 0, idle, &add));
	CALL(epoll_ctl(idle, EPOLL_CTL_ADD, ready, &add));
	CALL(epoll_ctl(gone, EPOLL_CTL_ADD, ready, &add));
	CALL(epoll_ctl(ep, EPOLL_CTL_ADD, gone, &add));
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, gone, &add));
	CALL(epoll_ctl(ep, EPOLL_CTL_DEL, gone, &add));
	CALL(epoll_ctl(ep, EPOLL_CTL_MOD, idle, (struct epoll_event *)(1UL << 63)));
	CALL(epoll_ctl(empty, EPOLL_CTL_ADD, idle, NULL));
	CALL(epoll_ctl(empty, EPOLL_CTL_ADD, idle, (struct epoll_event *)8));
	CALL(epoll_ctl(empty, EPOLL_CTL_DEL, idle, NULL));
	E(ep, e, 4, 0, &zero);
}

int main(int argc, char **argv)
{
	begin(10);
	if (argc < 2)
		die("arguments");
	peer_start();
	idle = udp_bound("0.0.0.0", PORT);
	ready = udp_bound("0.0.0.0", PORT + 1);
	peer_send(NEAR, PORT + 1, "ready");
	if (!strcmp(argv[1], "poll") || !strcmp(argv[1], "ppoll"))
		polls(argv[1][1] == 'p');
	else if (strstr(argv[1], "select"))
		selects(argv[1][0] == 'p');
	else
		epolls(argv[1]);
	say_recv("ready", ready, MSG_DONTWAIT);
	report();
	return done();
}
