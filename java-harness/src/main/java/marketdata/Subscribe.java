package marketdata;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.MulticastSocket;
import java.net.NetworkInterface;
import java.net.SocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Joins one or more multicast groups and checks what arrives. Ends {@value #SETTLE_MILLIS} ms after {@code --count}
 * different messages or the publisher's end message, or after {@code --timeout} seconds.
 */
final class Subscribe {
    static final Set<String> OPTIONS = Set.of("group", "port", "interface", "count", "timeout", "api", "source",
            "per-group", "receive-buffer", "linger");

    /** How long it goes on listening for stragglers and second copies. */
    private static final int SETTLE_MILLIS = 200;
    private static final long TICK_NANOS = 50_000_000;

    /** Enough for the pauses of a starting JVM; the system may grant less. */
    private static final int RECEIVE_BUFFER_BYTES = 4 << 20;
    private static final int WARM_UP_ROUNDS = 1000;

    private final Options options;
    private final List<InetAddress> groups;
    private final int port;
    private final boolean blocking;
    private final long expected;
    private final Map<Integer, SequenceTracker> streams = new HashMap<>();
    private final Set<Integer> ended = new HashSet<>();
    private final Histogram oneWay = new Histogram();
    private long distinct;
    private long corrupt;

    Subscribe(Options options) {
        this.options = options;
        groups = options.addresses("group", "239.77.0.1");
        port = options.number("port", 7000);
        expected = options.number("count", Integer.MAX_VALUE);
        blocking = options.text("api", "channel").equals("blocking-channel");
    }

    void run() throws IOException, InterruptedException {
        ByteBuffer buffer = ByteBuffer.allocate(Message.MAXIMUM);
        long end = System.nanoTime() + options.seconds("timeout", 30);
        try (Endpoint endpoint = open()) {
            warmUp(buffer);
            System.out.println("READY");
            boolean settling = false;
            for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
                // A blocking channel is closed by a timeout, so there only the end message ends the wait.
                SocketAddress from = endpoint.receive(buffer, blocking ? left : Math.min(left, TICK_NANOS));
                if (from != null) {
                    take(buffer, System.nanoTime());
                }
                if (blocking && allEnded()) {
                    break;
                }
                if (!settling && !blocking && (distinct >= expected || allEnded())) {
                    settling = true;
                    end = Math.min(end, System.nanoTime() + SETTLE_MILLIS * 1_000_000L);
                }
            }
            System.out.println(result());
            Linger.await(options);
        }
    }

    /** Loads and compiles the checking code before the first message instead of during it. */
    private static void warmUp(ByteBuffer buffer) {
        SequenceTracker tracker = new SequenceTracker();
        Histogram histogram = new Histogram();
        for (int round = 0; round < WARM_UP_ROUNDS; round++) {
            Message.write(buffer, Message.HEADER, Message.DATA, 0, round, System.nanoTime());
            if (Message.valid(buffer)) {
                tracker.record(Message.sequence(buffer));
                histogram.record(System.nanoTime() - Message.sentNanos(buffer));
            }
        }
    }

    private void take(ByteBuffer buffer, long now) {
        if (!Message.valid(buffer)) {
            corrupt++;
            return;
        }
        int stream = Message.stream(buffer);
        if (Message.kind(buffer) == Message.END) {
            ended.add(stream);
            return;
        }
        SequenceTracker tracker = streams.computeIfAbsent(stream, s -> new SequenceTracker());
        if (tracker.record(Message.sequence(buffer)) != SequenceTracker.Arrival.DUPLICATE) {
            distinct++;
            oneWay.record(now - Message.sentNanos(buffer));
        }
    }

    private boolean allEnded() {
        return !ended.isEmpty() && ended.containsAll(streams.keySet());
    }

    /** Times are one way, so they mean something only where both ends read the same clock: on one machine. */
    private String result() {
        long duplicates = 0;
        long reordered = 0;
        long missing = 0;
        for (SequenceTracker tracker : streams.values()) {
            duplicates += tracker.duplicates();
            reordered += tracker.reordered();
            missing += tracker.missing();
        }
        long lost = options.has("count") ? Math.max(missing, expected - distinct) : missing;
        return "RESULT received=" + distinct + " lost=" + lost + " duplicates=" + duplicates + " reordered="
                + reordered + " corrupt=" + corrupt + " p50=" + oneWay.percentile(50) + " p99="
                + oneWay.percentile(99) + " p999=" + oneWay.percentile(99.9) + " max=" + oneWay.maximum();
    }

    private Endpoint open() throws IOException {
        String api = options.text("api", "channel");
        return switch (api) {
            case "channel" -> new SelectorEndpoint(openers(), false);
            case "blocking-channel" -> new BlockingChannelEndpoint(() -> channel(wildcard(), groups));
            case "socket" -> new SocketEndpoint(socket());
            default -> throw new Options.UsageException("--api channel, socket or blocking-channel, not " + api);
        };
    }

    private List<Opener> openers() {
        if (!options.flag("per-group")) {
            return List.of(() -> channel(wildcard(), groups));
        }
        // Bound to its group, for a wildcard socket gets every group that the host has joined.
        List<Opener> openers = new ArrayList<>();
        for (InetAddress group : groups) {
            openers.add(() -> channel(new InetSocketAddress(group, port), List.of(group)));
        }
        return openers;
    }

    private InetSocketAddress wildcard() {
        return new InetSocketAddress(port);
    }

    private DatagramChannel channel(InetSocketAddress local, List<InetAddress> joined) throws IOException {
        NetworkInterface on = options.networkInterface("interface");
        DatagramChannel channel = DatagramChannel.open();
        channel.setOption(StandardSocketOptions.SO_REUSEADDR, true);
        channel.setOption(StandardSocketOptions.SO_RCVBUF, receiveBuffer());
        channel.bind(local);
        for (InetAddress group : joined) {
            if (options.has("source")) {
                channel.join(group, on, options.addresses("source", "").get(0));
            } else {
                channel.join(group, on);
            }
        }
        return channel;
    }

    private MulticastSocket socket() throws IOException {
        if (options.has("source")) {
            throw new Options.UsageException("--source needs a channel");
        }
        MulticastSocket socket = new MulticastSocket(port);
        socket.setReceiveBufferSize(receiveBuffer());
        for (InetAddress group : groups) {
            socket.joinGroup(new InetSocketAddress(group, port), options.networkInterface("interface"));
        }
        return socket;
    }

    private int receiveBuffer() {
        return options.number("receive-buffer", RECEIVE_BUFFER_BYTES);
    }
}
