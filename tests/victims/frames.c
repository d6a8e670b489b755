/* Frames that no ordinary stack sends: which of them a socket gets. */
#include "craft.h"

static int fd;

static void open_one(void)
{
	fd = udp_bound("0.0.0.0", PORT);
	CRAFT(.text = "ordinary");
	settle();
	take_all("fd", fd);
}

static void end(void)
{
	CRAFT(.text = "ordinary, last");
	settle();
	take_all("fd", fd);
	report();
}

static void checksum_absent(void)
{
	open_one();
	CRAFT(.text = "no sum", .sum = ZERO);
	CRAFT(.text = "no sum, odd", .sum = ZERO);
	end();
}

static void checksum_wrong(void)
{
	open_one();
	CRAFT(.text = "wrong sum", .sum = BAD);
	CRAFT(.text = "good sum");
	settle();
	/* Linux checks when it is read: FIONREAD and poll may be told before. */
	take_all("fd", fd);
	CRAFT(.text = "wrong sum again", .sum = BAD);
	settle();
	say_recv("fd", fd, MSG_DONTWAIT | MSG_PEEK);
	struct pollfd p = {fd, POLLIN, 0};
	CALL(poll(&p, 1, 0));
	end();
}

/* The sum of this datagram is 0, which goes over the wire as 0xffff. */
static void checksum_all_ones(void)
{
	struct craft c = {.text = "xx"};
	uint8_t image[64];
	open_one();
	uint8_t data[4] = {0, 0, 0, 0};
	c.data = data;
	c.bytes = 4;
	udp_image(&c, image);
	/* What is missing to 0xffff goes into the data. */
	memcpy(data, image + 6, 2);
	udp_image(&c, image);
	say("sum on the wire %02x%02x", image[6], image[7]);
	craft(c);
	settle();
	take_all("fd", fd);
	end();
}

static void header_checksum(void)
{
	open_one();
	CRAFT(.text = "wrong IP sum", .ip_sum = BAD);
	CRAFT(.text = "no IP sum", .ip_sum = ZERO);
	end();
}

static void lengths(void)
{
	open_one();
	/* UDP length below the IP length: the rest is padding. */
	CRAFT(.text = "0123456789", .length = 8 + 4, .sum = ZERO);
	CRAFT(.text = "0123456789", .length = 8 + 14, .sum = ZERO);
	CRAFT(.text = "0123456789", .length = 7, .sum = ZERO);
	CRAFT(.text = "0123456789", .length = 8, .sum = ZERO);
	end();
}

static void zero_udp_length(void)
{
	uint8_t image[64];
	struct craft c = {.text = "0123456789", .sum = ZERO};
	open_one();
	size_t n = udp_image(&c, image);
	put16(image + 4, 0);
	inject(&c, image, n, 0, 0);
	end();
}

static void padding(void)
{
	open_one();
	CRAFT(.text = "padded", .tail = 10);
	CRAFT(.text = "", .tail = 18);
	CRAFT(.text = "cut", .cut = 1);
	CRAFT(.text = "cut below the header", .cut = 21);
	end();
}

static void short_header(void)
{
	struct craft c = {.text = "x"};
	open_one();
	inject(&c, "\x1b\x58\x13\x88", 4, 0, 0);
	inject(&c, "", 0, 0, 0);
	end();
}

static void ttl_and_tos(void)
{
	open_one();
	MUST(enable(fd, IPPROTO_IP, IP_RECVTTL));
	MUST(enable(fd, IPPROTO_IP, IP_RECVTOS));
	static const int ttls[] = {1, 2, 255}, toses[] = {0, 0x10, 0xb8, 0xff};
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < 4; j++) {
			char data[32], control[128];
			struct iovec v = {data, sizeof data};
			struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control,
					   .msg_controllen = sizeof control};
			CRAFT(.text = "ttl", .ttl = ttls[i], .tos = toses[j]);
			settle();
			CALL(recvmsg(fd, &m, MSG_DONTWAIT));
			for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
				say("  level %d type %d value %d", h->cmsg_level, h->cmsg_type,
				    h->cmsg_type == IP_TOS ? *CMSG_DATA(h) : *(int *)CMSG_DATA(h));
		}
	CRAFT(.text = "ttl 0", .no_ttl = 1);
	end();
}

static void options(void)
{
	static const uint8_t nops[4] = {1, 1, 1, 0}, forty[40] = {1, 1, 1}, route[8] = {7, 7, 4, 0, 0, 0, 0, 0},
			     broken[4] = {7, 40, 4, 0}, strict[8] = {137, 7, 8, 10, 78, 0, 9, 0},
			     loose[8] = {131, 7, 4, 10, 78, 0, 9, 0}, alert[4] = {148, 4, 0, 0};
	open_one();
	CRAFT(.text = "nops", .options = nops, .option_bytes = 4);
	CRAFT(.text = "forty", .options = forty, .option_bytes = 40);
	CRAFT(.text = "record route", .options = route, .option_bytes = 8);
	CRAFT(.text = "router alert", .options = alert, .option_bytes = 4);
	settle();
	take_all("fd", fd);
	CRAFT(.text = "broken", .options = broken, .option_bytes = 4);
	CRAFT(.text = "source route", .options = strict, .option_bytes = 8);
	CRAFT(.text = "loose", .options = loose, .option_bytes = 8);
	end();
}

static void other_hardware_address(void)
{
	open_one();
	CRAFT(.text = "to a stranger", .to = "02:00:00:00:00:99");
	ip_near("link set veth0 promisc on");
	CRAFT(.text = "to a stranger, promiscuous", .to = "02:00:00:00:00:99");
	settle();
	take_all("fd", fd);
	ip_near("link set veth0 promisc off");
	CRAFT(.text = "from a stranger", .from = "02:00:00:00:00:99");
	end();
}

static void unicast_in_group_frame(void)
{
	open_one();
	CRAFT(.text = "in a broadcast frame", .to = "ff:ff:ff:ff:ff:ff");
	settle();
	take_all("fd", fd);
	CRAFT(.text = "in a group's frame", .to = "01:00:5e:4e:00:01");
	settle();
	take_all("fd", fd); /* a card leaves it to the kernel */
	end();
}

static void group_in_unicast_frame(void)
{
	open_one();
	MUST(join(fd, GROUP));
	CRAFT(.text = "group in the host's frame", .dst = GROUP);
	settle();
	take_all("fd", fd);
	CRAFT(.text = "group in a broadcast frame", .dst = GROUP, .to = "ff:ff:ff:ff:ff:ff");
	settle();
	take_all("fd", fd);
	CRAFT(.text = "group in its own frame", .dst = GROUP, .to = "01:00:5e:4e:00:01");
	CRAFT(.text = "group in another's frame", .dst = GROUP, .to = "01:00:5e:4e:00:02");
	settle();
	take_all("fd", fd);
	/* 32 groups share a hardware address. */
	CRAFT(.text = "a group with the same address", .dst = "239.206.0.1", .to = "01:00:5e:4e:00:01");
	end();
}

static void broadcast_forms(void)
{
	open_one();
	CRAFT(.text = "subnet", .dst = "10.78.0.255", .to = "ff:ff:ff:ff:ff:ff");
	CRAFT(.text = "limited", .dst = "255.255.255.255", .to = "ff:ff:ff:ff:ff:ff");
	CRAFT(.text = "old style", .dst = "10.78.0.0", .to = "ff:ff:ff:ff:ff:ff");
	CRAFT(.text = "nobody's", .dst = "10.77.0.255", .to = "ff:ff:ff:ff:ff:ff");
	settle();
	take_all("fd", fd);
	CRAFT(.text = "subnet in the host's frame", .dst = "10.78.0.255");
	CRAFT(.text = "limited in the host's frame", .dst = "255.255.255.255");
	settle();
	take_all("fd", fd); /* a card leaves them to the kernel: order holds within each of the two ways */
	end();
}

static void martian_sources(void)
{
	static const char *const sources[] = {"127.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0", "240.0.0.1",
					      "10.78.0.255", "10.78.0.1", "10.78.0.11", "10.78.0.0", "0.1.2.3"};
	open_one();
	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
		CRAFT(.text = sources[i], .src = sources[i]);
	settle();
	take_all("fd", fd);
	MUST(join(fd, GROUP));
	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
		CRAFT(.text = sources[i], .src = sources[i], .dst = GROUP, .to = "01:00:5e:4e:00:01");
	end();
}

static void martian_destinations(void)
{
	static const char *const to[] = {"127.0.0.1", "0.0.0.0", "240.0.0.1", "10.78.0.77", "192.0.2.1"};
	open_one();
	for (size_t i = 0; i < sizeof to / sizeof *to; i++)
		CRAFT(.text = to[i], .dst = to[i]);
	end();
}

static void source_port_zero(void)
{
	uint8_t image[64];
	struct craft c = {.text = "port 0", .sum = ZERO};
	open_one();
	size_t n = udp_image(&c, image);
	put16(image, 0);
	inject(&c, image, n, 0, 0);
	end();
}

static void destination_port_zero(void)
{
	uint8_t image[64];
	struct craft c = {.text = "to port 0", .sum = ZERO};
	open_one();
	size_t n = udp_image(&c, image);
	put16(image + 2, 0);
	inject(&c, image, n, 0, 0);
	end();
}

static void other_protocols(void)
{
	open_one();
	CRAFT(.text = "UDP-Lite", .protocol = 136);
	CRAFT(.text = "TCP", .protocol = 6);
	CRAFT(.text = "none", .protocol = 253);
	end();
}

static void reserved_bit_and_df(void)
{
	uint8_t image[64];
	struct craft c = {.text = "df", .df = 1};
	open_one();
	craft(c);
	size_t n = udp_image(&c, image);
	inject(&c, image, n, 0x8000 * 8, 0);
	end();
}

static void strict_reverse_path(void)
{
	open_one();
	PEER_DO("", 0, "sysctl near net.ipv4.conf.veth0.rp_filter 1");
	CRAFT(.text = "known way", .src = "10.78.0.99");
	settle();
	take_all("fd", fd);
	end();
}

static void source_without_route(void)
{
	open_one();
	CRAFT(.text = "no way back", .src = "192.0.2.9");
	end();
}

int main(int argc, char **argv)
{
	static const struct scene scenes[] = {
		SCENE(checksum_absent), SCENE(checksum_wrong), SCENE(checksum_all_ones), SCENE(header_checksum),
		SCENE(lengths), SCENE(zero_udp_length), SCENE(padding), SCENE(short_header), SCENE(ttl_and_tos),
		SCENE(options), SCENE(other_hardware_address), SCENE(unicast_in_group_frame),
		SCENE(group_in_unicast_frame), SCENE(broadcast_forms), SCENE(martian_sources),
		SCENE(martian_destinations), SCENE(source_port_zero), SCENE(destination_port_zero),
		SCENE(other_protocols), SCENE(reserved_bit_and_df), SCENE(strict_reverse_path),
		SCENE(source_without_route), {0}};
	return play(scenes, argc, argv);
}
