package marketdata;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Many threads in every VMA_THREAD_MODE, 0 included: every reply exactly once and undamaged. */
@ExtendWith(OnTwoHosts.class)
@Timeout(60)
class ThreadModesTest {
    private static Map<String, String> mode(int mode) {
        return Shim.environment("VMA_SPEC", "latency", "VMA_THREAD_MODE", String.valueOf(mode));
    }

    @ParameterizedTest(name = "VMA_THREAD_MODE={0}, own sockets through {1}")
    @CsvSource({"0,channel", "1,selector", "2,socket", "3,channel", "3,selector"})
    void javaThreadsWithOwnAndSharedSockets(int mode, String api, Hosts hosts) throws Exception {
        int threads = 4;
        int count = 250;
        try (Program pong = Programs.c(hosts.b(), Programs.NATIVE, "pong", "--bind", hosts.b().at(7001)).awaitReady();
                Program program = Programs.java(hosts.a(), mode(mode), Jdk.newest(), "threads", "--peer",
                        hosts.b().at(7001), "--threads", String.valueOf(threads), "--count", String.valueOf(count),
                        "--api", api, "--timeout", "20", "--linger", "20")) {
            long expected = 2L * threads * count;
            program.awaitResult().assertComplete(expected);
            Statistics.assertReceived(program, expected);
            Statistics.assertSent(program, expected);
            program.end();
            pong.finish();
        }
    }

    @ParameterizedTest(name = "VMA_THREAD_MODE={0}")
    @ValueSource(ints = {0, 1, 2, 3})
    void eightReadersAndEightWritersOnOneDescriptor(int mode, Hosts hosts) throws Exception {
        int count = 500;
        try (Program pong = Programs.c(hosts.b(), Programs.NATIVE, "pong", "--bind", hosts.b().at(7001)).awaitReady();
                Program program = Programs.c(hosts.a(), mode(mode), "threads", "--peer", hosts.b().at(7001),
                        "--readers", "8", "--writers", "8", "--count", String.valueOf(count), "--timeout", "20",
                        "--linger", "20")) {
            Result result = program.awaitResult();
            result.assertComplete(8L * count);
            assertTrue(result.get("readers") > 1, result.line());
            Statistics.assertReceived(program, 8L * count);
            Statistics.assertSent(program, 8L * count);
            program.end();
            pong.finish();
        }
    }

    @ParameterizedTest(name = "{0}")
    @ValueSource(strings = {"recvmsg", "recvmmsg", "poll", "select", "epoll", "epoll-et"})
    void readersThroughEveryWait(String api, Hosts hosts) throws Exception {
        int count = 250;
        try (Program pong = Programs.c(hosts.b(), Programs.NATIVE, "pong", "--bind", hosts.b().at(7001)).awaitReady();
                Program program = Programs.fortified(hosts.a(), mode(3), "threads", "--peer", hosts.b().at(7001),
                        "--readers", "4", "--writers", "4", "--count", String.valueOf(count), "--api", api,
                        "--timeout", "20", "--linger", "20")) {
            program.awaitResult().assertComplete(4L * count);
            Statistics.assertReceived(program, 4L * count);
            program.end();
            pong.finish();
        }
    }
}
