#define _GNU_SOURCE
#include "receiver.h"

#include "options.h"
#include "udp.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <unistd.h>

struct receiver {
    enum receive_api api;
    bool spin;
    int count;
    int fds[RECEIVER_FDS];
    int epoll_fd;
    size_t capacity; /* not a constant, so that the fortified build really checks */
};

/* Of known size, for the same reason. */
static _Thread_local unsigned char buffers[RECEIVER_BATCH][MESSAGE_MAXIMUM];

static const char *const names[] = {
    [RECEIVE_RECV] = "recv",
    [RECEIVE_RECVFROM] = "recvfrom",
    [RECEIVE_RECVMSG] = "recvmsg",
    [RECEIVE_RECVMMSG] = "recvmmsg",
    [RECEIVE_READ] = "read",
    [RECEIVE_POLL] = "poll",
    [RECEIVE_SELECT] = "select",
    [RECEIVE_EPOLL] = "epoll",
    [RECEIVE_EPOLL_ET] = "epoll-et",
    [RECEIVE_EPOLL_ONESHOT] = "epoll-oneshot",
};

enum receive_api receive_api_named(const char *name)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(name, names[i]) == 0)
            return (enum receive_api)i;
    }
    usage_error("unknown receive api %s", name);
}

bool receive_api_is_multiplexed(enum receive_api api)
{
    return api >= RECEIVE_POLL;
}

static uint32_t interest(enum receive_api api)
{
    switch (api) {
    case RECEIVE_EPOLL_ET:
        return EPOLLIN | EPOLLET;
    case RECEIVE_EPOLL_ONESHOT:
        return EPOLLIN | EPOLLONESHOT;
    default:
        return EPOLLIN;
    }
}

static void epoll_set(struct receiver *receiver, int operation, int fd)
{
    struct epoll_event event = {.events = interest(receiver->api), .data.fd = fd};
    if (epoll_ctl(receiver->epoll_fd, operation, fd, &event) != 0)
        die("epoll_ctl");
}

struct receiver *receiver_open(enum receive_api api, const int *fds, int count, bool spin)
{
    if (count > RECEIVER_FDS || (count > 1 && !receive_api_is_multiplexed(api)))
        usage_error("%s cannot wait for %d sockets", names[api], count);
    struct receiver *receiver = calloc(1, sizeof(*receiver));
    if (receiver == NULL)
        die("calloc");
    receiver->api = api;
    receiver->spin = spin;
    receiver->count = count;
    receiver->capacity = MESSAGE_MAXIMUM;
    receiver->epoll_fd = -1;
    memcpy(receiver->fds, fds, sizeof(*fds) * (size_t)count);
    if (api >= RECEIVE_EPOLL && (receiver->epoll_fd = epoll_create1(EPOLL_CLOEXEC)) < 0)
        die("epoll_create1");
    for (int i = 0; i < count; i++) {
        // An edge is drained until EAGAIN, and another reader may take what poll announced.
        if (spin || receive_api_is_multiplexed(api))
            udp_set_nonblocking(fds[i]);
        else
            udp_receive_timeout(fds[i], RECEIVER_WAIT_MS);
        if (receiver->epoll_fd >= 0)
            epoll_set(receiver, EPOLL_CTL_ADD, fds[i]);
    }
    return receiver;
}

void receiver_close(struct receiver *receiver)
{
    if (receiver->epoll_fd >= 0)
        close(receiver->epoll_fd);
    free(receiver);
}

/* 0 for the errors that mean "nothing now"; a refused peer is no reason to give up. */
static int nothing(const char *call)
{
    if (errno != EAGAIN && errno != EINTR && errno != ECONNREFUSED)
        die(call);
    return 0;
}

static int take_recvmsg(struct receiver *receiver, int fd, on_datagram *handler, void *context)
{
    struct sockaddr_in from;
    struct iovec part = {buffers[0], receiver->capacity};
    struct msghdr header = {.msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &part, .msg_iovlen = 1};
    ssize_t size = recvmsg(fd, &header, 0);
    if (size < 0)
        return nothing("recvmsg");
    handler(context, fd, buffers[0], (size_t)size, &from);
    return 1;
}

static int take_recvmmsg(struct receiver *receiver, int fd, on_datagram *handler, void *context)
{
    struct sockaddr_in from[RECEIVER_BATCH];
    struct iovec parts[RECEIVER_BATCH];
    struct mmsghdr headers[RECEIVER_BATCH] = {0};
    for (int i = 0; i < RECEIVER_BATCH; i++) {
        parts[i] = (struct iovec){buffers[i], receiver->capacity};
        headers[i].msg_hdr = (struct msghdr){
            .msg_name = &from[i], .msg_namelen = sizeof(from[i]), .msg_iov = &parts[i], .msg_iovlen = 1};
    }
    int count = recvmmsg(fd, headers, RECEIVER_BATCH, MSG_WAITFORONE, NULL);
    if (count < 0)
        return nothing("recvmmsg");
    for (int i = 0; i < count; i++)
        handler(context, fd, buffers[i], headers[i].msg_len, &from[i]);
    return count;
}

/* One receive call on one fd; also what follows a readiness report. */
static int take(struct receiver *receiver, int fd, on_datagram *handler, void *context)
{
    struct sockaddr_in from;
    socklen_t from_size = sizeof(from);
    const struct sockaddr_in *sender = NULL;
    ssize_t size;
    switch (receiver->api) {
    case RECEIVE_RECVMSG:
        return take_recvmsg(receiver, fd, handler, context);
    case RECEIVE_RECVMMSG:
        return take_recvmmsg(receiver, fd, handler, context);
    case RECEIVE_READ:
        size = read(fd, buffers[0], receiver->capacity);
        break;
    case RECEIVE_RECV:
        size = recv(fd, buffers[0], receiver->capacity, 0);
        break;
    default:
        size = recvfrom(fd, buffers[0], receiver->capacity, 0, (struct sockaddr *)&from, &from_size);
        sender = &from;
    }
    if (size < 0)
        return nothing(names[receiver->api]);
    handler(context, fd, buffers[0], (size_t)size, sender);
    return 1;
}

static int wait_poll(struct receiver *receiver, int timeout_ms, on_datagram *handler, void *context)
{
    struct pollfd polled[RECEIVER_FDS];
    for (int i = 0; i < receiver->count; i++)
        polled[i] = (struct pollfd){.fd = receiver->fds[i], .events = POLLIN};
    if (poll(polled, (nfds_t)receiver->count, timeout_ms) < 0)
        return nothing("poll");
    int taken = 0;
    for (int i = 0; i < receiver->count; i++) {
        if (polled[i].revents != 0)
            taken += take(receiver, polled[i].fd, handler, context);
    }
    return taken;
}

static int wait_select(struct receiver *receiver, int timeout_ms, on_datagram *handler, void *context)
{
    fd_set readable;
    FD_ZERO(&readable);
    int highest = 0;
    for (int i = 0; i < receiver->count; i++) {
        FD_SET(receiver->fds[i], &readable);
        highest = receiver->fds[i] > highest ? receiver->fds[i] : highest;
    }
    struct timeval timeout = {.tv_usec = timeout_ms * 1000};
    if (select(highest + 1, &readable, NULL, NULL, &timeout) < 0)
        return nothing("select");
    int taken = 0;
    for (int i = 0; i < receiver->count; i++) {
        if (FD_ISSET(receiver->fds[i], &readable))
            taken += take(receiver, receiver->fds[i], handler, context);
    }
    return taken;
}

static int wait_epoll(struct receiver *receiver, int timeout_ms, on_datagram *handler, void *context)
{
    struct epoll_event events[RECEIVER_FDS];
    int ready = epoll_wait(receiver->epoll_fd, events, RECEIVER_FDS, timeout_ms);
    if (ready < 0)
        return nothing("epoll_wait");
    int taken = 0;
    for (int i = 0; i < ready; i++) {
        int fd = events[i].data.fd;
        int more;
        do {
            more = take(receiver, fd, handler, context);
            taken += more;
        } while (more > 0 && receiver->api == RECEIVE_EPOLL_ET);
        if (receiver->api == RECEIVE_EPOLL_ONESHOT)
            epoll_set(receiver, EPOLL_CTL_MOD, fd);
    }
    return taken;
}

int receiver_wait(struct receiver *receiver, on_datagram *handler, void *context)
{
    int timeout_ms = receiver->spin ? 0 : RECEIVER_WAIT_MS;
    switch (receiver->api) {
    case RECEIVE_POLL:
        return wait_poll(receiver, timeout_ms, handler, context);
    case RECEIVE_SELECT:
        return wait_select(receiver, timeout_ms, handler, context);
    case RECEIVE_EPOLL:
    case RECEIVE_EPOLL_ET:
    case RECEIVE_EPOLL_ONESHOT:
        return wait_epoll(receiver, timeout_ms, handler, context);
    default:
        return take(receiver, receiver->fds[0], handler, context);
    }
}
