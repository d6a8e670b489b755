package marketdata;

/**
 * Counts durations in nanoseconds in log-linear buckets: exact below 256 ns, above that 128 buckets for each power
 * of two, so a reported value is at most 1/128 above the recorded one. Recording allocates nothing.
 */
final class Histogram {
    private static final int LINEAR_BITS = 8;
    private static final int LINEAR = 1 << LINEAR_BITS;
    private static final int PER_POWER = LINEAR / 2;
    private static final int POWERS = Long.SIZE - 1 - LINEAR_BITS;

    private final long[] counts = new long[LINEAR + POWERS * PER_POWER];
    private long total;
    private long maximum;

    /** Adds one duration in nanoseconds; a negative one counts as zero. */
    void record(long nanos) {
        long value = Math.max(nanos, 0);
        counts[bucket(value)]++;
        total++;
        maximum = Math.max(maximum, value);
    }

    /** How many durations were recorded. */
    long total() {
        return total;
    }

    /** The longest duration, exact, in nanoseconds. */
    long maximum() {
        return maximum;
    }

    /**
     * The duration in nanoseconds that {@code percent} of all are not above, rounded up to the end of its bucket;
     * 0 when nothing was recorded.
     */
    long percentile(double percent) {
        long wanted = Math.max(1, (long) Math.ceil(total * percent / 100.0));
        long seen = 0;
        for (int i = 0; i < counts.length; i++) {
            seen += counts[i];
            if (seen >= wanted && seen > 0) {
                return Math.min(highest(i), maximum);
            }
        }
        return maximum;
    }

    private static int bucket(long value) {
        if (value < LINEAR) {
            return (int) value;
        }
        int shift = Long.SIZE - Long.numberOfLeadingZeros(value) - LINEAR_BITS;
        int within = (int) (value >>> shift) - PER_POWER;
        return LINEAR + (shift - 1) * PER_POWER + within;
    }

    private static long highest(int bucket) {
        if (bucket < LINEAR) {
            return bucket;
        }
        int shift = (bucket - LINEAR) / PER_POWER + 1;
        long within = (bucket - LINEAR) % PER_POWER + PER_POWER;
        return (within << shift) + (1L << shift) - 1;
    }
}
