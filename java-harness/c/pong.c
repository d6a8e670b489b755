/* Sends every message back to where it came from until it is told the end or --timeout seconds are over.
 * RESULT received=... sent=... */
#include "linger.h"
#include "message.h"
#include "options.h"
#include "receiver.h"
#include "sender.h"
#include "udp.h"

#include <stdio.h>

struct pong {
    struct sender *sender;
    const struct sockaddr_in *peer; /* for the receive calls that do not tell who sent */
    uint64_t echoed, errors;
    bool ended;
};

static void take(void *context, int fd, const unsigned char *data, size_t size, const struct sockaddr_in *from)
{
    struct pong *pong = context;
    struct message message;
    if (message_read(data, size, &message) && message.kind == MESSAGE_END) {
        pong->ended = true;
        return;
    }
    // Damaged messages go back too: it is the sender who checks.
    pong->errors = sender_add(pong->sender, fd, data, size, from ? from : pong->peer);
    pong->echoed++;
}

int main(int argc, char **argv)
{
    struct options options = options_parse(argc, argv, "bind connect timeout api send-api nonblocking linger");
    limit_lifetime(&options, 30);
    struct sockaddr_in local = options_endpoint(&options, "bind", "0.0.0.0:7001");
    enum receive_api receive_api = receive_api_named(options_text(&options, "api", "recvfrom"));
    enum send_api send_api = send_api_named(options_text(&options, "send-api", "sendto"));
    bool connected = options_has(&options, "connect");
    if (!connected && (send_api_is_connected(send_api) || receive_api == RECEIVE_READ || receive_api == RECEIVE_RECV))
        usage_error("this api needs --connect ADDRESS:PORT");

    int fd = udp_open(&local, false);
    struct sockaddr_in peer = {0};
    if (connected) {
        peer = options_endpoint(&options, "connect", NULL);
        udp_connect(fd, &peer);
    }
    struct receiver *receiver = receiver_open(receive_api, &fd, 1, options_has(&options, "nonblocking"));
    struct pong pong = {.sender = sender_open(send_api, 1), .peer = &peer};
    printf("READY\n");
    fflush(stdout);

    int64_t end = now_ns() + options_seconds(&options, "timeout", 30);
    while (!pong.ended && now_ns() < end)
        receiver_wait(receiver, take, &pong);
    printf("RESULT received=%lu sent=%lu\n", pong.echoed, pong.echoed - pong.errors);
    linger(&options);
    receiver_close(receiver);
    sender_close(pong.sender);
    return 0;
}
