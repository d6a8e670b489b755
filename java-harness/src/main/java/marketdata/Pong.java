package marketdata;

import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.util.Set;

/** Sends every message back to where it came from until it is told the end or {@code --timeout} seconds are over. */
final class Pong {
    static final Set<String> OPTIONS = Set.of("bind", "timeout", "api", "nonblocking", "linger");

    private final Options options;

    Pong(Options options) {
        this.options = options;
    }

    void run() throws IOException, InterruptedException {
        ByteBuffer buffer = ByteBuffer.allocate(Message.MAXIMUM);
        long end = System.nanoTime() + options.seconds("timeout", 30);
        long echoed = 0;
        try (Endpoint endpoint = UnicastEndpoints.open(options, options.endpoint("bind", "7001"), null)) {
            System.out.println("READY");
            for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
                SocketAddress from = endpoint.receive(buffer, left);
                if (from == null || isEnd(buffer)) {
                    break;
                }
                endpoint.send(buffer, from);
                echoed++;
            }
            System.out.println("RESULT received=" + echoed + " sent=" + echoed);
            Linger.await(options);
        }
    }

    /** Damaged messages go back too: it is the sender who checks. */
    private static boolean isEnd(ByteBuffer buffer) {
        return buffer.limit() >= Message.HEADER && Message.kind(buffer) == Message.END;
    }
}
