#include "message.h"

#include <endian.h>
#include <string.h>
#include <time.h>

enum { MAGIC = 0x4d444631, KIND = 4, STREAM = 6, SEQUENCE = 8, SENT = 16, LENGTH = 24, CHECKSUM = 28 };

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void put16(unsigned char *at, uint16_t value)
{
    value = htobe16(value);
    memcpy(at, &value, sizeof(value));
}

static void put32(unsigned char *at, uint32_t value)
{
    value = htobe32(value);
    memcpy(at, &value, sizeof(value));
}

static void put64(unsigned char *at, uint64_t value)
{
    value = htobe64(value);
    memcpy(at, &value, sizeof(value));
}

static uint16_t get16(const unsigned char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof(value));
    return be16toh(value);
}

static uint32_t get32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return be32toh(value);
}

static uint64_t get64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return be64toh(value);
}

static uint32_t fnv1a(uint32_t hash, const unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x01000193u;
    return hash;
}

static uint32_t checksum(const unsigned char *bytes, size_t size)
{
    return fnv1a(fnv1a(0x811c9dc5u, bytes, CHECKSUM), bytes + MESSAGE_HEADER, size - MESSAGE_HEADER);
}

void message_write(unsigned char *out, size_t size, const struct message *message)
{
    put32(out, MAGIC);
    put16(out + KIND, message->kind);
    put16(out + STREAM, message->stream);
    put64(out + SEQUENCE, message->sequence);
    put64(out + SENT, (uint64_t)message->sent_ns);
    put32(out + LENGTH, (uint32_t)size);
    for (size_t i = MESSAGE_HEADER; i < size; i++)
        out[i] = (unsigned char)(message->sequence + 31u * message->stream + i);
    put32(out + CHECKSUM, checksum(out, size));
}

bool message_read(const unsigned char *in, size_t size, struct message *message)
{
    if (size < MESSAGE_HEADER || get32(in) != MAGIC || get32(in + LENGTH) != size
        || get32(in + CHECKSUM) != checksum(in, size))
        return false;
    message->kind = get16(in + KIND);
    message->stream = get16(in + STREAM);
    message->sequence = get64(in + SEQUENCE);
    message->sent_ns = (int64_t)get64(in + SENT);
    return true;
}
