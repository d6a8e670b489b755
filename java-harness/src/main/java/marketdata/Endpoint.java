package marketdata;

import java.io.Closeable;
import java.io.IOException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;

/** UDP sockets behind one of Java's programming interfaces. Not thread safe, except that two threads may send. */
interface Endpoint extends Closeable {
    /** Sends what remains in the buffer to {@code to}, or to the connected peer. */
    void send(ByteBuffer buffer, SocketAddress to) throws IOException;

    /**
     * Waits for one datagram, at most {@code timeoutNanos}. The buffer then holds it between 0 and the limit.
     *
     * @return who sent it, or null when none came in time
     */
    SocketAddress receive(ByteBuffer buffer, long timeoutNanos) throws IOException;
}
