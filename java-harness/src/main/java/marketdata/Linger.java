package marketdata;

import java.io.IOException;
import java.util.concurrent.TimeUnit;

/** Keeps a finished program and its open sockets alive for somebody who wants to look at them. */
final class Linger {
    private Linger() {
    }

    /** Waits until stdin is closed, at most the seconds of {@code --linger}; without that option returns at once. */
    static void await(Options options) throws InterruptedException {
        long nanos = options.seconds("linger", 0);
        if (nanos <= 0) {
            return;
        }
        Thread reader = new Thread(Linger::readToEnd, "stdin");
        reader.setDaemon(true);
        reader.start();
        reader.join(TimeUnit.NANOSECONDS.toMillis(nanos));
    }

    private static void readToEnd() {
        try {
            while (System.in.read() >= 0) {
                continue;
            }
        } catch (IOException closed) {
            System.err.println("stdin: " + closed.getMessage());
        }
    }
}
