/* IPv4 packets made by hand, which the far host puts on the wire as they are. */
#ifndef CRAFT_H
#define CRAFT_H
#include "scenes.h"

enum { GOOD, ZERO, BAD };

/* What is 0 is as an ordinary datagram from FAR:PEER_PORT to NEAR:PORT has it. */
struct craft {
	const char *src, *dst, *text;
	const char *to, *from; /* hardware addresses; near and far */
	int sport, dport, ttl, tos, id;
	int sum, ip_sum;       /* GOOD, ZERO, BAD */
	int length;            /* of the UDP header, if it lies */
	int cut, tail;         /* bytes that the IP length leaves out of the end, and behind it */
	const void *options;
	int option_bytes;
	int df, no_ttl, protocol;
	const void *data;      /* in place of text */
	int bytes;
};

static UNUSED uint32_t add_up(const void *data, size_t n, uint32_t sum)
{
	const uint8_t *p = data;
	for (size_t i = 0; i + 1 < n; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	if (n & 1)
		sum += (uint32_t)p[n - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static UNUSED void put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

/* The IP payload of a datagram: UDP header and data. */
static UNUSED size_t udp_image(const struct craft *c, uint8_t *out)
{
	const void *data = c->data ? c->data : c->text ? c->text : "";
	size_t n = c->data ? (size_t)c->bytes : strlen(data);
	put16(out, c->sport ? c->sport : PEER_PORT);
	put16(out + 2, c->dport ? c->dport : PORT);
	put16(out + 4, c->length ? c->length : (int)n + 8);
	put16(out + 6, 0);
	memcpy(out + 8, data, n);
	struct in_addr ends[2];
	inet_pton(AF_INET, c->src ? c->src : FAR, &ends[0]);
	inet_pton(AF_INET, c->dst ? c->dst : NEAR, &ends[1]);
	uint32_t sum = add_up(ends, 8, 17 + (uint32_t)n + 8);
	sum = ~add_up(out, n + 8, sum) & 0xffff;
	if (c->sum == GOOD)
		put16(out + 6, sum ? sum : 0xffff);
	else if (c->sum == BAD)
		put16(out + 6, (sum ^ 0x5555) ? sum ^ 0x5555 : 1);
	return n + 8;
}

/* One IP packet with this payload, at `offset` of its datagram. */
static UNUSED void inject(const struct craft *c, const void *payload, size_t n, int offset, int more)
{
	static uint8_t packet[66000];
	size_t header = 20 + (size_t)c->option_bytes;
	memset(packet, 0, header);
	packet[0] = (uint8_t)(0x40 | header / 4);
	packet[1] = (uint8_t)c->tos;
	put16(packet + 2, (unsigned)(header + n - (size_t)c->cut));
	put16(packet + 4, c->id ? c->id : 4711);
	put16(packet + 6, (unsigned)(offset / 8 | (more ? 0x2000 : 0) | (c->df ? 0x4000 : 0)));
	packet[8] = (uint8_t)(c->no_ttl ? 0 : c->ttl ? c->ttl : 64);
	packet[9] = (uint8_t)(c->protocol ? c->protocol : 17);
	inet_pton(AF_INET, c->src ? c->src : FAR, packet + 12);
	inet_pton(AF_INET, c->dst ? c->dst : NEAR, packet + 16);
	memcpy(packet + 20, c->options, (size_t)c->option_bytes);
	uint32_t sum = ~add_up(packet, header, 0) & 0xffff;
	put16(packet + 10, c->ip_sum == ZERO ? 0 : c->ip_sum == BAD ? sum ^ 0x5555 : sum);
	memcpy(packet + header, payload, n);
	memset(packet + header + n, '!', (size_t)c->tail);
	PEER_DO(packet, header + n + (size_t)c->tail, "inject %s %s", c->to ? c->to : "near", c->from ? c->from : "far");
}

/* A whole datagram. */
static UNUSED void craft(struct craft c)
{
	static uint8_t image[66000];
	size_t n = udp_image(&c, image);
	inject(&c, image, n, 0, 0);
}
#define CRAFT(...) craft((struct craft){__VA_ARGS__})

/* ICMP of `type` and `code` that quotes a datagram which NEAR:PORT sent to FAR:PEER_PORT. */
struct icmp {
	int type, code, mtu;
	const char *src;  /* who complains */
	const char *near, *far; /* what is quoted */
	int nport, fport, bad, quoted;
};

static UNUSED void icmp(struct icmp i)
{
	uint8_t image[8 + 20 + 8 + 32] = {0}, *ip = image + 8, *ports = image + 28;
	image[0] = (uint8_t)i.type;
	image[1] = (uint8_t)i.code;
	put16(image + 6, i.mtu);
	ip[0] = 0x45;
	put16(ip + 2, 20 + 8 + 32);
	put16(ip + 4, 99);
	ip[6] = 0x40;
	ip[8] = 63;
	ip[9] = 17;
	inet_pton(AF_INET, i.near ? i.near : NEAR, ip + 12);
	inet_pton(AF_INET, i.far ? i.far : FAR, ip + 16);
	put16(ip + 10, ~add_up(ip, 20, 0) & 0xffff);
	put16(ports, i.nport ? i.nport : PORT);
	put16(ports + 2, i.fport ? i.fport : PEER_PORT);
	put16(ports + 4, 40);
	size_t n = i.quoted ? 28 + (size_t)i.quoted : 28 + 8;
	put16(image + 2, (~add_up(image, n, 0) & 0xffff) ^ (i.bad ? 0x5555 : 0));
	struct craft c = {.protocol = 1, .src = i.src};
	inject(&c, image, n, 0, 0);
}
#define ICMP(...) icmp((struct icmp){__VA_ARGS__})

#endif
