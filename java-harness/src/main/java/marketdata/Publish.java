package marketdata;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.MulticastSocket;
import java.net.NetworkInterface;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.util.List;
import java.util.Set;

/** Sends numbered messages to one or more multicast groups; each group is a stream of its own. */
final class Publish {
    static final Set<String> OPTIONS = Set.of("group", "port", "interface", "rate", "count", "size", "ttl", "loop",
            "api", "source-port", "connected", "stream", "linger");

    /** A lost end message must not leave the subscribers waiting. */
    private static final int END_COPIES = 3;
    private static final int END_INTERVAL_MILLIS = 50;

    private final Options options;
    private final List<InetAddress> groups;
    private final int port;
    private final int size;
    private final int firstStream;
    private long sent;
    private long errors;

    Publish(Options options) {
        this.options = options;
        groups = options.addresses("group", "239.77.0.1");
        port = options.number("port", 7000);
        size = options.number("size", 64);
        firstStream = options.number("stream", 0);
        if (size < Message.HEADER || size > Message.MAXIMUM) {
            throw new Options.UsageException("--size " + Message.HEADER + " to " + Message.MAXIMUM);
        }
    }

    void run() throws IOException, InterruptedException {
        int count = options.number("count", 1000);
        Pacer pacer = new Pacer(options.number("rate", 1000));
        ByteBuffer buffer = ByteBuffer.allocate(size);
        try (Endpoint endpoint = open()) {
            for (long sequence = 0; sequence < count; sequence++) {
                pacer.await();
                for (int g = 0; g < groups.size(); g++) {
                    send(endpoint, buffer, Message.DATA, g, sequence);
                }
            }
            long data = sent;
            for (int copy = 0; copy < END_COPIES; copy++) {
                for (int g = 0; g < groups.size(); g++) {
                    send(endpoint, buffer, Message.END, g, count);
                }
                Thread.sleep(END_INTERVAL_MILLIS);
            }
            System.out.println("RESULT sent=" + data + " errors=" + errors);
            Linger.await(options);
        }
    }

    private void send(Endpoint endpoint, ByteBuffer buffer, int kind, int group, long sequence) {
        Message.write(buffer, size, kind, firstStream + group, sequence, System.nanoTime());
        try {
            endpoint.send(buffer, new InetSocketAddress(groups.get(group), port));
            sent++;
        } catch (IOException failed) {
            errors++;
            if (errors == 1) {
                System.err.println("send: " + failed);
            }
        }
    }

    private Endpoint open() throws IOException {
        String api = options.text("api", "channel");
        return switch (api) {
            case "channel" -> new SpinningChannelEndpoint(this::channel);
            case "socket" -> new SocketEndpoint(socket());
            default -> throw new Options.UsageException("--api channel or socket, not " + api);
        };
    }

    private DatagramChannel channel() throws IOException {
        DatagramChannel channel = DatagramChannel.open();
        channel.setOption(StandardSocketOptions.IP_MULTICAST_IF, networkInterface());
        channel.setOption(StandardSocketOptions.IP_MULTICAST_TTL, options.number("ttl", 1));
        if (options.has("loop")) {
            channel.setOption(StandardSocketOptions.IP_MULTICAST_LOOP, options.flag("loop"));
        }
        channel.bind(new InetSocketAddress(options.number("source-port", 0)));
        if (options.flag("connected")) {
            channel.connect(new InetSocketAddress(onlyGroup(), port));
        }
        return channel;
    }

    private MulticastSocket socket() throws IOException {
        MulticastSocket socket = new MulticastSocket(options.number("source-port", 0));
        socket.setNetworkInterface(networkInterface());
        socket.setTimeToLive(options.number("ttl", 1));
        if (options.has("loop")) {
            socket.setOption(StandardSocketOptions.IP_MULTICAST_LOOP, options.flag("loop"));
        }
        if (options.flag("connected")) {
            socket.connect(new InetSocketAddress(onlyGroup(), port));
        }
        return socket;
    }

    private NetworkInterface networkInterface() throws IOException {
        return options.networkInterface("interface");
    }

    private InetAddress onlyGroup() {
        if (groups.size() != 1) {
            throw new Options.UsageException("--connected needs exactly one --group");
        }
        return groups.get(0);
    }
}
