#include "tracker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void grow(struct tracker *tracker, uint64_t sequence)
{
    uint64_t capacity = tracker->capacity ? tracker->capacity : 1 << 16;
    while (capacity <= sequence)
        capacity *= 2;
    unsigned char *seen = realloc(tracker->seen, capacity / 8);
    if (seen == NULL) {
        perror("realloc");
        exit(1);
    }
    memset(seen + tracker->capacity / 8, 0, (capacity - tracker->capacity) / 8);
    tracker->seen = seen;
    tracker->capacity = capacity;
}

bool tracker_record(struct tracker *tracker, uint64_t sequence)
{
    if (sequence >= tracker->capacity)
        grow(tracker, sequence);
    unsigned char bit = (unsigned char)(1u << (sequence % 8));
    if (tracker->seen[sequence / 8] & bit) {
        tracker->duplicates++;
        return false;
    }
    tracker->seen[sequence / 8] |= bit;
    if (tracker->distinct == 0) {
        tracker->first = tracker->highest = sequence;
    } else if (sequence < tracker->highest) {
        tracker->reordered++;
        if (sequence < tracker->first)
            tracker->first = sequence;
    } else {
        tracker->highest = sequence;
    }
    tracker->distinct++;
    return true;
}

uint64_t tracker_missing(const struct tracker *tracker)
{
    return tracker->distinct == 0 ? 0 : tracker->highest - tracker->first + 1 - tracker->distinct;
}
