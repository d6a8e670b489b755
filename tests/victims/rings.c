/* Threads with sockets of their own, of one group, and in turns on one socket: every
 * datagram once and in order, whatever rings there are. */
#include "common.h"

#define THREADS 4
#define COUNT 300

static pthread_barrier_t ready, end;
static int ports_from_addresses;
static const char *address[THREADS] = {"0.0.0.0", "0.0.0.0", "0.0.0.0", "0.0.0.0"};
static int port[THREADS] = {PORT, PORT + 1, PORT + 2, PORT + 3};
static const char *group;
static char result[THREADS][128];

static void roomy(int fd)
{
	int size = 4 << 20;
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
}

/* Takes numbered datagrams until it has `count` or nothing comes for a while. */
static void collect(int fd, int from, int count, int *got, int *wrong)
{
	char data[64];
	for (int i = 0; i < count; i++) {
		struct timeval patience = {3, 0};
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
		if (recv(fd, data, sizeof data, 0) < 8)
			return;
		data[8] = 0;
		*wrong += atoi(data) != from + i;
		++*got;
	}
}

static void *own_socket(void *number)
{
	int i = (int)(intptr_t)number, got = 0, wrong = 0, sent = 0;
	struct sockaddr_in to = addr4(FAR, PEER_PORT + 1);
	int fd = group ? udp_shared(address[i], port[i]) : udp_bound(address[i], port[i]);
	roomy(fd);
	if (group)
		MUST(join(fd, group));
	/* The first goes by the kernel, which asks for the neighbour; rings open meanwhile. */
	sent += sendto(fd, "x", 1, 0, SA(to)) == 1;
	usleep(200 * 1000);
	for (int k = 0; k < 50; k++)
		sent += sendto(fd, "x", 1, 0, SA(to)) == 1;
	pthread_barrier_wait(&ready);
	collect(fd, 0, COUNT, &got, &wrong);
	/* Nothing twice, nothing of the others'. */
	char more[64];
	int extra = recv(fd, more, sizeof more, MSG_DONTWAIT) != -1;
	snprintf(result[i], sizeof result[i], "received %d, out of order %d, extra %d, sent %d",
		 got, wrong, extra, sent);
	pthread_barrier_wait(&end);
	pthread_barrier_wait(&end);
	close(fd);
	return NULL;
}

static void own_sockets(void)
{
	pthread_t threads[THREADS];
	pthread_barrier_init(&ready, NULL, THREADS + 1);
	pthread_barrier_init(&end, NULL, THREADS + 1);
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, own_socket, (void *)i);
	pthread_barrier_wait(&ready);
	if (group)
		peer_burst(group, PORT, COUNT, 16, 50);
	else
		for (int i = 0; i < THREADS; i++)
			peer_burst(ports_from_addresses ? address[i] : NEAR, port[i], COUNT, 16, 50);
	pthread_barrier_wait(&end);
	report();
	pthread_barrier_wait(&end);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		say("thread %d: %s", i, result[i]);
	}
}

/* Two on one port: the connected one gets its peer's, the other the rest. */
static void *rival(void *connected)
{
	int off = 0, got = 0, wrong = 0;
	int i = connected != NULL;
	struct sockaddr_in peer = addr4(FAR, PEER_PORT);
	int fd = udp_shared("0.0.0.0", PORT);
	roomy(fd);
	if (connected)
		MUST(connect(fd, SA(peer)));
	pthread_barrier_wait(&ready);
	/* Too late to make the port its own. */
	MUST(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof off));
	pthread_barrier_wait(&ready);
	collect(fd, 0, COUNT, &got, &wrong);
	char more[64];
	int extra = recv(fd, more, sizeof more, MSG_DONTWAIT) != -1;
	snprintf(result[i], sizeof result[i], "received %d, out of order %d, extra %d", got,
		 wrong, extra);
	pthread_barrier_wait(&end);
	pthread_barrier_wait(&end);
	close(fd);
	return NULL;
}

static void rivals(void)
{
	pthread_t threads[2];
	pthread_barrier_init(&ready, NULL, 3);
	pthread_barrier_init(&end, NULL, 3);
	for (intptr_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, rival, (void *)i);
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&ready);
	peer_open(1, FAR, PEER_PORT + 1);
	for (int slot = 0; slot < 2; slot++)
		PEER_DO("", 0, "burst %d %s %d %d 16 50", slot, NEAR, PORT, COUNT);
	pthread_barrier_wait(&end);
	report();
	pthread_barrier_wait(&end);
	for (int i = 0; i < 2; i++) {
		pthread_join(threads[i], NULL);
		say("%s: %s", i ? "connected" : "any", result[i]);
	}
}

/* One socket, two threads that take turns with it, under load. */
#define TURNS 8
#define TURN 500
static int shared_fd, turn_got, turn_wrong, turn_sent;

static void *turn(void *number)
{
	struct sockaddr_in to = addr4(FAR, PEER_PORT + 1);
	collect(shared_fd, (int)(intptr_t)number * TURN, TURN, &turn_got, &turn_wrong);
	for (int k = 0; k < 200; k++)
		turn_sent += sendto(shared_fd, "x", 1, 0, SA(to)) == 1;
	return NULL;
}

static void *load(void *unused)
{
	(void)unused;
	peer_burst(NEAR, PORT, TURNS * TURN, 16, 20);
	return NULL;
}

static pthread_barrier_t baton;
static void *alternating(void *number)
{
	for (intptr_t i = 0; i < TURNS; i++) {
		if (i % 2 == (intptr_t)number)
			turn((void *)i);
		pthread_barrier_wait(&baton);
	}
	return NULL;
}

static void alternate(void)
{
	pthread_t loader, readers[2];
	char more[64];
	shared_fd = udp_bound("0.0.0.0", PORT);
	roomy(shared_fd);
	pthread_barrier_init(&baton, NULL, 2);
	pthread_create(&loader, NULL, load, NULL);
	for (intptr_t i = 0; i < 2; i++)
		pthread_create(&readers[i], NULL, alternating, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(readers[i], NULL);
	pthread_join(loader, NULL);
	int extra = recv(shared_fd, more, sizeof more, MSG_DONTWAIT) != -1;
	report();
	say("received %d, out of order %d, extra %d, sent %d", turn_got, turn_wrong, extra, turn_sent);
}

/* One thread waits for sockets that were bound by others. */
static void *bind_one(void *number)
{
	return (void *)(intptr_t)udp_bound("0.0.0.0", PORT + (int)(intptr_t)number);
}

static void readiness(bool by_epoll)
{
	struct pollfd set[THREADS];
	pthread_t threads[THREADS];
	int got[THREADS] = {0}, epoll = MUST(epoll_create1(0)), total = 0;
	for (intptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, bind_one, (void *)i);
	for (int i = 0; i < THREADS; i++) {
		void *fd;
		pthread_join(threads[i], &fd);
		set[i] = (struct pollfd){.fd = (int)(intptr_t)fd, .events = POLLIN};
		struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
		MUST(epoll_ctl(epoll, EPOLL_CTL_ADD, set[i].fd, &event));
	}
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < THREADS; i++)
			peer_send(NEAR, PORT + i, "data");
		for (int want = (round + 1) * THREADS; total < want;) {
			struct epoll_event events[THREADS];
			char data[8];
			int n = by_epoll ? epoll_wait(epoll, events, THREADS, 3000)
					 : poll(set, THREADS, 3000);
			if (n <= 0)
				die("nothing comes");
			for (int i = 0; i < (by_epoll ? n : THREADS); i++) {
				int at = by_epoll ? (int)events[i].data.u32 : i;
				if (!by_epoll && !set[i].revents)
					continue;
				if (recv(set[at].fd, data, sizeof data, MSG_DONTWAIT) == 4)
					got[at]++, total++;
			}
		}
	}
	report();
	for (int i = 0; i < THREADS; i++)
		say("socket %d: %d", i, got[i]);
}

/* Sockets come and go: their rings, too. */
static void churn(void)
{
	int got = 0;
	for (int i = 0; i < 150; i++) {
		char data[8];
		int fd = udp_bound("0.0.0.0", PORT);
		peer_send(NEAR, PORT, "data");
		got += recv(fd, data, sizeof data, 0) == 4;
		close(fd);
	}
	say("received %d", got);
	int last = udp_bound("0.0.0.0", PORT);
	sleep_ms(2500);
	report();
	close(last);
}

/* Interfaces come and go while a socket of any address is open. */
static void interfaces(void)
{
	int fd = udp_bound("0.0.0.0", PORT);
	for (int i = 0; i < 5; i++) {
		PEER_DO("", 0, "ip near link add passing type veth peer name passed");
		PEER_DO("", 0, "ip near addr add 10.79.0.1/24 dev passing");
		PEER_DO("", 0, "ip near link set passing up");
		PEER_DO("", 0, "ip near link set passed up");
		sleep_ms(400);
		if (i == 4)
			report();
		PEER_DO("", 0, "ip near link del passing");
		sleep_ms(200);
	}
	sleep_ms(2500);
	report();
	peer_send(NEAR, PORT, "data");
	say_recv("fd", fd, 0);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	begin(50);
	peer_start();
	if (strcmp(what, "threads") == 0) {
		own_sockets();
	} else if (strcmp(what, "addresses") == 0) {
		ports_from_addresses = 1;
		for (int i = 0; i < THREADS; i++) {
			address[i] = i % 2 ? NEAR_ALIAS : NEAR;
			port[i] = PORT + i / 2;
		}
		own_sockets();
	} else if (strcmp(what, "group") == 0) {
		group = GROUP;
		for (int i = 0; i < THREADS; i++)
			port[i] = PORT;
		own_sockets();
	} else if (strcmp(what, "rivals") == 0) {
		rivals();
	} else if (strcmp(what, "alternate") == 0) {
		alternate();
	} else if (strcmp(what, "poll") == 0) {
		readiness(false);
	} else if (strcmp(what, "epoll") == 0) {
		readiness(true);
	} else if (strcmp(what, "churn") == 0) {
		churn();
	} else if (strcmp(what, "interfaces") == 0) {
		interfaces();
	} else {
		die("which?");
	}
	return done();
}
