package marketdata;

import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;

/** A {@link DatagramChannel} that does not block, asked again and again. */
final class SpinningChannelEndpoint implements Endpoint {
    private final DatagramChannel channel;

    SpinningChannelEndpoint(Opener opener) throws IOException {
        channel = opener.open();
        channel.configureBlocking(false);
    }

    @Override
    public void send(ByteBuffer buffer, SocketAddress to) throws IOException {
        Channels.send(channel, buffer, to);
    }

    @Override
    public SocketAddress receive(ByteBuffer buffer, long timeoutNanos) throws IOException {
        long start = System.nanoTime();
        do {
            SocketAddress from = Channels.receive(channel, buffer);
            if (from != null) {
                return from;
            }
            Thread.onSpinWait();
        } while (System.nanoTime() - start < timeoutNanos);
        return null;
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
