package marketdata;

import java.util.Map;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Two JVMs on the other wire of the software card: memory that both share, no kernel between them. */
@ExtendWith(OnTwoHosts.class)
@Timeout(60)
@EnabledIfEnvironmentVariable(named = "SHIM_TEST_BACKEND", matches = "verbs",
        disabledReason = "only the software card has this wire")
class SharedMemoryTest {
    private static final int PORT = 7001;
    private static final int WARM_UP = 50;
    private static final int COUNT = 500;

    private static Map<String, String> environment() {
        return Shim.environment("VMA_SPEC", "latency", "SOFTVERBS_WIRE", "switch", "SOFTVERBS_SWITCH",
                "java-" + ProcessHandle.current().pid());
    }

    @ParameterizedTest(name = "{0}")
    @ValueSource(strings = {"channel", "selector", "socket"})
    void pingPong(String api, Hosts hosts) throws Exception {
        String[] pongArguments = CommandLine.of("pong", "--bind", hosts.b().at(PORT), "--linger", 20, "--api", api);
        String[] pingArguments = CommandLine.of("ping", "--peer", hosts.b().at(PORT), "--warm-up", WARM_UP, "--count",
                COUNT, "--linger", 20, "--api", api);
        try (Program pong = Programs.java(hosts.b(), environment(), pongArguments).awaitReady();
                Program ping = Programs.java(hosts.a(), environment(), pingArguments)) {
            ping.awaitResult().assertCompleteInOrder(WARM_UP + COUNT);
            pong.awaitResult();
            for (Program program : new Program[] {ping, pong}) {
                Statistics.assertReceived(program, COUNT);
                Statistics.assertSent(program, COUNT);
                program.end();
            }
        }
    }

    @ParameterizedTest(name = "{0}")
    @ValueSource(strings = {"channel", "blocking-channel", "socket"})
    void multicast(String api, Hosts hosts) throws Exception {
        String[] subscriberArguments = CommandLine.of("subscribe", "--interface", Host.INTERFACE, "--count", COUNT,
                "--timeout", 15, "--linger", 20, "--api", api);
        String[] publisherArguments = CommandLine.of("publish", "--interface", Host.INTERFACE, "--count", COUNT,
                "--rate", 1000, "--linger", 20);
        try (Program subscriber = Programs.java(hosts.b(), environment(), subscriberArguments).awaitReady();
                Program publisher = Programs.java(hosts.a(), environment(), publisherArguments)) {
            subscriber.awaitResult().assertCompleteInOrder(COUNT);
            publisher.awaitResult();
            Statistics.assertReceived(subscriber, COUNT);
            Statistics.assertSent(publisher, COUNT);
            subscriber.end();
            publisher.end();
        }
    }
}
