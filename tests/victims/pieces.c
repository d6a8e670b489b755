/* Fragments made by hand: which datagrams come of them, and which never do. */
#include "craft.h"

static int fd;
static uint8_t image[66000];
static size_t size;
static char text[66000];

/* The datagram that the pieces below are of. */
static void make(size_t bytes, char first)
{
	for (size_t i = 0; i < bytes; i++)
		text[i] = (char)(first + i % 23);
	struct craft c = {.data = text, .bytes = (int)bytes};
	size = udp_image(&c, image);
}

static void piece_of(int id, size_t from, size_t to, int more)
{
	struct craft c = {.id = id};
	inject(&c, image + from, to - from, (int)from, more);
}

static void piece(size_t from, size_t to, int more)
{
	piece_of(4711, from, to, more);
}

static void take(void)
{
	settle();
	take_all("fd", fd);
}

static void open_one(void)
{
	int room = 1 << 20;
	fd = udp_bound("0.0.0.0", PORT);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
	CRAFT(.text = "ordinary");
	take();
}

/* A card leaves pieces to the kernel: order holds within either source. */
static void end(void)
{
	take();
	CRAFT(.text = "ordinary, last", .id = 9);
	take();
	report();
}

static void in_order(void)
{
	open_one();
	make(60, 'a');
	piece(0, 24, 1);
	piece(24, 48, 1);
	take();
	piece(48, size, 0);
	end();
}

static void backwards(void)
{
	open_one();
	make(60, 'a');
	piece(48, size, 0);
	piece(24, 48, 1);
	piece(0, 24, 1);
	end();
}

static void shuffled(void)
{
	static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
	open_one();
	for (int o = 0; o < 6; o++) {
		make(60, (char)('A' + o));
		for (int i = 0; i < 3; i++) {
			int at = orders[o][i];
			piece_of(100 + o, (size_t)at * 24, at == 2 ? size : (size_t)at * 24 + 24, at != 2);
		}
	}
	end();
}

static void tiny(void)
{
	open_one();
	make(100, 'a');
	for (size_t at = 0; at < size; at += 8)
		piece(at, at + 8 < size ? at + 8 : size, at + 8 < size);
	end();
}

static void interleaved(void)
{
	open_one();
	make(60, 'a');
	piece_of(1, 0, 24, 1);
	make(60, 'A');
	piece_of(2, 0, 24, 1);
	make(60, 'a');
	piece_of(1, 24, size, 0);
	take();
	CRAFT(.text = "between");
	take();
	make(60, 'A');
	piece_of(2, 24, size, 0);
	end();
}

static void missing(void)
{
	open_one();
	make(60, 'a');
	piece_of(1, 24, 48, 1);
	piece_of(1, 48, size, 0);
	piece_of(2, 0, 24, 1);
	piece_of(2, 48, size, 0);
	piece_of(3, 0, 24, 1);
	piece_of(3, 24, 48, 1);
	take();
	piece_of(3, 48, size, 0);
	piece_of(2, 24, 48, 1);
	piece_of(1, 0, 24, 1);
	end();
}

static void repeated(void)
{
	open_one();
	make(60, 'a');
	piece(0, 24, 1);
	piece(0, 24, 1);
	piece(24, 48, 1);
	piece(24, 48, 1);
	piece(0, 24, 1);
	piece(48, size, 0);
	/* Behind the whole one: the beginning of another. */
	piece(48, size, 0);
	take();
	piece(0, 48, 1);
	end();
}

static void overlapping(void)
{
	static const struct { size_t from, to; } second[] = {{16, 48}, {8, 32}, {0, 32}, {16, 24}, {0, 24}, {8, 16}};
	open_one();
	for (size_t i = 0; i < sizeof second / sizeof *second; i++) {
		make(60, (char)('A' + i));
		piece_of(200 + (int)i, 0, 24, 1);
		piece_of(200 + (int)i, second[i].from, second[i].to, 1);
		piece_of(200 + (int)i, 24, 48, 1);
		piece_of(200 + (int)i, 48, size, 0);
		take();
	}
	end();
}

static void overlapping_last(void)
{
	open_one();
	make(60, 'a');
	piece_of(1, 0, 32, 1);
	piece_of(1, 24, size, 0);
	piece_of(2, 0, 24, 1);
	piece_of(2, 24, size - 4, 0);
	piece_of(3, 24, size, 0);
	piece_of(3, 24, size - 8, 0);
	piece_of(3, 0, 24, 1);
	piece_of(4, 48, size, 0);
	piece_of(4, 24, 56, 1);
	piece_of(4, 0, 24, 1);
	end();
}

static void beyond_the_end(void)
{
	open_one();
	make(60, 'a');
	piece(24, size, 0);
	piece(72, 80, 1);
	piece(0, 24, 1);
	end();
}

static void odd_middle(void)
{
	open_one();
	make(60, 'a');
	piece(0, 27, 1);
	piece(24, size, 0);
	end();
}

static void empty_last(void)
{
	open_one();
	make(40, 'a');
	piece_of(1, 0, size, 1);
	piece_of(1, size, size, 0);
	take();
	piece_of(2, size, size, 0);
	piece_of(2, 0, size, 1);
	take();
	piece_of(3, 8, 8, 1);
	piece_of(3, 0, 24, 1);
	piece_of(3, 24, size, 0);
	end();
}

static void too_long(void)
{
	open_one();
	make(1400, 'a');
	struct craft c = {.id = 7};
	inject(&c, image, 1408, 65528, 0);
	inject(&c, image, 1408, 0, 1);
	c.id = 8;
	inject(&c, image, 8, 65512, 0);
	inject(&c, image, 1408, 0, 1);
	end();
}

static void largest(void)
{
	open_one();
	make(65507, 'a');
	for (size_t at = 0; at < size; at += 1480)
		piece(at, at + 1480 < size ? at + 1480 : size, at + 1480 < size);
	settle();
	static char got[70000];
	long n = CALL(recv(fd, got, sizeof got, MSG_DONTWAIT));
	say("same %d", n == 65507 && memcmp(got, text, 65507) == 0);
	end();
}

static void with_options(void)
{
	static const uint8_t nops[8] = {1, 1, 1, 1, 1, 1, 1, 0};
	struct craft c = {.id = 5, .options = nops, .option_bytes = 8};
	open_one();
	make(60, 'a');
	inject(&c, image, 24, 0, 1);
	c.option_bytes = 0;
	inject(&c, image + 24, size - 24, 24, 0);
	take();
	make(60, 'A');
	c.id = 6;
	inject(&c, image, 24, 0, 1);
	c.option_bytes = 8;
	inject(&c, image + 24, size - 24, 24, 0);
	end();
}

static void checksums(void)
{
	open_one();
	for (int sum = GOOD; sum <= BAD; sum++) {
		struct craft c = {.text = "the quick brown fox jumps over the lazy dog", .sum = sum, .id = 20 + sum};
		size = udp_image(&c, image);
		inject(&c, image, 24, 0, 1);
		inject(&c, image + 24, size - 24, 24, 0);
	}
	end();
}

static void other_ends(void)
{
	open_one();
	make(60, 'a');
	struct craft c = {.id = 5}, d = {.id = 5, .src = "10.78.0.12"};
	inject(&c, image, 24, 0, 1);
	inject(&d, image + 24, size - 24, 24, 0);
	take();
	c.protocol = 6;
	inject(&c, image + 24, size - 24, 24, 0);
	take();
	c.protocol = 17;
	inject(&c, image + 24, size - 24, 24, 0);
	end();
}

static void ecn_of_pieces(void)
{
	static const int marks[][2] = {{0, 0}, {1, 1}, {2, 2}, {2, 1}, {2, 3}, {3, 2}, {0, 2}, {3, 0}, {3, 3}};
	open_one();
	MUST(enable(fd, IPPROTO_IP, IP_RECVTOS));
	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
		char data[128], control[64];
		struct iovec v = {data, sizeof data};
		struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
		struct craft c = {.id = 50 + (int)i, .tos = marks[i][0], .ttl = 9};
		make(60, 'a');
		inject(&c, image, 24, 0, 1);
		c.tos = marks[i][1];
		c.ttl = 99;
		inject(&c, image + 24, size - 24, 24, 0);
		settle();
		/* A call that fails leaves the control buffer as it was. */
		if (CALL(recvmsg(fd, &m, MSG_DONTWAIT)) < 0)
			continue;
		for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); m.msg_controllen > 0 && h; h = CMSG_NXTHDR(&m, h))
			say("  tos %d", *CMSG_DATA(h));
	}
	end();
}

static void first_piece_too_short_for_ports(void)
{
	open_one();
	make(60, 'a');
	struct craft c = {.id = 5};
	inject(&c, image, 4, 0, 1);
	inject(&c, image + 8, size - 8, 8, 0);
	end();
}

static void to_a_group(void)
{
	int other = udp_shared("0.0.0.0", PORT);
	fd = other;
	int second = udp_shared("0.0.0.0", PORT);
	MUST(join(fd, GROUP));
	MUST(join(second, GROUP));
	struct craft c = {.text = "the quick brown fox jumps over the lazy dog", .dst = GROUP, .to = "01:00:5e:4e:00:01"};
	craft(c);
	c.id = 77;
	size = udp_image(&c, image);
	inject(&c, image, 24, 0, 1);
	inject(&c, image + 24, size - 24, 24, 0);
	settle();
	take_all("first", fd);
	take_all("second", second);
	report();
}

static void first_piece_before_the_bind(void)
{
	open_one();
	make(60, 'a');
	struct craft c = {.id = 5, .dport = PORT + 1};
	c.data = text;
	c.bytes = 60;
	size = udp_image(&c, image);
	inject(&c, image, 24, 0, 1);
	int late = udp_bound("0.0.0.0", PORT + 1);
	settle();
	inject(&c, image + 24, size - 24, 24, 0);
	settle();
	take_all("late", late);
	/* Whole before the bind: it was for nobody. */
	c.dport = PORT + 2;
	c.id = 6;
	size = udp_image(&c, image);
	inject(&c, image, 24, 0, 1);
	inject(&c, image + 24, size - 24, 24, 0);
	settle();
	int later = udp_bound("0.0.0.0", PORT + 2);
	settle();
	take_all("later", later);
	end();
}

static void last_piece_before_the_bind(void)
{
	open_one();
	make(60, 'a');
	struct craft c = {.id = 5, .dport = PORT + 1, .data = text, .bytes = 60};
	size = udp_image(&c, image);
	inject(&c, image + 24, size - 24, 24, 0);
	int late = udp_bound("0.0.0.0", PORT + 1);
	settle();
	inject(&c, image, 24, 0, 1);
	settle();
	take_all("late", late);
	end();
}

static void across_a_close(void)
{
	open_one();
	make(60, 'a');
	piece(0, 24, 1);
	settle();
	MUST(close(fd));
	fd = udp_bound("0.0.0.0", PORT);
	settle();
	piece(24, size, 0);
	end();
}

static void across_a_connect(void)
{
	open_one();
	struct sockaddr_in peer = addr4(FAR, PEER_PORT), other = addr4("10.78.0.12", 1);
	make(60, 'a');
	piece(0, 24, 1);
	MUST(connect(fd, SA(peer)));
	piece(24, size, 0);
	take();
	piece(0, 24, 1);
	MUST(connect(fd, SA(other)));
	piece(24, size, 0);
	take();
	MUST(connect(fd, SA(peer)));
	end();
}

static void many_unfinished(void)
{
	open_one();
	make(1400, 'a');
	for (int i = 0; i < 300; i++)
		piece_of(1000 + i, 0, 1400, 1);
	piece_of(1299, 1400, size, 0);
	piece_of(1000, 1400, size, 0);
	settle();
	for (int i = 0; i < 2; i++) {
		char got[2000];
		CALL(recv(fd, got, sizeof got, MSG_DONTWAIT));
	}
	end();
}

int main(int argc, char **argv)
{
	static const struct scene scenes[] = {
		SCENE(in_order), SCENE(backwards), SCENE(shuffled), SCENE(tiny), SCENE(interleaved), SCENE(missing),
		SCENE(repeated), SCENE(overlapping), SCENE(overlapping_last), SCENE(beyond_the_end), SCENE(odd_middle),
		SCENE(empty_last), SCENE(too_long), SCENE(largest), SCENE(with_options), SCENE(checksums),
		SCENE(other_ends), SCENE(ecn_of_pieces), SCENE(first_piece_too_short_for_ports), SCENE(to_a_group),
		SCENE(first_piece_before_the_bind), SCENE(last_piece_before_the_bind), 
		SCENE(across_a_close), SCENE(across_a_connect), SCENE(many_unfinished), {0}};
	return play(scenes, argc, argv);
}
