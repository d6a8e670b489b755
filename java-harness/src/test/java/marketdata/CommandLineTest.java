package marketdata;

import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The command line that users paste, on every JDK, with and without preferIPv4Stack. */
@ExtendWith(OnTwoHosts.class)
@Timeout(60)
class CommandLineTest {
    private static final int COUNT = 2000;
    private static final int PINGS = 2000;

    static Stream<Arguments> everyJvm() {
        return Jdk.all().stream().flatMap(jdk -> Stream.of(
                Arguments.of(jdk, List.of("-Djava.net.preferIPv4Stack=true")), Arguments.of(jdk, List.of())));
    }

    private static Map<String, String> pasted() {
        return Shim.environment("VMA_SPEC", "latency", "VMA_MTU", "4096", "VMA_RING_ALLOCATION_LOGIC_TX", "20",
                "VMA_THREAD_MODE", "3");
    }

    @ParameterizedTest(name = "{0} {1}")
    @MethodSource("everyJvm")
    void publisherToSubscriber(Jdk jdk, List<String> jvmOptions, Hosts hosts) throws Exception {
        try (Program subscriber = Programs.java(hosts.b(), pasted(), jdk, jvmOptions, "subscribe", "--interface",
                Host.INTERFACE, "--count", String.valueOf(COUNT), "--timeout", "20", "--linger", "20").awaitReady();
                Program publisher = Programs.java(hosts.a(), pasted(), jdk, jvmOptions, "publish", "--interface",
                        Host.INTERFACE, "--count", String.valueOf(COUNT), "--rate", "2000", "--linger", "20")) {
            subscriber.awaitResult().assertCompleteInOrder(COUNT);
            publisher.awaitResult();
            Statistics.assertReceived(subscriber, COUNT);
            Statistics.assertSent(publisher, COUNT);
            publisher.end();
            subscriber.end();
        }
    }

    @ParameterizedTest(name = "{0} {1}")
    @MethodSource("everyJvm")
    void pingPong(Jdk jdk, List<String> jvmOptions, Hosts hosts) throws Exception {
        try (Program pong = Programs.java(hosts.b(), pasted(), jdk, jvmOptions, "pong", "--bind", hosts.b().at(7001),
                "--timeout", "20", "--linger", "20").awaitReady();
                Program ping = Programs.java(hosts.a(), pasted(), jdk, jvmOptions, "ping", "--peer",
                        hosts.b().at(7001), "--warm-up", "100", "--count", String.valueOf(PINGS), "--linger", "20")) {
            ping.awaitResult().assertCompleteInOrder(PINGS + 100);
            pong.awaitResult();
            Statistics.assertReceived(ping, PINGS);
            Statistics.assertSent(ping, PINGS);
            Statistics.assertReceived(pong, PINGS);
            Statistics.assertSent(pong, PINGS);
            ping.end();
            pong.end();
        }
    }
}
