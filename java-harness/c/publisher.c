/* Sends numbered messages to one or more multicast groups; each group is a stream of its own.
 * RESULT sent=... errors=... */
#include "linger.h"
#include "message.h"
#include "options.h"
#include "sender.h"
#include "udp.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { GROUPS = 16, END_COPIES = 3, END_INTERVAL_MS = 50, MOST_BEHIND_NS = 5000000 };

struct publisher {
    int fd;
    struct sender *sender;
    struct sockaddr_in to[GROUPS];
    int groups;
    uint16_t first_stream;
    size_t size;
    unsigned char buffer[MESSAGE_MAXIMUM];
};

static void sleep_ns(int64_t nanoseconds)
{
    struct timespec pause = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    if (nanoseconds > 0)
        nanosleep(&pause, NULL);
}

static uint64_t send_to_all(struct publisher *publisher, enum message_kind kind, uint64_t sequence)
{
    uint64_t errors = 0;
    for (int g = 0; g < publisher->groups; g++) {
        uint16_t stream = (uint16_t)(publisher->first_stream + g);
        struct message message = {kind, stream, sequence, now_ns()};
        message_write(publisher->buffer, publisher->size, &message);
        errors = sender_add(publisher->sender, publisher->fd, publisher->buffer, publisher->size, &publisher->to[g]);
    }
    return errors;
}

/* rate 0 means: as fast as it goes. A long pause does not become a burst that overruns the receivers. */
static void publish(struct publisher *publisher, long count, long rate)
{
    int64_t interval = rate > 0 ? 1000000000 / rate : 0;
    int64_t due = now_ns();
    for (long sequence = 0; sequence < count; sequence++) {
        if (interval > 0) {
            sleep_ns(due - now_ns());
            int64_t earliest = now_ns() - MOST_BEHIND_NS;
            due = (due > earliest ? due : earliest) + interval;
        }
        send_to_all(publisher, MESSAGE_DATA, (uint64_t)sequence);
    }
    sender_flush(publisher->sender);
}

static int open_socket(const struct options *options, const struct publisher *publisher, enum send_api api)
{
    struct sockaddr_in local = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)options_number(options, "source-port", 0))};
    int fd = udp_open(&local, false);
    const char *loop = options_text(options, "loop", NULL);
    udp_multicast_send(fd, options_get(options, "interface"), (int)options_number(options, "ttl", 1),
                       loop ? strcmp(loop, "true") == 0 : -1);
    if (send_api_is_connected(api)) {
        if (publisher->groups != 1)
            usage_error("a connected api needs exactly one --group");
        udp_connect(fd, &publisher->to[0]);
    }
    return fd;
}

int main(int argc, char **argv)
{
    struct options options = options_parse(
        argc, argv, "group port interface rate count size ttl loop api batch source-port stream timeout linger");
    limit_lifetime(&options, 60);
    static struct publisher publisher;
    struct in_addr groups[GROUPS];
    publisher.groups = options_addresses(&options, "group", "239.77.0.1", groups, GROUPS);
    for (int g = 0; g < publisher.groups; g++)
        publisher.to[g] = (struct sockaddr_in){.sin_family = AF_INET,
                                               .sin_port = htons((uint16_t)options_number(&options, "port", 7000)),
                                               .sin_addr = groups[g]};
    publisher.first_stream = (uint16_t)options_number(&options, "stream", 0);
    publisher.size = (size_t)options_number(&options, "size", 64);
    if (publisher.size < MESSAGE_HEADER || publisher.size > MESSAGE_MAXIMUM)
        usage_error("--size %d to %d", MESSAGE_HEADER, MESSAGE_MAXIMUM);
    enum send_api api = send_api_named(options_text(&options, "api", "sendto"));
    publisher.sender = sender_open(api, (int)options_number(&options, "batch", 1));
    publisher.fd = open_socket(&options, &publisher, api);

    long count = options_number(&options, "count", 1000);
    publish(&publisher, count, options_number(&options, "rate", 1000));
    for (int copy = 0; copy < END_COPIES; copy++) {
        send_to_all(&publisher, MESSAGE_END, (uint64_t)count);
        sender_flush(publisher.sender);
        sleep_ns(END_INTERVAL_MS * 1000000);
    }
    uint64_t errors = sender_flush(publisher.sender);
    uint64_t attempts = (uint64_t)(count + END_COPIES) * (uint64_t)publisher.groups;
    uint64_t ends = (uint64_t)END_COPIES * (uint64_t)publisher.groups;
    printf("RESULT sent=%lu errors=%lu\n", attempts > errors + ends ? attempts - errors - ends : 0, errors);
    linger(&options);
    sender_close(publisher.sender);
    return 0;
}
