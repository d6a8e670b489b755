/* Many threads on one fd: writers send to a pong, blocking readers share the replies. Every reply must reach exactly
 * one reader, undamaged. RESULT sent=... received=... lost=... duplicates=... corrupt=... readers=... */
#include "linger.h"
#include "message.h"
#include "options.h"
#include "receiver.h"
#include "sender.h"
#include "udp.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 64, CREDIT_WAIT_MS = 200, END_COPIES = 3, DRAIN_NS = 500000000 };

/* Shared by all threads; everything without an atomic is set before they start. */
static struct {
    int fd;
    struct sockaddr_in peer;
    enum receive_api receive_api;
    enum send_api send_api;
    size_t size;
    uint64_t count; /* messages per writer */
    uint64_t writers;
    int64_t end;
    sem_t credits; /* messages that may still be under way, so that no socket buffer overflows */
    atomic_uchar *times;
    atomic_ulong sent, distinct, duplicates, corrupt, busy_readers;
    atomic_bool done;
} shared;

static void take_credit(void)
{
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += CREDIT_WAIT_MS * 1000000;
    limit.tv_sec += limit.tv_nsec / 1000000000;
    limit.tv_nsec %= 1000000000;
    // After a loss the credit never comes back; go on without it.
    sem_timedwait(&shared.credits, &limit);
}

static void *write_messages(void *argument)
{
    uint16_t stream = (uint16_t)(uintptr_t)argument;
    struct sender *sender = sender_open(shared.send_api, 1);
    unsigned char buffer[MESSAGE_MAXIMUM];
    for (uint64_t sequence = 0; sequence < shared.count && now_ns() < shared.end; sequence++) {
        take_credit();
        struct message message = {MESSAGE_PING, stream, sequence, now_ns()};
        message_write(buffer, shared.size, &message);
        sender_add(sender, shared.fd, buffer, shared.size, &shared.peer);
        atomic_fetch_add(&shared.sent, 1);
    }
    sender_close(sender);
    return NULL;
}

static void take(void *context, int fd, const unsigned char *data, size_t size, const struct sockaddr_in *from)
{
    (void)fd;
    (void)from;
    uint64_t *mine = context;
    struct message message;
    (*mine)++;
    if (!message_read(data, size, &message) || size != shared.size || message.stream >= shared.writers
        || message.sequence >= shared.count) {
        atomic_fetch_add(&shared.corrupt, 1);
        return;
    }
    if (atomic_fetch_add(&shared.times[message.stream * shared.count + message.sequence], 1) == 0) {
        atomic_fetch_add(&shared.distinct, 1);
        sem_post(&shared.credits);
    } else {
        atomic_fetch_add(&shared.duplicates, 1);
    }
}

static void *read_messages(void *argument)
{
    (void)argument;
    uint64_t mine = 0;
    struct receiver *receiver = receiver_open(shared.receive_api, &shared.fd, 1, false);
    while (!atomic_load(&shared.done) && now_ns() < shared.end)
        receiver_wait(receiver, take, &mine);
    receiver_close(receiver);
    if (mine > 0)
        atomic_fetch_add(&shared.busy_readers, 1);
    return NULL;
}

static void start(pthread_t *thread, void *(*body)(void *), uintptr_t argument)
{
    if (pthread_create(thread, NULL, body, (void *)argument) != 0)
        die("pthread_create");
}

/* Goes on until all replies are there, or none came for a while. */
static void drain(void)
{
    uint64_t before = 0;
    int64_t quiet_since = now_ns();
    const struct timespec pause = {.tv_nsec = 10000000};
    while (now_ns() < shared.end && now_ns() - quiet_since < DRAIN_NS) {
        uint64_t distinct = atomic_load(&shared.distinct);
        if (distinct != before)
            quiet_since = now_ns();
        before = distinct;
        nanosleep(&pause, NULL);
    }
}

static void send_end(void)
{
    struct sender *sender = sender_open(shared.send_api, 1);
    unsigned char buffer[MESSAGE_MAXIMUM];
    for (int copy = 0; copy < END_COPIES; copy++) {
        struct message message = {MESSAGE_END, 0, 0, now_ns()};
        message_write(buffer, shared.size, &message);
        sender_add(sender, shared.fd, buffer, shared.size, &shared.peer);
    }
    sender_close(sender);
}

int main(int argc, char **argv)
{
    struct options options =
        options_parse(argc, argv, "peer bind readers writers count size window api send-api timeout linger");
    limit_lifetime(&options, 30);
    long readers = options_number(&options, "readers", 8);
    long writers = options_number(&options, "writers", 8);
    if (readers < 1 || readers > THREADS || writers < 1 || writers > THREADS)
        usage_error("--readers and --writers 1 to %d", THREADS);
    struct sockaddr_in local = options_endpoint(&options, "bind", "0.0.0.0:0");
    shared.peer = options_endpoint(&options, "peer", NULL);
    shared.receive_api = receive_api_named(options_text(&options, "api", "recvfrom"));
    shared.send_api = send_api_named(options_text(&options, "send-api", "sendto"));
    shared.size = (size_t)options_number(&options, "size", 64);
    if (shared.size < MESSAGE_HEADER || shared.size > MESSAGE_MAXIMUM)
        usage_error("--size %d to %d", MESSAGE_HEADER, MESSAGE_MAXIMUM);
    shared.count = (uint64_t)options_number(&options, "count", 1000);
    shared.writers = (uint64_t)writers;
    shared.end = now_ns() + options_seconds(&options, "timeout", 30);
    shared.times = calloc(shared.writers * shared.count, sizeof(*shared.times));
    if (shared.times == NULL)
        die("calloc");
    sem_init(&shared.credits, 0, (unsigned)options_number(&options, "window", 64));
    shared.fd = udp_open(&local, false);
    if (send_api_is_connected(shared.send_api))
        udp_connect(shared.fd, &shared.peer);
    printf("READY\n");
    fflush(stdout);

    pthread_t reading[THREADS], writing[THREADS];
    for (long r = 0; r < readers; r++)
        start(&reading[r], read_messages, 0);
    for (long w = 0; w < writers; w++)
        start(&writing[w], write_messages, (uintptr_t)w);
    for (long w = 0; w < writers; w++)
        pthread_join(writing[w], NULL);
    drain();
    atomic_store(&shared.done, true);
    for (long r = 0; r < readers; r++)
        pthread_join(reading[r], NULL);
    send_end();
    uint64_t sent = shared.sent, distinct = shared.distinct;
    printf("RESULT sent=%lu received=%lu lost=%lu duplicates=%lu corrupt=%lu readers=%lu\n", sent, distinct,
           sent - distinct, shared.duplicates, shared.corrupt, shared.busy_readers);
    linger(&options);
    return 0;
}
