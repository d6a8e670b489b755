/* Joins one or more multicast groups and checks what arrives, with any of the receive calls.
 * RESULT received=... lost=... duplicates=... reordered=... corrupt=... p50=... (one way, same machine only) */
#include "histogram.h"
#include "linger.h"
#include "message.h"
#include "options.h"
#include "receiver.h"
#include "tracker.h"
#include "udp.h"

#include <arpa/inet.h>
#include <stdio.h>

enum { GROUPS = RECEIVER_FDS, STREAMS = 64, SETTLE_NS = 200000000 };

struct subscriber {
    struct tracker streams[STREAMS];
    bool ended[STREAMS];
    struct histogram one_way;
    uint64_t distinct, corrupt;
};

static void take(void *context, int fd, const unsigned char *data, size_t size, const struct sockaddr_in *from)
{
    (void)fd;
    (void)from;
    struct subscriber *subscriber = context;
    struct message message;
    int64_t now = now_ns();
    if (!message_read(data, size, &message) || message.stream >= STREAMS) {
        subscriber->corrupt++;
    } else if (message.kind == MESSAGE_END) {
        subscriber->ended[message.stream] = true;
    } else if (tracker_record(&subscriber->streams[message.stream], message.sequence)) {
        subscriber->distinct++;
        histogram_record(&subscriber->one_way, now - message.sent_ns);
    }
}

/* Some stream has ended, and so has every stream of which anything was seen. */
static bool all_ended(const struct subscriber *subscriber)
{
    bool any = false;
    for (int s = 0; s < STREAMS; s++) {
        if (subscriber->streams[s].distinct > 0 && !subscriber->ended[s])
            return false;
        any |= subscriber->ended[s];
    }
    return any;
}

/* Multiplexed calls get one socket a group, bound to it, for a wildcard socket gets every group that the host has
 * joined; the others get one socket for all groups. Returns how many. */
static int open_sockets(const struct options *options, enum receive_api api, int *fds)
{
    struct in_addr groups[GROUPS];
    int count = options_addresses(options, "group", "239.77.0.1", groups, GROUPS);
    const char *interface = options_text(options, "interface", "lo");
    in_port_t port = htons((uint16_t)options_number(options, "port", 7000));
    struct in_addr source;
    bool has_source = options_has(options, "source");
    if (has_source)
        options_addresses(options, "source", NULL, &source, 1);
    bool connected = options_has(options, "connect");
    if (connected && count != 1)
        usage_error("--connect needs exactly one --group");
    bool per_group = receive_api_is_multiplexed(api);
    int sockets = per_group ? count : 1;
    for (int s = 0; s < sockets; s++) {
        // Connecting a wildcard socket would give it a unicast address, and the group would no longer match.
        struct in_addr address = per_group || connected ? groups[s] : (struct in_addr){INADDR_ANY};
        struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = port, .sin_addr = address};
        fds[s] = udp_open(&local, true);
    }
    for (int g = 0; g < count; g++)
        udp_join(fds[per_group ? g : 0], groups[g], interface, has_source ? &source : NULL);
    if (connected) {
        struct sockaddr_in peer = options_endpoint(options, "connect", NULL);
        udp_connect(fds[0], &peer);
    }
    return sockets;
}

static void print_result(const struct subscriber *subscriber, long expected)
{
    uint64_t missing = 0, duplicates = 0, reordered = 0;
    for (int s = 0; s < STREAMS; s++) {
        missing += tracker_missing(&subscriber->streams[s]);
        duplicates += subscriber->streams[s].duplicates;
        reordered += subscriber->streams[s].reordered;
    }
    uint64_t distinct = subscriber->distinct;
    uint64_t absent = expected > 0 && (uint64_t)expected > distinct ? (uint64_t)expected - distinct : 0;
    const struct histogram *one_way = &subscriber->one_way;
    printf("RESULT received=%lu lost=%lu duplicates=%lu reordered=%lu corrupt=%lu p50=%ld p99=%ld p999=%ld max=%ld\n",
           distinct, absent > missing ? absent : missing, duplicates, reordered, subscriber->corrupt,
           histogram_percentile(one_way, 50), histogram_percentile(one_way, 99), histogram_percentile(one_way, 99.9),
           one_way->maximum);
}

int main(int argc, char **argv)
{
    struct options options =
        options_parse(argc, argv, "group port interface count timeout api source connect nonblocking linger");
    limit_lifetime(&options, 30);
    enum receive_api api = receive_api_named(options_text(&options, "api", "recvfrom"));
    int fds[GROUPS];
    int sockets = open_sockets(&options, api, fds);
    struct receiver *receiver = receiver_open(api, fds, sockets, options_has(&options, "nonblocking"));
    printf("READY\n");
    fflush(stdout);

    static struct subscriber subscriber;
    long expected = options_number(&options, "count", 0);
    int64_t end = now_ns() + options_seconds(&options, "timeout", 30);
    bool settling = false;
    while (now_ns() < end) {
        receiver_wait(receiver, take, &subscriber);
        bool complete = expected > 0 && subscriber.distinct >= (uint64_t)expected;
        if (!settling && (complete || all_ended(&subscriber))) {
            settling = true;
            int64_t settled = now_ns() + SETTLE_NS;
            end = settled < end ? settled : end;
        }
    }
    print_result(&subscriber, expected);
    linger(&options);
    receiver_close(receiver);
    return 0;
}
