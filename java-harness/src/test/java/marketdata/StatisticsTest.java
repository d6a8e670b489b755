package marketdata;

import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

/** The proof of acceleration must fail where there was none. */
class StatisticsTest {
    private static Statistics socket(boolean accelerated, int byEngine, int byKernel) {
        return Statistics.parse("""
                {"pid":1,"sockets":[{"fd":5,"local":"10.77.0.2:7001","accelerated":%s,"reason":null,
                "rx":{"packets":%d,"bytes":1},"rx_os":{"packets":%d,"bytes":1},
                "tx":{"packets":%d,"bytes":1},"tx_os":{"packets":%d,"bytes":1}}],"rings":[]}
                """.formatted(accelerated, byEngine, byKernel, byEngine, byKernel));
    }

    @Test
    void allThroughTheEngine() {
        socket(true, 100, 0).assertShare("rx", 100);
        socket(true, 99, 1).assertShare("tx", 100);
    }

    @Test
    void allThroughTheKernel() {
        assertThrows(AssertionError.class, () -> socket(true, 0, 100).assertShare("rx", 100));
        assertThrows(AssertionError.class, () -> socket(true, 50, 50).assertShare("tx", 100));
    }

    @Test
    void aSocketThatIsNotAccelerated() {
        assertThrows(AssertionError.class, () -> socket(false, 100, 0).assertShare("rx", 100));
    }

    @Test
    void noSocketAtAll() {
        assertThrows(AssertionError.class, () -> Statistics.parse("{\"sockets\":[]}").assertShare("tx", 1));
    }
}
