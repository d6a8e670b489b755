package marketdata;

import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;

/** The two ways to use a channel: with addresses, or connected. */
final class Channels {
    private Channels() {
    }

    /** Sends through {@code write} when connected, else through {@code send}. */
    static void send(DatagramChannel channel, ByteBuffer buffer, SocketAddress to) throws IOException {
        if (channel.isConnected()) {
            channel.write(buffer);
        } else {
            channel.send(buffer, to);
        }
    }

    /** Receives through {@code read} when connected; null when the channel does not block and nothing is there. */
    static SocketAddress receive(DatagramChannel channel, ByteBuffer buffer) throws IOException {
        buffer.clear();
        SocketAddress from;
        if (channel.isConnected()) {
            from = channel.read(buffer) > 0 ? channel.getRemoteAddress() : null;
        } else {
            from = channel.receive(buffer);
        }
        buffer.flip();
        return from;
    }
}
