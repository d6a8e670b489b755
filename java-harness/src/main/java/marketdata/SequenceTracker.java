package marketdata;

import java.util.BitSet;

/** Follows the sequence numbers of one stream: what arrived, what is missing, what came twice or out of order. */
final class SequenceTracker {
    /** What one more sequence number turned out to be. */
    enum Arrival { NEXT, REORDERED, DUPLICATE }

    private final BitSet seen = new BitSet();
    private long distinct;
    private long duplicates;
    private long reordered;
    private long first = Long.MAX_VALUE;
    private long highest = -1;

    /** Takes note of one datagram. */
    Arrival record(long sequence) {
        int index = Math.toIntExact(sequence);
        if (seen.get(index)) {
            duplicates++;
            return Arrival.DUPLICATE;
        }
        seen.set(index);
        distinct++;
        first = Math.min(first, sequence);
        if (sequence < highest) {
            reordered++;
            return Arrival.REORDERED;
        }
        highest = sequence;
        return Arrival.NEXT;
    }

    /** Datagrams with a sequence number that was not seen before. */
    long distinct() {
        return distinct;
    }

    /** Datagrams with a sequence number that had been seen before. */
    long duplicates() {
        return duplicates;
    }

    /** Datagrams that arrived after one with a higher sequence number. */
    long reordered() {
        return reordered;
    }

    /** Holes between the first and the highest sequence number seen. */
    long missing() {
        return distinct == 0 ? 0 : highest - first + 1 - distinct;
    }
}
