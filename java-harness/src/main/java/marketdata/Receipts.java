package marketdata;

import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;

/** Counts, from any thread, how often each message of each stream came back. */
final class Receipts {
    private final int perStream;
    private final AtomicIntegerArray times;
    private final AtomicLong distinct = new AtomicLong();
    private final AtomicLong duplicates = new AtomicLong();
    private final AtomicLong foreign = new AtomicLong();

    Receipts(int streams, int perStream) {
        this.perStream = perStream;
        this.times = new AtomicIntegerArray(Math.multiplyExact(streams, perStream));
    }

    /** Takes note of one arrival; a stream or sequence that was never sent counts as foreign. */
    void record(int stream, long sequence) {
        long index = (long) stream * perStream + sequence;
        if (sequence < 0 || sequence >= perStream || index >= times.length()) {
            foreign.incrementAndGet();
        } else if (times.getAndIncrement((int) index) == 0) {
            distinct.incrementAndGet();
        } else {
            duplicates.incrementAndGet();
        }
    }

    long expected() {
        return times.length();
    }

    long distinct() {
        return distinct.get();
    }

    long duplicates() {
        return duplicates.get();
    }

    long foreign() {
        return foreign.get();
    }
}
