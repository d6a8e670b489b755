#include "histogram.h"

enum { LINEAR_BITS = 8, LINEAR = 1 << LINEAR_BITS, PER_POWER = LINEAR / 2 };

static int bucket_of(uint64_t value)
{
    if (value < LINEAR)
        return (int)value;
    int shift = 64 - __builtin_clzll(value) - LINEAR_BITS;
    return LINEAR + (shift - 1) * PER_POWER + (int)(value >> shift) - PER_POWER;
}

static int64_t highest_in(int bucket)
{
    if (bucket < LINEAR)
        return bucket;
    int shift = (bucket - LINEAR) / PER_POWER + 1;
    int64_t within = (bucket - LINEAR) % PER_POWER + PER_POWER;
    return (within << shift) + (INT64_C(1) << shift) - 1;
}

void histogram_record(struct histogram *histogram, int64_t nanoseconds)
{
    int64_t value = nanoseconds < 0 ? 0 : nanoseconds;
    histogram->counts[bucket_of((uint64_t)value)]++;
    histogram->total++;
    if (value > histogram->maximum)
        histogram->maximum = value;
}

int64_t histogram_percentile(const struct histogram *histogram, double percent)
{
    double wanted = (double)histogram->total * percent / 100.0;
    uint64_t seen = 0;
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->counts[i];
        if (seen > 0 && (double)seen >= wanted) {
            int64_t value = highest_in(i);
            return value < histogram->maximum ? value : histogram->maximum;
        }
    }
    return histogram->maximum;
}
