package marketdata;

import java.io.IOException;
import java.net.DatagramSocket;
import java.net.InetSocketAddress;
import java.nio.channels.DatagramChannel;
import java.util.List;

/** Opens the endpoint that {@code --api}, {@code --nonblocking} and {@code --connected} ask for. */
final class UnicastEndpoints {
    private UnicastEndpoints() {
    }

    /** {@code local} null lets the system choose; {@code peer} null leaves the socket unconnected. */
    static Endpoint open(Options options, InetSocketAddress local, InetSocketAddress peer) throws IOException {
        boolean spin = options.flag("nonblocking");
        String api = options.text("api", "channel");
        Opener opener = () -> channel(local, peer);
        return switch (api) {
            case "channel" -> spin ? new SpinningChannelEndpoint(opener) : new BlockingChannelEndpoint(opener);
            case "selector" -> new SelectorEndpoint(List.of(opener), spin);
            case "socket" -> {
                if (spin) {
                    throw new Options.UsageException("--nonblocking needs --api channel or selector");
                }
                yield new SocketEndpoint(socket(local, peer));
            }
            default -> throw new Options.UsageException("--api channel, socket or selector, not " + api);
        };
    }

    private static DatagramChannel channel(InetSocketAddress local, InetSocketAddress peer) throws IOException {
        DatagramChannel channel = DatagramChannel.open();
        channel.bind(local);
        if (peer != null) {
            channel.connect(peer);
        }
        return channel;
    }

    private static DatagramSocket socket(InetSocketAddress local, InetSocketAddress peer) throws IOException {
        DatagramSocket socket = local == null ? new DatagramSocket() : new DatagramSocket(local);
        if (peer != null) {
            socket.connect(peer);
        }
        return socket;
    }
}
