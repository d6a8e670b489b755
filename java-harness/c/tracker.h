/* Follows the sequence numbers of one stream: what arrived, what is missing, what came twice or out of order. */
#ifndef TRACKER_H
#define TRACKER_H

#include <stdbool.h>
#include <stdint.h>

struct tracker {
    unsigned char *seen; /* one bit a sequence number */
    uint64_t capacity;   /* sequence numbers that fit */
    uint64_t distinct, duplicates, reordered;
    uint64_t first, highest; /* meaningful once distinct > 0 */
};

/* Takes note of one datagram; true when it is new. */
bool tracker_record(struct tracker *tracker, uint64_t sequence);

/* Holes between the first and the highest sequence number seen. */
uint64_t tracker_missing(const struct tracker *tracker);

#endif
