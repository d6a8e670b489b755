package marketdata;

import java.io.IOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.SocketAddress;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.util.concurrent.TimeUnit;

/** A {@link DatagramSocket}, or the MulticastSocket that is one. Buffers must have a backing array. */
final class SocketEndpoint implements Endpoint {
    private final DatagramSocket socket;
    private int timeoutMillis = -1;

    SocketEndpoint(DatagramSocket socket) {
        this.socket = socket;
    }

    @Override
    public void send(ByteBuffer buffer, SocketAddress to) throws IOException {
        DatagramPacket packet = new DatagramPacket(buffer.array(), buffer.position(), buffer.remaining());
        packet.setSocketAddress(socket.isConnected() ? socket.getRemoteSocketAddress() : to);
        socket.send(packet);
    }

    @Override
    public SocketAddress receive(ByteBuffer buffer, long timeoutNanos) throws IOException {
        // 0 would mean for ever.
        int millis = (int) Math.max(1, TimeUnit.NANOSECONDS.toMillis(timeoutNanos));
        if (millis != timeoutMillis) {
            socket.setSoTimeout(millis);
            timeoutMillis = millis;
        }
        DatagramPacket packet = new DatagramPacket(buffer.array(), buffer.capacity());
        try {
            socket.receive(packet);
        } catch (SocketTimeoutException late) {
            return null;
        }
        buffer.clear().limit(packet.getLength());
        return packet.getSocketAddress();
    }

    @Override
    public void close() {
        socket.close();
    }
}
