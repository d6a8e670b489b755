package marketdata;

import java.util.concurrent.atomic.AtomicLong;

/** Runs an action when a deadline passes that nobody withdrew. Coarse: up to 20 ms late. */
final class Watchdog implements AutoCloseable {
    private static final long NONE = Long.MAX_VALUE;
    private static final long FIRING = Long.MIN_VALUE;
    private static final long TICK_MILLIS = 20;

    private final AtomicLong deadline = new AtomicLong(NONE);
    private final Runnable action;
    private final Thread thread;

    Watchdog(Runnable action) {
        this.action = action;
        thread = new Thread(this::watch, "watchdog");
        thread.setDaemon(true);
        thread.start();
    }

    /** The action runs in {@code nanos} nanoseconds. */
    void arm(long nanos) {
        deadline.set(System.nanoTime() + nanos);
    }

    /** Withdraws the deadline; when the action has begun, waits until it is over. */
    void disarm() {
        long seen = deadline.get();
        if (seen != FIRING && deadline.compareAndSet(seen, NONE)) {
            return;
        }
        while (deadline.get() == FIRING) {
            Thread.onSpinWait();
        }
    }

    @Override
    public void close() {
        thread.interrupt();
    }

    private void watch() {
        try {
            while (true) {
                Thread.sleep(TICK_MILLIS);
                long seen = deadline.get();
                if (seen != NONE && System.nanoTime() - seen > 0 && deadline.compareAndSet(seen, FIRING)) {
                    action.run();
                    deadline.set(NONE);
                }
            }
        } catch (InterruptedException closed) {
            return;
        }
    }
}
