/* Processes that share sockets, and what a process does to itself. */
#include "scenes.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <linux/capability.h>

extern char **environ;
static int fd;

static void start(void)
{
	fd = udp_bound("0.0.0.0", PORT);
	peer_send(NEAR, PORT, "first");
	settle();
	take_all("fd", fd);
	for (int i = 0; i < 2; i++) {
		send_to(fd, FAR, PEER_PORT, "out");
		peer_recv(500);
	}
	report();
}

/* The first use of an inherited socket; what came until then may be the parent's. */
static void first_use(void)
{
	char data[16];
	CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
}

/* The socket works, both ways. */
static void works(const char *who)
{
	peer_send(NEAR, PORT, who);
	settle();
	take_all(who, fd);
	send_to(fd, FAR, PEER_PORT, who);
	peer_recv(500);
}

static void wait_for(pid_t child)
{
	int status;
	MUST(waitpid(child, &status, 0));
	say("child ended %#x", status);
}

#define CHILD(...)                                      \
	do {                                            \
		fflush(stdout);                         \
		pid_t child_ = MUST(fork());            \
		if (child_ == 0) {                      \
			__VA_ARGS__;                    \
			fflush(stdout);                 \
			_exit(0);                       \
		}                                       \
		wait_for(child_);                       \
	} while (0)

static void spawned_children(void)
{
	start();
	for (int i = 0; i < 3; i++) {
		posix_spawn_file_actions_t actions;
		pid_t child;
		char *arguments[] = {"sh", "-c", i == 2 ? "exit 3" : "true", NULL};
		posix_spawn_file_actions_init(&actions);
		if (i == 1)
			posix_spawn_file_actions_addclose(&actions, fd);
		CALL(posix_spawn(&child, "/bin/sh", &actions, NULL, arguments, environ));
		wait_for(child);
		works("parent");
	}
	CALL(system("exit 5"));
	works("parent after system");
	report();
}

static void child_closes_everything(void)
{
	start();
	CHILD(for (int i = 3; i < 1024; i++) if (i != PEER_FD) close(i));
	works("parent");
	CHILD(CALL(close_range(3, 600, 0)));
	works("parent");
	report();
}

static void child_closes_its_copy(void)
{
	start();
	for (int i = 0; i < 3; i++) {
		CHILD(CALL(close(fd)); CALL(send(fd, "x", 1, 0)));
		works("parent");
	}
	report();
}

static void grandchild(void)
{
	start();
	fflush(stdout);
	pid_t child = MUST(fork());
	if (child == 0) {
		pid_t grandchild = MUST(fork());
		if (grandchild == 0) {
			first_use();
			works("grandchild");
			_exit(0);
		}
		MUST(waitpid(grandchild, NULL, 0));
		works("child");
		_exit(0);
	}
	wait_for(child);
	works("parent");
}

static void both_read(void)
{
	start();
	int ready[2], results[2];
	MUST(pipe(ready));
	MUST(pipe(results));
	fflush(stdout);
	pid_t child = MUST(fork());
	int got = 0;
	char data[64], byte;
	if (child == 0) {
		CALL(recv(fd, data, sizeof data, MSG_DONTWAIT));
		MUST(write(ready[1], "r", 1));
	} else {
		MUST(read(ready[0], &byte, 1));
		recv(fd, data, sizeof data, MSG_DONTWAIT);
		peer_burst(NEAR, PORT, 200, 16, 50);
	}
	int64_t until = now_us() + 150000;
	while (now_us() < until) {
		struct pollfd p = {fd, POLLIN, 0};
		poll(&p, 1, 5);
		if (recv(fd, data, sizeof data, MSG_DONTWAIT) > 0)
			got++;
	}
	if (child == 0) {
		MUST(write(results[1], &got, sizeof got));
		_exit(0);
	}
	int theirs;
	MUST(read(results[0], &theirs, sizeof theirs));
	wait_for(child);
	say("together %d", got + theirs);
	works("parent");
}

static void child_sends_parent_receives(void)
{
	start();
	fflush(stdout);
	pid_t child = MUST(fork());
	if (child == 0) {
		for (int i = 0; i < 5; i++)
			send_to(fd, FAR, PEER_PORT, "from the child");
		_exit(0);
	}
	wait_for(child);
	for (int i = 0; i < 5; i++)
		peer_recv(500);
	works("parent");
}

static void child_has_its_own(void)
{
	start();
	CHILD(fd = udp_bound("0.0.0.0", PORT + 1);
	      peer_send(NEAR, PORT + 1, "to the child's own");
	      settle();
	      take_all("child", fd);
	      send_to(fd, FAR, PEER_PORT, "from the child's own");
	      peer_recv(500));
	works("parent");
	report();
}

static void parent_ends_first(void)
{
	start();
	int done_[2];
	char byte;
	MUST(pipe(done_));
	fflush(stdout);
	pid_t child = MUST(fork());
	if (child == 0) {
		/* The one that began is gone. */
		pid_t orphan = MUST(fork());
		if (orphan != 0)
			_exit(0);
		sleep_ms(30);
		works("orphan");
		MUST(write(done_[1], "d", 1));
		_exit(0);
	}
	wait_for(child);
	MUST(close(fd));
	MUST(read(done_[0], &byte, 1));
}

/* A set that nobody has waited on says what is so, in a child as well. */
static void set_changed_before_fork(void)
{
	start();
	int set = MUST(epoll_create1(EPOLL_CLOEXEC));
	struct epoll_event want = {.events = EPOLLIN}, got;
	MUST(epoll_ctl(set, EPOLL_CTL_ADD, fd, &want));
	peer_send(NEAR, PORT, "before");
	settle();
	struct pollfd one = {fd, POLLIN, 0};
	CALL(poll(&one, 1, 500));
	take_all("parent", fd);
	CHILD(struct pollfd p = {set, POLLIN, 0};
	      CALL(poll(&p, 1, 0));
	      CALL(epoll_wait(set, &got, 1, 0)));
	works("parent");
}

/* The second program goes on where the first one stopped. */
static void exec_by(const char *scene, void (*exec)(char *const words[]))
{
	char number[16];
	if (getenv("SECOND")) {
		fd = atoi(getenv("SECOND"));
		char data[64];
		int got = 0;
		struct pollfd p = {fd, POLLIN, 0};
		while (poll(&p, 1, 300) > 0 && recv(fd, data, sizeof data, MSG_DONTWAIT) > 0)
			got++;
		say("the second program received %d", got);
		works("second program");
		return;
	}
	start();
	int flags = MUST(fcntl(fd, F_GETFD));
	MUST(fcntl(fd, F_SETFD, flags & ~FD_CLOEXEC));
	peer_burst(NEAR, PORT, 30, 16, 0);
	settle();
	char data[64];
	for (int i = 0; i < 10; i++)
		MUST(recv(fd, data, sizeof data, 0));
	snprintf(number, sizeof number, "%d", fd);
	setenv("SECOND", number, 1);
	fflush(stdout);
	char *const words[] = {"kin", (char *)scene, NULL};
	exec(words);
	die("exec");
}

static void with_execl(char *const words[])
{
	execl("/proc/self/exe", words[0], words[1], NULL);
}

static void with_execveat(char *const words[])
{
	execveat(AT_FDCWD, "/proc/self/exe", words, environ, 0);
}

static void with_number(char *const words[])
{
	syscall(SYS_execveat, AT_FDCWD, "/proc/self/exe", words, environ, 0);
}

static void exec_in_a_stream(void)
{
	exec_by("exec_in_a_stream", with_execl);
}

static void execveat_in_a_stream(void)
{
	exec_by("execveat_in_a_stream", with_execveat);
}

static void execveat_by_number(void)
{
	exec_by("execveat_by_number", with_number);
}

static void exec_sees_no_more_descriptors(void)
{
	start();
	fflush(stdout);
	CALL(system("ls /proc/self/fd | wc -l"));
	FILE *list = popen("ls /proc/self/fd | sort -n | tr '\\n' ' '", "r");
	char line[256] = "";
	if (list && fgets(line, sizeof line, list))
		say("%s", line);
	pclose(list);
	works("parent");
}

static void send_rights(int channel, int what)
{
	char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec v = {"f", 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	*h = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(h), &what, sizeof what);
	MUST(sendmsg(channel, &m, 0));
}

static int take_rights(int channel)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec v = {&byte, 1};
	struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	MUST(recvmsg(channel, &m, 0));
	int what;
	memcpy(&what, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof what);
	return what;
}

static void passed_there_and_back(void)
{
	int pair[2];
	MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
	fflush(stdout);
	pid_t child = MUST(fork());
	if (child == 0) {
		fd = take_rights(pair[1]);
		works("child");
		send_rights(pair[1], fd);
		MUST(close(fd));
		_exit(0);
	}
	start();
	peer_send(NEAR, PORT, "queued at the passing");
	settle();
	CALL(recv(fd, (char[8]){0}, 8, MSG_PEEK | MSG_DONTWAIT));
	send_rights(pair[0], fd);
	MUST(close(fd));
	fd = take_rights(pair[0]);
	say("number %d", fd);
	works("parent again");
	wait_for(child);
	works("parent at last");
}

static void taken_by_pidfd(void)
{
	start();
	pid_t parent = getpid();
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	int number = fd;
	CHILD(MUST(close(fd));
	      int handle = (int)MUST(syscall(SYS_pidfd_open, parent, 0));
	      fd = (int)MUST(syscall(SYS_pidfd_getfd, handle, number, 0));
	      send_to(fd, FAR, PEER_PORT, "child");
	      peer_recv(500));
	works("parent");
}

static void shared_table(void)
{
	start();
	fflush(stdout);
	/* A process of its own memory, but the same descriptors. */
	pid_t child = (pid_t)MUST(syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0));
	if (child == 0) {
		struct sockaddr_in to = addr4(FAR, PEER_PORT);
		syscall(SYS_sendto, fd, "raw clone", 9, 0, &to, sizeof to);
		syscall(SYS_exit_group, 0);
	}
	wait_for(child);
	peer_recv(500);
	works("parent");
}

static void a_user_after_start(void)
{
	start();
	CALL(setgid(65534));
	CALL(setuid(65534));
	works("as nobody");
	int other = udp_bound("0.0.0.0", PORT + 1);
	peer_send(NEAR, PORT + 1, "to a socket of nobody");
	settle();
	take_all("other", other);
	CALL(join(other, GROUP));
	peer_send(GROUP, PORT + 1, "to its group");
	settle();
	take_all("other", other);
	struct sockaddr_in a = addr4(FAR, PEER_PORT);
	CALL(connect(other, SA(a)));
	CALL(send(other, "connected", 9, 0));
	peer_recv(500);
	works("as nobody");
}

static void without_capabilities(void)
{
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct none[2] = {0};
	start();
	CALL(syscall(SYS_capset, &head, none));
	works("without capabilities");
	int other = udp_bound("0.0.0.0", PORT + 1);
	peer_send(NEAR, PORT + 1, "to a new one");
	settle();
	take_all("other", other);
	MUST(close(other));
	works("without capabilities");
	report();
}

/* Refuses one call, with an argument if `at` is not negative. */
static void refuse(int number, int at, unsigned value, int error)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at < 0 ? offsetof(struct seccomp_data, nr)
							  : offsetof(struct seccomp_data, args) + 8 * (unsigned)at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, at < 0 ? (unsigned)number : value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};
	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0));
}

static void under_refusal(int number, int at, unsigned value)
{
	refuse(number, at, value, EPERM);
	fd = udp_bound("0.0.0.0", PORT);
	works("fd");
	MUST(join(fd, GROUP));
	peer_send(GROUP, PORT, "to the group");
	settle();
	take_all("fd", fd);
	report();
}

static void no_packet_sockets(void) { under_refusal(SYS_socket, 0, AF_PACKET); }
static void no_netlink(void) { under_refusal(SYS_socket, 0, AF_NETLINK); }
static void no_filters(void) { under_refusal(SYS_setsockopt, 2, SO_ATTACH_FILTER); }
static void no_eventfd(void) { under_refusal(SYS_eventfd2, -1, 0); }
static void no_membarrier(void) { under_refusal(SYS_membarrier, -1, 0); }
static void no_raw_icmp(void) { under_refusal(SYS_socket, 2, IPPROTO_ICMP); }

static void refusals_after_start(void)
{
	start();
	refuse(SYS_socket, 0, AF_PACKET, EPERM);
	refuse(SYS_socket, 0, AF_NETLINK, EPERM);
	refuse(SYS_setsockopt, 2, SO_DETACH_FILTER, EPERM);
	works("after");
	int other = udp_bound("0.0.0.0", PORT + 1);
	peer_send(NEAR, PORT + 1, "to a new one");
	settle();
	take_all("other", other);
	MUST(close(other));
	works("after");
	report();
}

static void descriptors_run_out(void)
{
	start();
	int top = udp();
	MUST(close(top));
	struct rlimit limit = {(rlim_t)top + 6, (rlim_t)top + 6};
	CALL(setrlimit(RLIMIT_NOFILE, &limit));
	for (int i = 0; i < 8; i++) {
		int s = (int)CALL(socket(AF_INET, SOCK_DGRAM, 0));
		if (s < 0)
			continue;
		struct sockaddr_in a = addr4("0.0.0.0", PORT + 1 + i);
		CALL(bind(s, SA(a)));
		peer_send(NEAR, PORT + 1 + i, "to one of the last");
		settle();
		take_all("last", s);
	}
	works("first");
	report();
}

static void killed_child_leaves_nothing(void)
{
	for (int i = 0; i < 3; i++) {
		int ready[2];
		char byte;
		MUST(pipe(ready));
		fflush(stdout);
		pid_t child = MUST(fork());
		if (child == 0) {
			fd = udp_bound("0.0.0.0", PORT);
			MUST(join(fd, GROUP));
			MUST(write(ready[1], "r", 1));
			for (;;)
				MUST(recv(fd, (char[64]){0}, 64, 0));
		}
		MUST(read(ready[0], &byte, 1));
		peer_send(NEAR, PORT, "to the child");
		MUST(kill(child, SIGKILL));
		wait_for(child);
		MUST(close(ready[0]));
		MUST(close(ready[1]));
	}
	FILE *list = fopen("/proc/net/packet", "r");
	int lines = 0;
	for (char line[256]; list && fgets(line, sizeof line, list);)
		lines++;
	say("packet sockets of the host: %d", lines - 1);
	fclose(list);
	start();
	report();
}

static void inside_a_chroot(void)
{
	start();
	char root[] = "/tmp/kin-XXXXXX";
	int outside = MUST(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (!mkdtemp(root))
		die("mkdtemp");
	CALL(chroot(root) | chdir("/"));
	MUST(unlinkat(outside, root + 1, AT_REMOVEDIR));
	MUST(close(outside));
	works("inside");
	int other = udp_bound("0.0.0.0", PORT + 1);
	peer_send(NEAR, PORT + 1, "to a new one");
	settle();
	take_all("other", other);
	report();
}

static void another_namespace(void)
{
	start();
	int home = (int)MUST(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
	CALL(unshare(CLONE_NEWNET));
	works("of the old namespace");
	int other = udp();
	struct sockaddr_in a = addr4("0.0.0.0", PORT), far = addr4(FAR, PEER_PORT);
	CALL(bind(other, SA(a)));
	CALL(sendto(other, "x", 1, 0, SA(far)));
	peer_send(NEAR, PORT, "not for the new one");
	settle();
	take_all("new", other);
	take_all("old", fd);
	report();
	CALL(setns(home, CLONE_NEWNET));
	works("home again");
	int last = udp_bound("0.0.0.0", PORT + 1);
	peer_send(NEAR, PORT + 1, "home again");
	settle();
	take_all("last", last);
}

static void two_sockets_one_child_each(void)
{
	start();
	int other = udp_bound("0.0.0.0", PORT + 1);
	CHILD(first_use(); works("child"));
	peer_send(NEAR, PORT + 1, "to the one that no child used");
	settle();
	take_all("other", other);
	works("parent");
	report();
}

static void *stream_reader(void *count)
{
	char data[64];
	while (recv(fd, data, sizeof data, 0) > 0 && data[0] != 'e')
		++*(int *)count;
	return NULL;
}

static void forks_beside_a_reader(void)
{
	int count = 0;
	pthread_t reader;
	start();
	pthread_create(&reader, NULL, stream_reader, &count);
	for (int i = 0; i < 10; i++) {
		peer_burst(NEAR, PORT, 20, 16, 0);
		pid_t child = MUST(fork());
		if (child == 0)
			_exit(0);
		MUST(waitpid(child, NULL, 0));
	}
	settle();
	report();
	peer_send(NEAR, PORT, "end");
	pthread_join(reader, NULL);
	say("the reader received %d", count);
}

static int total;
static void *one_of_many(void *send)
{
	struct sockaddr_in to = addr4(FAR, PEER_PORT);
	char data[64];
	for (int i = 0; send && i < 100; i++)
		MUST(sendto(fd, "out", 3, 0, SA(to)));
	while (!send && recv(fd, data, sizeof data, 0) > 0 && data[0] != 'e')
		__atomic_add_fetch(&total, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void readers_and_writers(void)
{
	pthread_t threads[8];
	fd = udp_bound("0.0.0.0", PORT);
	works("fd");
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, one_of_many, i & 1 ? &threads[i] : NULL);
	peer_burst(NEAR, PORT, 500, 16, 20);
	sleep_ms(50);
	for (int i = 0; i < 4; i++)
		peer_send(NEAR, PORT, "end");
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	int sent = 0;
	while (peer_ask("", 0, "recv 0 30")[0] == 'o')
		sent++;
	say("received %d, sent %d", total, sent);
	report();
}

int main(int argc, char **argv)
{
	static const struct scene scenes[] = {
		SCENE(spawned_children), SCENE(child_closes_everything), SCENE(child_closes_its_copy), SCENE(grandchild),
		SCENE(both_read), SCENE(child_sends_parent_receives), SCENE(child_has_its_own), SCENE(parent_ends_first),
		SCENE(set_changed_before_fork), SCENE(exec_in_a_stream), SCENE(execveat_in_a_stream), SCENE(execveat_by_number), SCENE(exec_sees_no_more_descriptors), SCENE(passed_there_and_back),
		SCENE(taken_by_pidfd), SCENE(shared_table), SCENE(a_user_after_start), SCENE(without_capabilities),
		SCENE(no_packet_sockets), SCENE(no_netlink), SCENE(no_filters), SCENE(no_eventfd), SCENE(no_membarrier),
		SCENE(no_raw_icmp), SCENE(refusals_after_start), SCENE(descriptors_run_out),
		SCENE(killed_child_leaves_nothing), SCENE(inside_a_chroot), SCENE(another_namespace),
		SCENE(two_sockets_one_child_each), SCENE(forks_beside_a_reader), SCENE(readers_and_writers), {0}};
	return play(scenes, argc, argv);
}
