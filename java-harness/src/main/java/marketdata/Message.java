package marketdata;

import java.nio.ByteBuffer;

/**
 * The datagram that all programs exchange, big endian. The C programs beside this project write the same.
 *
 * <pre>
 *  0  u32  magic "MDF1"
 *  4  u16  kind
 *  6  u16  stream: sequences are counted per stream
 *  8  u64  sequence, from 0
 * 16  i64  time of sending, nanoseconds of the monotonic clock
 * 24  u32  length of the whole datagram in bytes
 * 28  u32  FNV-1a over everything but this field
 * 32  ...  payload, a pattern that depends on stream, sequence and position
 * </pre>
 */
final class Message {
    /** Bytes before the payload, and the smallest datagram. */
    static final int HEADER = 32;
    /** The largest UDP payload over IPv4, in bytes. */
    static final int MAXIMUM = 65_507;

    /** Market data. */
    static final int DATA = 1;
    /** Asks the receiver to send the same bytes back. */
    static final int PING = 2;
    /** The sender of this stream is done. */
    static final int END = 3;

    private static final int MAGIC = 0x4d444631;
    private static final int KIND = 4;
    private static final int STREAM = 6;
    private static final int SEQUENCE = 8;
    private static final int SENT = 16;
    private static final int LENGTH = 24;
    private static final int CHECKSUM = 28;

    private static final int FNV_BASIS = 0x811c9dc5;
    private static final int FNV_PRIME = 0x01000193;

    private Message() {
    }

    /** Fills {@code buffer} with one message of {@code size} bytes, ready to be sent. */
    static void write(ByteBuffer buffer, int size, int kind, int stream, long sequence, long sentNanos) {
        buffer.clear().limit(size);
        buffer.putInt(0, MAGIC);
        buffer.putShort(KIND, (short) kind);
        buffer.putShort(STREAM, (short) stream);
        buffer.putLong(SEQUENCE, sequence);
        buffer.putLong(SENT, sentNanos);
        buffer.putInt(LENGTH, size);
        for (int i = HEADER; i < size; i++) {
            buffer.put(i, (byte) (sequence + 31L * stream + i));
        }
        buffer.putInt(CHECKSUM, checksum(buffer, size));
    }

    /** Whether the bytes between 0 and the limit are one undamaged, whole message. */
    static boolean valid(ByteBuffer buffer) {
        int size = buffer.limit();
        return size >= HEADER && buffer.getInt(0) == MAGIC && buffer.getInt(LENGTH) == size
                && buffer.getInt(CHECKSUM) == checksum(buffer, size);
    }

    static int kind(ByteBuffer buffer) {
        return Short.toUnsignedInt(buffer.getShort(KIND));
    }

    static int stream(ByteBuffer buffer) {
        return Short.toUnsignedInt(buffer.getShort(STREAM));
    }

    static long sequence(ByteBuffer buffer) {
        return buffer.getLong(SEQUENCE);
    }

    static long sentNanos(ByteBuffer buffer) {
        return buffer.getLong(SENT);
    }

    private static int checksum(ByteBuffer buffer, int size) {
        int hash = FNV_BASIS;
        for (int i = 0; i < size; i++) {
            if (i < CHECKSUM || i >= HEADER) {
                hash = (hash ^ (buffer.get(i) & 0xff)) * FNV_PRIME;
            }
        }
        return hash;
    }
}
