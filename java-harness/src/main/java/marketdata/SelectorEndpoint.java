package marketdata;

import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** One or more channels behind a {@link Selector}; sends go through the first. */
final class SelectorEndpoint implements Endpoint {
    private final Selector selector = Selector.open();
    private final List<DatagramChannel> channels = new ArrayList<>();
    private final boolean spin;

    /** {@code spin}: {@code selectNow} again and again instead of a wait. */
    SelectorEndpoint(List<Opener> openers, boolean spin) throws IOException {
        this.spin = spin;
        for (Opener opener : openers) {
            DatagramChannel channel = opener.open();
            channel.configureBlocking(false);
            channel.register(selector, SelectionKey.OP_READ);
            channels.add(channel);
        }
    }

    @Override
    public void send(ByteBuffer buffer, SocketAddress to) throws IOException {
        Channels.send(channels.get(0), buffer, to);
    }

    @Override
    public SocketAddress receive(ByteBuffer buffer, long timeoutNanos) throws IOException {
        long start = System.nanoTime();
        while (true) {
            // A key stays selected until its channel is empty, so a burst costs one wait.
            for (Iterator<SelectionKey> keys = selector.selectedKeys().iterator(); keys.hasNext();) {
                SocketAddress from = Channels.receive((DatagramChannel) keys.next().channel(), buffer);
                if (from != null) {
                    return from;
                }
                keys.remove();
            }
            long left = timeoutNanos - (System.nanoTime() - start);
            if (left <= 0) {
                return null;
            }
            if (spin) {
                selector.selectNow();
            } else {
                selector.select(Math.max(1, TimeUnit.NANOSECONDS.toMillis(left)));
            }
        }
    }

    @Override
    public void close() throws IOException {
        for (DatagramChannel channel : channels) {
            channel.close();
        }
        selector.close();
    }
}
