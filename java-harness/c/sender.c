#define _GNU_SOURCE
#include "sender.h"

#include "options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct sender {
    enum send_api api;
    int batch;
    uint64_t errors;
    int fd; /* of the collected datagrams */
    unsigned collected;
    struct mmsghdr headers[SENDER_BATCH];
    struct iovec parts[SENDER_BATCH];
    struct sockaddr_in to[SENDER_BATCH];
    unsigned char buffers[SENDER_BATCH][MESSAGE_MAXIMUM];
};

static const char *const names[] = {
    [SEND_SENDTO] = "sendto", [SEND_SENDMSG] = "sendmsg", [SEND_SENDMMSG] = "sendmmsg",
    [SEND_SEND] = "send",     [SEND_WRITE] = "write",
};

enum send_api send_api_named(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0)
            return (enum send_api)i;
    }
    usage_error("unknown send api %s", name);
}

bool send_api_is_connected(enum send_api api)
{
    return api == SEND_SEND || api == SEND_WRITE;
}

struct sender *sender_open(enum send_api api, int batch)
{
    if (batch < 1 || batch > SENDER_BATCH)
        usage_error("--batch 1 to %d", SENDER_BATCH);
    struct sender *sender = calloc(1, sizeof(*sender));
    if (sender == NULL)
        die("calloc");
    sender->api = api;
    sender->batch = batch;
    return sender;
}

void sender_close(struct sender *sender)
{
    free(sender);
}

static void failed(struct sender *sender)
{
    if (sender->errors++ == 0)
        perror(names[sender->api]);
}

uint64_t sender_flush(struct sender *sender)
{
    unsigned done = 0;
    while (done < sender->collected) {
        int sent = sendmmsg(sender->fd, sender->headers + done, sender->collected - done, 0);
        if (sent < 0) {
            failed(sender);
            sent = 1; // the first one failed: go on behind it
        }
        done += (unsigned)sent;
    }
    sender->collected = 0;
    return sender->errors;
}

static void collect(struct sender *sender, int fd, const unsigned char *data, size_t size,
                    const struct sockaddr_in *to)
{
    unsigned at = sender->collected++;
    sender->fd = fd;
    memcpy(sender->buffers[at], data, size);
    sender->parts[at] = (struct iovec){sender->buffers[at], size};
    sender->to[at] = *to;
    sender->headers[at].msg_hdr = (struct msghdr){.msg_name = &sender->to[at],
                                                  .msg_namelen = sizeof(sender->to[at]),
                                                  .msg_iov = &sender->parts[at],
                                                  .msg_iovlen = 1};
    if (sender->collected == (unsigned)sender->batch)
        sender_flush(sender);
}

/* The header and the payload as two parts, so that gathering is covered too. */
static ssize_t send_in_parts(int fd, const unsigned char *data, size_t size, const struct sockaddr_in *to)
{
    size_t head = size < MESSAGE_HEADER ? size : MESSAGE_HEADER;
    struct iovec parts[2] = {{(void *)data, head}, {(void *)(data + head), size - head}};
    struct msghdr header = {.msg_name = (void *)to, .msg_namelen = sizeof(*to), .msg_iov = parts, .msg_iovlen = 2};
    return sendmsg(fd, &header, 0);
}

uint64_t sender_add(struct sender *sender, int fd, const unsigned char *data, size_t size,
                    const struct sockaddr_in *to)
{
    ssize_t sent;
    switch (sender->api) {
    case SEND_SENDMMSG:
        collect(sender, fd, data, size, to);
        return sender->errors;
    case SEND_SENDMSG:
        sent = send_in_parts(fd, data, size, to);
        break;
    case SEND_SEND:
        sent = send(fd, data, size, 0);
        break;
    case SEND_WRITE:
        sent = write(fd, data, size);
        break;
    default:
        sent = sendto(fd, data, size, 0, (const struct sockaddr *)to, sizeof(*to));
    }
    if (sent != (ssize_t)size)
        failed(sender);
    return sender->errors;
}
