package marketdata;

import java.util.concurrent.locks.LockSupport;

/** Spaces sends evenly; late ones catch up, but a long pause does not become a burst that overruns a receiver. */
final class Pacer {
    /** A sleep this much longer than asked is usual, so the rest is spent yielding. */
    private static final long SLEEP_SLACK_NANOS = 100_000;

    private static final long MOST_BEHIND_NANOS = 5_000_000;

    private final long intervalNanos;
    private long due = System.nanoTime();

    /** {@code perSecond} 0 means: never wait. */
    Pacer(int perSecond) {
        intervalNanos = perSecond == 0 ? 0 : 1_000_000_000L / perSecond;
    }

    /** Returns when the next send is due. */
    void await() {
        if (intervalNanos == 0) {
            return;
        }
        for (long left = due - System.nanoTime(); left > 0; left = due - System.nanoTime()) {
            if (left > SLEEP_SLACK_NANOS) {
                LockSupport.parkNanos(left - SLEEP_SLACK_NANOS);
            } else {
                Thread.yield();
            }
        }
        due = Math.max(due, System.nanoTime() - MOST_BEHIND_NANOS) + intervalNanos;
    }
}
