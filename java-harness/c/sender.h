/* One way for each of the calls a program can send datagrams with. A sender belongs to one thread. */
#ifndef SENDER_H
#define SENDER_H

#include "message.h"

#include <netinet/in.h>
#include <stdbool.h>

enum { SENDER_BATCH = 8 };

enum send_api { SEND_SENDTO, SEND_SENDMSG, SEND_SENDMMSG, SEND_SEND, SEND_WRITE };

struct sender;

/* An unknown name ends the program. */
enum send_api send_api_named(const char *name);

/* Whether the call needs a connected socket. */
bool send_api_is_connected(enum send_api api);

/* batch: how many datagrams sendmmsg collects before it sends, 1 to SENDER_BATCH. */
struct sender *sender_open(enum send_api api, int batch);

/* Sends, or collects for sendmmsg. Returns how many sends have failed so far. */
uint64_t sender_add(struct sender *sender, int fd, const unsigned char *data, size_t size,
                    const struct sockaddr_in *to);

/* Sends what was collected. Returns how many sends have failed so far. */
uint64_t sender_flush(struct sender *sender);

void sender_close(struct sender *sender);

#endif
