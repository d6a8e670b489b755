/* One way for each of the calls a program can wait for datagrams with. A receiver belongs to one thread; several
 * receivers may share an fd. */
#ifndef RECEIVER_H
#define RECEIVER_H

#include "message.h"

#include <netinet/in.h>
#include <stdbool.h>

enum { RECEIVER_FDS = 16, RECEIVER_BATCH = 16, RECEIVER_WAIT_MS = 50 };

enum receive_api {
    RECEIVE_RECV,
    RECEIVE_RECVFROM,
    RECEIVE_RECVMSG,
    RECEIVE_RECVMMSG,
    RECEIVE_READ,
    RECEIVE_POLL,
    RECEIVE_SELECT,
    RECEIVE_EPOLL,
    RECEIVE_EPOLL_ET,
    RECEIVE_EPOLL_ONESHOT,
};

struct receiver;

/* from is NULL for the calls that do not tell it (read, recv). */
typedef void on_datagram(void *context, int fd, const unsigned char *data, size_t size,
                         const struct sockaddr_in *from);

/* An unknown name ends the program. */
enum receive_api receive_api_named(const char *name);

/* Whether the call waits for several fds at once. */
bool receive_api_is_multiplexed(enum receive_api api);

/* spin: never wait in the kernel; the fds are made non-blocking. */
struct receiver *receiver_open(enum receive_api api, const int *fds, int count, bool spin);

/* One wait of at most RECEIVER_WAIT_MS (none at all when spinning); hands on what there is and returns how many. */
int receiver_wait(struct receiver *receiver, on_datagram *handler, void *context);

void receiver_close(struct receiver *receiver);

#endif
