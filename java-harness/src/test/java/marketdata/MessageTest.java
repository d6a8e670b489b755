package marketdata;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

class MessageTest {
    private final ByteBuffer buffer = ByteBuffer.allocate(Message.MAXIMUM);

    @Test
    void fieldsComeBack() {
        Message.write(buffer, 100, Message.PING, 65_535, 1L << 40, 123_456_789);
        assertEquals(100, buffer.remaining());
        assertTrue(Message.valid(buffer));
        assertEquals(Message.PING, Message.kind(buffer));
        assertEquals(65_535, Message.stream(buffer));
        assertEquals(1L << 40, Message.sequence(buffer));
        assertEquals(123_456_789, Message.sentNanos(buffer));
    }

    @Test
    void theBytesAreThese() {
        Message.write(buffer, 36, Message.DATA, 2, 3, 4);
        byte[] bytes = new byte[36];
        buffer.get(0, bytes);
        assertEquals("4d44463100010002000000000000000300000000000000040000002461b91c0561626364",
                HexFormat.of().formatHex(bytes));
    }

    @Test
    void anyFlippedBitIsNoticed() {
        for (int bit = 0; bit < 64 * 8; bit++) {
            Message.write(buffer, 64, Message.DATA, 1, 2, 3);
            buffer.put(bit / 8, (byte) (buffer.get(bit / 8) ^ 1 << bit % 8));
            assertFalse(Message.valid(buffer), "bit " + bit);
        }
    }

    @Test
    void truncationIsNoticed() {
        for (int size = 0; size < 64; size++) {
            Message.write(buffer, 64, Message.DATA, 1, 2, 3);
            buffer.limit(size);
            assertFalse(Message.valid(buffer), "size " + size);
        }
    }
}
