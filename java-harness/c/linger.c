#include "linger.h"

#include "message.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

enum { GRACE_SECONDS = 10 };

void limit_lifetime(const struct options *options, long otherwise_seconds)
{
    long seconds = options_number(options, "timeout", otherwise_seconds) + options_number(options, "linger", 0);
    alarm((unsigned)(seconds + GRACE_SECONDS));
}

void linger(const struct options *options)
{
    fflush(stdout);
    int64_t end = now_ns() + options_seconds(options, "linger", 0);
    char discarded[256];
    for (int64_t left; (left = end - now_ns()) > 0;) {
        struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
        if (poll(&input, 1, (int)(left / 1000000) + 1) == 1 && read(STDIN_FILENO, discarded, sizeof(discarded)) <= 0)
            return;
    }
}
