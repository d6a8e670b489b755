package marketdata;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.util.Set;

/** Sends one message at a time and waits for it to come back; reports half round trips in nanoseconds. */
final class Ping {
    static final Set<String> OPTIONS = Set.of("peer", "bind", "count", "warm-up", "size", "reply-timeout", "api",
            "nonblocking", "connected", "linger");

    private static final int END_COPIES = 3;

    private final Options options;
    private final InetSocketAddress peer;
    private final int size;
    private final SequenceTracker replies = new SequenceTracker();
    private final Histogram halfRoundTrips = new Histogram();
    private final ByteBuffer out;
    private final ByteBuffer in = ByteBuffer.allocate(Message.MAXIMUM);
    private long corrupt;

    Ping(Options options) {
        this.options = options;
        peer = options.endpoint("peer", null);
        size = options.number("size", 64);
        if (size < Message.HEADER || size > Message.MAXIMUM) {
            throw new Options.UsageException("--size " + Message.HEADER + " to " + Message.MAXIMUM);
        }
        out = ByteBuffer.allocate(size);
    }

    void run() throws IOException, InterruptedException {
        long warmUp = options.number("warm-up", 1000);
        long total = warmUp + options.number("count", 10_000);
        long timeoutNanos = options.number("reply-timeout", 500) * 1_000_000L;
        InetSocketAddress local = options.has("bind") ? options.endpoint("bind", null) : null;
        try (Endpoint endpoint = UnicastEndpoints.open(options, local, options.flag("connected") ? peer : null)) {
            System.out.println("READY");
            for (long sequence = 0; sequence < total; sequence++) {
                long nanos = roundTrip(endpoint, sequence, timeoutNanos);
                if (nanos >= 0 && sequence >= warmUp) {
                    halfRoundTrips.record(nanos / 2);
                }
            }
            for (int copy = 0; copy < END_COPIES; copy++) {
                Message.write(out, size, Message.END, 0, total, System.nanoTime());
                endpoint.send(out, peer);
            }
            System.out.println(result(total));
            Linger.await(options);
        }
    }

    /** Nanoseconds until the reply was there, or -1 when none came. */
    private long roundTrip(Endpoint endpoint, long sequence, long timeoutNanos) throws IOException {
        Message.write(out, size, Message.PING, 0, sequence, System.nanoTime());
        long start = System.nanoTime();
        endpoint.send(out, peer);
        for (long left = timeoutNanos; left > 0; left = timeoutNanos - (System.nanoTime() - start)) {
            SocketAddress from = endpoint.receive(in, left);
            long now = System.nanoTime();
            if (from == null) {
                return -1;
            }
            if (!Message.valid(in) || in.limit() != size) {
                corrupt++;
                continue;
            }
            replies.record(Message.sequence(in));
            if (Message.sequence(in) == sequence) {
                return now - start;
            }
        }
        return -1;
    }

    private String result(long sent) {
        return "RESULT sent=" + sent + " received=" + replies.distinct() + " lost=" + (sent - replies.distinct())
                + " duplicates=" + replies.duplicates() + " reordered=" + replies.reordered() + " corrupt=" + corrupt
                + " p50=" + halfRoundTrips.percentile(50) + " p99=" + halfRoundTrips.percentile(99) + " p999="
                + halfRoundTrips.percentile(99.9) + " max=" + halfRoundTrips.maximum();
    }
}
