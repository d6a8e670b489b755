package marketdata;

import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Many threads against one {@code pong}. Each thread sends and receives on a socket of its own and on one socket that
 * all share, where any thread may get any thread's reply. Every reply must arrive exactly once and undamaged.
 */
final class Threads {
    static final Set<String> OPTIONS = Set.of("peer", "threads", "count", "size", "timeout", "api", "linger");

    private static final int END_COPIES = 3;
    private static final long SHARED_WAIT_NANOS = 10_000_000;
    private static final long OWN_WAIT_NANOS = 1_000_000_000;
    private static final long IDLE_NANOS = 1_000_000;

    private final Options options;
    private final InetSocketAddress peer;
    private final int threads;
    private final int count;
    private final int size;
    private final long end;
    private final Receipts own;
    private final Receipts shared;
    private final AtomicLong corrupt = new AtomicLong();
    /** Replies that the shared socket still owes. */
    private final AtomicLong owed = new AtomicLong();

    Threads(Options options) {
        this.options = options;
        peer = options.endpoint("peer", null);
        threads = options.number("threads", 4);
        count = options.number("count", 1000);
        size = options.number("size", 64);
        end = System.nanoTime() + options.seconds("timeout", 30);
        own = new Receipts(threads, count);
        shared = new Receipts(threads, count);
    }

    void run() throws IOException, InterruptedException, ExecutionException {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Endpoint> endpoints = new ArrayList<>();
        try (DatagramSocket common = new DatagramSocket()) {
            List<Callable<Void>> jobs = new ArrayList<>();
            for (int t = 0; t < threads; t++) {
                int stream = t;
                Endpoint mine = UnicastEndpoints.open(options, null, null);
                endpoints.add(mine);
                jobs.add(() -> converse(stream, mine, new SocketEndpoint(common)));
            }
            System.out.println("READY");
            for (Future<Void> job : pool.invokeAll(jobs)) {
                job.get();
            }
            sendEnd(new SocketEndpoint(common));
            System.out.println(result());
            Linger.await(options);
        } finally {
            pool.shutdownNow();
            for (Endpoint endpoint : endpoints) {
                endpoint.close();
            }
        }
    }

    private Void converse(int stream, Endpoint mine, Endpoint common) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(Message.MAXIMUM);
        for (int sequence = 0; sequence < count && System.nanoTime() < end; sequence++) {
            Message.write(buffer, size, Message.PING, threads + stream, sequence, System.nanoTime());
            owed.incrementAndGet();
            common.send(buffer, peer);
            Message.write(buffer, size, Message.PING, stream, sequence, System.nanoTime());
            mine.send(buffer, peer);
            takeOwn(stream, sequence, mine, buffer);
            takeShared(common, buffer);
        }
        while (shared.distinct() < shared.expected() && System.nanoTime() < end) {
            if (!takeShared(common, buffer)) {
                LockSupport.parkNanos(IDLE_NANOS);
            }
        }
        return null;
    }

    /** Waits for the reply to the message just sent; what else arrives is recorded on the way. */
    private void takeOwn(int stream, int sequence, Endpoint mine, ByteBuffer buffer) throws IOException {
        long giveUp = System.nanoTime() + OWN_WAIT_NANOS;
        for (long left = OWN_WAIT_NANOS; left > 0; left = giveUp - System.nanoTime()) {
            boolean timedOut = !take(mine, own, stream, 1, buffer, left);
            if (timedOut || Message.sequence(buffer) == sequence) {
                return;
            }
        }
    }

    /**
     * Takes a reply from the shared socket if it owes one. A receive holds the socket's lock for its whole wait, and the
     * lock is not fair: a thread that waits for nothing can keep the others from the messages they have yet to send.
     */
    private boolean takeShared(Endpoint common, ByteBuffer buffer) throws IOException {
        if (owed.get() <= 0 || !take(common, shared, threads, threads, buffer, SHARED_WAIT_NANOS)) {
            return false;
        }
        owed.decrementAndGet();
        return true;
    }

    /** Receives one reply that must belong to one of {@code streams} streams; false when none came in time. */
    private boolean take(Endpoint endpoint, Receipts receipts, int firstStream, int streams, ByteBuffer buffer,
            long waitNanos) throws IOException {
        SocketAddress from = endpoint.receive(buffer, waitNanos);
        if (from == null) {
            return false;
        }
        if (!Message.valid(buffer) || buffer.limit() != size || Message.stream(buffer) < firstStream
                || Message.stream(buffer) >= firstStream + streams) {
            corrupt.incrementAndGet();
        } else {
            receipts.record(Message.stream(buffer) % threads, Message.sequence(buffer));
        }
        return true;
    }

    private void sendEnd(Endpoint endpoint) throws IOException {
        ByteBuffer buffer = ByteBuffer.allocate(size);
        for (int copy = 0; copy < END_COPIES; copy++) {
            Message.write(buffer, size, Message.END, 0, count, System.nanoTime());
            endpoint.send(buffer, peer);
        }
    }

    private String result() {
        long received = own.distinct() + shared.distinct();
        long expected = own.expected() + shared.expected();
        return "RESULT sent=" + expected + " received=" + received + " lost=" + (expected - received)
                + " duplicates=" + (own.duplicates() + shared.duplicates()) + " corrupt="
                + (corrupt.get() + own.foreign() + shared.foreign());
    }
}
