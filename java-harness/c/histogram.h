/* Counts durations in nanoseconds in log-linear buckets: exact below 256 ns, above that 128 buckets for each power
 * of two, so a reported value is at most 1/128 above the recorded one. */
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BUCKETS = 256 + 55 * 128 };

struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS];
    uint64_t total;
    int64_t maximum;
};

/* Adds one duration; a negative one counts as zero. */
void histogram_record(struct histogram *histogram, int64_t nanoseconds);

/* The duration that percent of all are not above, rounded up to the end of its bucket; 0 when there is none. */
int64_t histogram_percentile(const struct histogram *histogram, double percent);

#endif
