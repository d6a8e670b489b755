/* The datagram that all programs exchange; the Java programs write the same.
 *
 *  0  u32  magic "MDF1"                       (all fields big endian)
 *  4  u16  kind
 *  6  u16  stream: sequences are counted per stream
 *  8  u64  sequence, from 0
 * 16  i64  time of sending, nanoseconds of CLOCK_MONOTONIC
 * 24  u32  length of the whole datagram in bytes
 * 28  u32  FNV-1a over everything but this field
 * 32  ...  payload, a pattern that depends on stream, sequence and position
 */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MESSAGE_HEADER = 32,     /* bytes before the payload, and the smallest datagram */
    MESSAGE_MAXIMUM = 65507, /* the largest UDP payload over IPv4 */
};

enum message_kind {
    MESSAGE_DATA = 1, /* market data */
    MESSAGE_PING = 2, /* asks the receiver to send the same bytes back */
    MESSAGE_END = 3,  /* the sender of this stream is done */
};

struct message {
    enum message_kind kind;
    uint16_t stream;
    uint64_t sequence;
    int64_t sent_ns;
};

/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t now_ns(void);

/* Fills size bytes at out; size is at least MESSAGE_HEADER. */
void message_write(unsigned char *out, size_t size, const struct message *message);

/* False unless the size bytes are one undamaged, whole message. */
bool message_read(const unsigned char *in, size_t size, struct message *message);

#endif
