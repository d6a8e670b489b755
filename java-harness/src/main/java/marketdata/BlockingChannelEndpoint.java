package marketdata;

import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.DatagramChannel;

/**
 * A blocking {@link DatagramChannel}. It knows no timeout, so a watchdog closes it under the blocked thread, and the
 * next use opens it anew.
 */
final class BlockingChannelEndpoint implements Endpoint {
    private final Opener opener;
    private final Watchdog watchdog = new Watchdog(this::closeChannel);
    private volatile DatagramChannel channel;

    BlockingChannelEndpoint(Opener opener) throws IOException {
        this.opener = opener;
        this.channel = opener.open();
    }

    @Override
    public void send(ByteBuffer buffer, SocketAddress to) throws IOException {
        Channels.send(opened(), buffer, to);
    }

    @Override
    public SocketAddress receive(ByteBuffer buffer, long timeoutNanos) throws IOException {
        DatagramChannel open = opened();
        watchdog.arm(timeoutNanos);
        try {
            SocketAddress from = Channels.receive(open, buffer);
            watchdog.disarm();
            return from;
        } catch (AsynchronousCloseException timedOut) {
            watchdog.disarm();
            return null;
        }
    }

    @Override
    public void close() throws IOException {
        watchdog.close();
        channel.close();
    }

    private DatagramChannel opened() throws IOException {
        if (!channel.isOpen()) {
            channel = opener.open();
        }
        return channel;
    }

    private void closeChannel() {
        try {
            channel.close();
        } catch (IOException alreadyUnusable) {
            System.err.println("close: " + alreadyUnusable.getMessage());
        }
    }
}
