/* Sends one message at a time and waits for it to come back; half round trips in nanoseconds.
 * RESULT sent=... received=... lost=... duplicates=... reordered=... corrupt=... p50=... p99=... p999=... max=... */
#include "histogram.h"
#include "linger.h"
#include "message.h"
#include "options.h"
#include "receiver.h"
#include "sender.h"
#include "tracker.h"
#include "udp.h"

#include <stdio.h>

enum { END_COPIES = 3 };

struct ping {
    size_t size;
    uint64_t awaited;
    int64_t arrived_ns; /* 0 until the awaited reply is there */
    struct tracker replies;
    struct histogram half_round_trips;
    uint64_t corrupt;
};

static void take(void *context, int fd, const unsigned char *data, size_t size, const struct sockaddr_in *from)
{
    (void)fd;
    (void)from;
    struct ping *ping = context;
    int64_t now = now_ns();
    struct message message;
    if (!message_read(data, size, &message) || size != ping->size) {
        ping->corrupt++;
        return;
    }
    tracker_record(&ping->replies, message.sequence);
    if (message.sequence == ping->awaited)
        ping->arrived_ns = now;
}

int main(int argc, char **argv)
{
    struct options options = options_parse(
        argc, argv, "peer bind count warm-up size reply-timeout api send-api nonblocking timeout linger");
    limit_lifetime(&options, 60);
    struct sockaddr_in peer = options_endpoint(&options, "peer", NULL);
    struct sockaddr_in local = options_endpoint(&options, "bind", "0.0.0.0:0");
    enum receive_api receive_api = receive_api_named(options_text(&options, "api", "recvfrom"));
    enum send_api send_api = send_api_named(options_text(&options, "send-api", "sendto"));
    static struct ping ping;
    ping.size = (size_t)options_number(&options, "size", 64);
    if (ping.size < MESSAGE_HEADER || ping.size > MESSAGE_MAXIMUM)
        usage_error("--size %d to %d", MESSAGE_HEADER, MESSAGE_MAXIMUM);

    int fd = udp_open(&local, false);
    if (send_api_is_connected(send_api))
        udp_connect(fd, &peer);
    struct receiver *receiver = receiver_open(receive_api, &fd, 1, options_has(&options, "nonblocking"));
    struct sender *sender = sender_open(send_api, 1);
    printf("READY\n");
    fflush(stdout);

    uint64_t warm_up = (uint64_t)options_number(&options, "warm-up", 1000);
    uint64_t total = warm_up + (uint64_t)options_number(&options, "count", 10000);
    int64_t timeout_ns = options_number(&options, "reply-timeout", 500) * 1000000;
    int64_t end = now_ns() + options_seconds(&options, "timeout", 60);
    static unsigned char buffer[MESSAGE_MAXIMUM];
    uint64_t sent = 0;
    while (sent < total && now_ns() < end) {
        ping.awaited = sent;
        ping.arrived_ns = 0;
        struct message message = {MESSAGE_PING, 0, sent, now_ns()};
        message_write(buffer, ping.size, &message);
        int64_t start = now_ns();
        sender_add(sender, fd, buffer, ping.size, &peer);
        while (ping.arrived_ns == 0 && now_ns() - start < timeout_ns)
            receiver_wait(receiver, take, &ping);
        if (ping.arrived_ns != 0 && sent >= warm_up)
            histogram_record(&ping.half_round_trips, (ping.arrived_ns - start) / 2);
        sent++;
    }
    for (int copy = 0; copy < END_COPIES; copy++) {
        struct message message = {MESSAGE_END, 0, sent, now_ns()};
        message_write(buffer, ping.size, &message);
        sender_add(sender, fd, buffer, ping.size, &peer);
    }
    const struct histogram *halves = &ping.half_round_trips;
    printf("RESULT sent=%lu received=%lu lost=%lu duplicates=%lu reordered=%lu corrupt=%lu "
           "p50=%ld p99=%ld p999=%ld max=%ld\n",
           sent, ping.replies.distinct, sent - ping.replies.distinct, ping.replies.duplicates, ping.replies.reordered,
           ping.corrupt, histogram_percentile(halves, 50), histogram_percentile(halves, 99),
           histogram_percentile(halves, 99.9), halves->maximum);
    linger(&options);
    receiver_close(receiver);
    sender_close(sender);
    return 0;
}
