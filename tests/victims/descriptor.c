/* descriptor WHAT: what else a program does with the descriptor of a UDP socket. */
#include "common.h"
#include <linux/sockios.h>
#include <sys/sendfile.h>

static int fd;
static volatile sig_atomic_t signals;

static void counted(int number)
{
	(void)number;
	signals++;
}

static void sizes(void)
{
	int n = -1;
	CALL(ioctl(fd, FIONREAD, &n)); say("  %d", n);
	CALL(ioctl(fd, SIOCINQ, &n)); say("  %d", n);
	CALL(ioctl(fd, SIOCOUTQ, &n)); say("  %d", n);
}

int main(int argc, char **argv)
{
	char data[64] = "0123456789";
	int on = 1, n = -1, fds[2];
	begin(10);
	if (argc < 2)
		die("arguments");
	const char *what = argv[1];
	peer_start();
	fd = udp_bound("0.0.0.0", PORT);
	struct sockaddr_in far = addr4(FAR, PEER_PORT);
	struct iovec io = {data, 10};
	MUST(connect(fd, SA(far)));
	peer_send(NEAR, PORT, "warm");
	say_recv("warm", fd, 0);
	report();
	if (!strcmp(what, "sigio") || !strcmp(what, "fioasync")) {
		signal(SIGIO, counted);
		CALL(fcntl(fd, F_SETOWN, getpid()));
		say("  owner %s", fcntl(fd, F_GETOWN) == getpid() ? "me" : "other");
		if (!strcmp(what, "sigio"))
			CALL(fcntl(fd, F_SETFL, O_ASYNC));
		else
			CALL(ioctl(fd, FIOASYNC, &on));
		say("  %#x", fcntl(fd, F_GETFL));
		sleep_ms(20);
		signals = 0;
		peer_send(NEAR, PORT, "signal");
		sleep_ms(20);
		say("signals %d", (int)signals);
		say_recv("one", fd, MSG_DONTWAIT);
		peer_send(NEAR, PORT, "signal");
		peer_send(NEAR, PORT, "signal");
		sleep_ms(20);
		say("signals %d", (int)signals);
		say_recv("two", fd, MSG_DONTWAIT);
		on = 0;
		CALL(fcntl(fd, F_SETFL, 0));
		peer_send(NEAR, PORT, "silent");
		sleep_ms(20);
		say("signals %d", (int)signals);
	} else if (!strcmp(what, "stamp")) {
		struct timeval tv = {0};
		struct timespec ts = {0};
		CALL(ioctl(fd, SIOCGSTAMP, &tv)); say("  %s", llabs(tv.tv_sec - time(NULL)) < 5 ? "now" : "not");
		peer_send(NEAR, PORT, "stamped");
		sleep_ms(3);
		say_recv("stamped", fd, MSG_DONTWAIT);
		CALL(ioctl(fd, SIOCGSTAMP, &tv)); say("  %s", llabs(tv.tv_sec - time(NULL)) < 5 ? "now" : "not");
		CALL(ioctl(fd, SIOCGSTAMPNS, &ts)); say("  %s", llabs(ts.tv_sec - time(NULL)) < 5 ? "now" : "not");
	} else if (!strcmp(what, "stamp_first")) {
		struct timeval tv = {0};
		int other = udp_bound("0.0.0.0", PORT + 1);
		CALL(ioctl(other, SIOCGSTAMP, &tv));
		peer_send(NEAR, PORT + 1, "x");
		say_recv("x", other, 0);
		CALL(ioctl(other, SIOCGSTAMP, &tv)); say("  %s", llabs(tv.tv_sec - time(NULL)) < 5 ? "now" : "not");
	} else if (!strcmp(what, "sizes")) {
		sizes();
		peer_send(NEAR, PORT, "four");
		sizes();
		peer_send(NEAR, PORT, "");
		say_recv("four", fd, 0);
		sizes();
		CALL(ioctl(fd, FIONREAD, NULL));
		CALL(ioctl(fd, FIONREAD, (void *)(1UL << 63)));
	} else if (!strcmp(what, "fionbio")) {
		CALL(ioctl(fd, FIONBIO, &on)); say("  %#x", fcntl(fd, F_GETFL));
		CALL(recv(fd, data, 9, 0));
		on = 0;
		CALL(ioctl(fd, FIONBIO, &on)); say("  %#x", fcntl(fd, F_GETFL));
		CALL(ioctl(fd, FIONBIO, NULL));
		CALL(ioctl(fd, FIONBIO, (void *)(1UL << 63)));
		peer_send_later(50, NEAR, PORT, "later");
		CALL(recv(fd, data, 9, 0));
	} else if (!strcmp(what, "ioctls")) {
		char text[64] = "";
		CALL(ioctl(fd, 0x5401, text));
		CALL(ioctl(fd, FIOCLEX)); say("  %d", fcntl(fd, F_GETFD));
		CALL(ioctl(fd, FIONCLEX)); say("  %d", fcntl(fd, F_GETFD));
		CALL(ioctl(fd, 0xdeadbeef, text));
		CALL(ioctl(fd, SIOCGPGRP, &n)); say("  %d", n);
		CALL(ioctl(fd, SIOCATMARK, &n));
		struct ifreq { char name[16]; int index; char more[20]; } r = {.name = "veth0"};
		CALL(ioctl(fd, SIOCGIFINDEX, &r)); say("  %d", r.index == (int)if_nametoindex("veth0"));
		CALL(ioctl(fd, SIOCGIFINDEX, NULL));
	} else if (!strcmp(what, "offsets")) {
		CALL(lseek(fd, 0, SEEK_SET));
		CALL(pread(fd, data, 4, 0));
		CALL(pwrite(fd, data, 4, 0));
		CALL(preadv(fd, &io, 1, 0));
		CALL(pwritev(fd, &io, 1, 0));
		CALL(preadv2(fd, &io, 1, 0, 0));
		peer_send(NEAR, PORT, "whole");
		CALL(preadv2(fd, &io, 1, -1, 0));
		CALL(pwritev2(fd, &io, 1, -1, 0));
		peer_recv(50);
		CALL(ftruncate(fd, 0));
		CALL(fsync(fd));
		CALL(fdatasync(fd));
		CALL(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED);
		CALL(readahead(fd, 0, 4));
		CALL(posix_fadvise(fd, 0, 0, POSIX_FADV_NORMAL));
		CALL(fallocate(fd, 0, 0, 4));
		CALL(syncfs(fd));
	} else if (!strcmp(what, "stat")) {
		struct stat s;
		char path[64], link[64] = "";
		CALL(fstat(fd, &s)); say("  %o %ld", s.st_mode, (long)s.st_size);
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		CALL(readlink(path, link, sizeof link - 1) > 0);
		say("  %.7s", link);
		CALL(open(path, O_RDWR));
		CALL(stat(path, &s)); say("  %o", s.st_mode);
		CALL(isatty(fd));
		CALL(fchmod(fd, 0600));
		CALL(fchown(fd, 0, 0));
		CALL(listen(fd, 4));
		CALL(accept(fd, NULL, NULL));
		CALL(fchdir(fd));
	} else if (!strcmp(what, "sendfile")) {
		FILE *f = tmpfile();
		MUST(write(fileno(f), "from a file", 11));
		off_t at = 0;
		CALL(sendfile(fd, fileno(f), &at, 11));
		peer_recv(100);
		at = 5;
		CALL(sendfile(fd, fileno(f), &at, 100));
		say("  at %ld", (long)at);
		peer_recv(100);
		peer_send(NEAR, PORT, "x");
		CALL(sendfile(fileno(f), fd, NULL, 5));
		say_recv("x", fd, MSG_DONTWAIT);
	} else if (!strcmp(what, "splice_out")) {
		MUST(pipe(fds));
		MUST(write(fds[1], "by a pipe", 9));
		CALL(splice(fds[0], NULL, fd, NULL, 9, 0));
		peer_recv(100);
		CALL(vmsplice(fds[1], &io, 1, 0));
		CALL(splice(fds[0], NULL, fd, NULL, 100, SPLICE_F_MORE));
		peer_recv(20);
		CALL(send(fd, "end", 3, 0));
		peer_recv(100);
	} else if (!strcmp(what, "splice_in")) {
		MUST(pipe(fds));
		peer_send(NEAR, PORT, "into a pipe");
		peer_send(NEAR, PORT, "twice");
		sleep_ms(3);
		CALL(splice(fd, NULL, fds[1], NULL, 100, SPLICE_F_NONBLOCK));
		CALL(read(fds[0], data, 11));
		say_bytes("data", data, 11);
		say_recv("twice", fd, MSG_DONTWAIT);
		set_nonblock(fd, true);
		CALL(splice(fd, NULL, fds[1], NULL, 100, SPLICE_F_NONBLOCK));
	} else if (!strcmp(what, "stdio_write")) {
		FILE *f = fdopen(fd, "r+");
		CALL(fprintf(f, "printed %d", 5));
		CALL(fflush(f));
		peer_recv(100);
		CALL(dprintf(fd, "direct"));
		peer_recv(100);
		CALL(fclose(f));
		CALL(send(fd, "x", 1, 0));
	} else if (!strcmp(what, "stdio_read") || !strcmp(what, "stdio_queued")) {
		if (!strcmp(what, "stdio_queued"))
			peer_send(NEAR, PORT, "queued\n");
		FILE *f = fdopen(fd, "r");
		peer_send(NEAR, PORT, "a line\n");
		if (!strcmp(what, "stdio_queued")) {
			CALL(fgets(data, sizeof data, f) != NULL);
			say("  %s", data);
		}
		CALL(fgets(data, sizeof data, f) != NULL);
		say("  %s", data);
		peer_send(NEAR, PORT, "two\nlines\n");
		CALL(fgets(data, sizeof data, f) != NULL);
		CALL(fgetc(f));
		CALL(fgets(data, sizeof data, f) != NULL);
		say("  %s", data);
		set_nonblock(fd, true);
		CALL(fgetc(f));
		say("  %d %d", ferror(f) != 0, feof(f) != 0);
	} else if (!strcmp(what, "flags")) {
		for (int flag = 0; flag < 4; flag++) {
			static const int all[] = {O_NONBLOCK, O_APPEND, O_DIRECT, O_NOATIME};
			CALL(fcntl(fd, F_SETFL, all[flag]));
			say("  %#x", fcntl(fd, F_GETFL));
			CALL(fcntl(fd, F_SETFL, 0));
		}
		CALL(fcntl(fd, F_SETFD, FD_CLOEXEC)); say("  %d", fcntl(fd, F_GETFD));
		CALL(fcntl(fd, F_GETLK, data));
		CALL(fcntl(fd, F_SETPIPE_SZ, 4096));
		CALL(fcntl(fd, F_GET_SEALS));
		CALL(fcntl(fd, 9999, 0));
		CALL(fcntl(fd, F_SETSIG, SIGUSR1));
		CALL(fcntl(fd, F_GETSIG));
		CALL(fcntl(fd, F_SETLEASE, F_RDLCK));
	} else if (!strcmp(what, "dups")) {
		int a = CALL(dup(fd)), b = CALL(fcntl(fd, F_DUPFD, 50)), c = CALL(fcntl(fd, F_DUPFD_CLOEXEC, 50)),
		    d = CALL(dup2(fd, 60)), e = CALL(dup3(fd, 61, O_CLOEXEC));
		say("  %d %d", fcntl(c, F_GETFD), fcntl(e, F_GETFD));
		CALL(dup3(fd, fd, 0));
		CALL(dup2(fd, fd));
		CALL(dup2(fd, -1));
		CALL(dup2(-1, fd));
		CALL(dup3(fd, 62, O_NONBLOCK));
		CALL(fcntl(fd, F_DUPFD, -1));
		CALL(fcntl(fd, F_DUPFD, 1 << 30));
		for (int i = 0; i < 5; i++) {
			int number = (int[]){a, b, c, d, e}[i];
			peer_send(NEAR, PORT, "one");
			say_recv("duplicate", number, 0);
			CALL(close(number));
			CALL(recv(number, data, 1, MSG_DONTWAIT));
		}
		peer_send(NEAR, PORT, "last");
		say_recv("original", fd, 0);
	} else
		die(what);
	return done();
}
