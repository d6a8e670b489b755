package marketdata;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Frameworks that Java programs use instead of sockets, unmodified: Netty over selectors and over its own native calls
 * (recvmmsg, sendmmsg, epoll_wait), and JGroups with reliable multicast, failure detection and flow control over UDP.
 */
@ExtendWith(OnTwoHosts.class)
@Timeout(60)
class FrameworksTest {
    private static final int PORT = 7300;
    private static final String GROUP = "239.77.3.1";
    private static final int QUESTIONS = 2000;
    private static final int MESSAGES = 1000;

    static Stream<Arguments> netty() {
        return Jdk.all().stream().flatMap(jdk -> Stream.of("nio", "epoll").flatMap(transport -> Stream.of(
                Arguments.of(jdk, transport, true, "latency"), Arguments.of(jdk, transport, false, "none"))));
    }

    static Stream<Arguments> members() {
        return Stream.of(Arguments.of(Jdk.any(), false), Arguments.of(Jdk.newest(), true));
    }

    /** Only one side spins: its rival would take the core from which this one is fed. */
    @ParameterizedTest(name = "{0}, {1}, group={2}, {3}")
    @MethodSource("netty")
    void nettyEcho(Jdk jdk, String transport, boolean group, String spec, Hosts hosts) throws Exception {
        List<String> serve = new ArrayList<>(List.of("serve", transport, hosts.b().address(), String.valueOf(PORT)));
        if (group) {
            serve.add(GROUP);
        }
        List<String> ask = List.of("ask", transport, hosts.a().address(), group ? GROUP : hosts.b().address(),
                String.valueOf(PORT), String.valueOf(QUESTIONS));
        try (Program server = start(hosts.b(), Shim.environment("VMA_SPEC", spec), jdk, NettyNode.class, serve)
                .awaitReady();
                Program asker = start(hosts.a(), Shim.environment(), jdk, NettyNode.class, ask)) {
            asker.awaitLine("answered " + QUESTIONS + " wrong 0");
            for (Program program : List.of(server, asker)) {
                Statistics.assertReceived(program, QUESTIONS);
                Statistics.assertSent(program, QUESTIONS);
                program.end();
            }
        }
    }

    @ParameterizedTest(name = "{0}, both shimmed={1}")
    @MethodSource("members")
    void jgroups(Jdk jdk, boolean both, Hosts hosts) throws Exception {
        Map<String, String> second = both ? Shim.environment() : Programs.NATIVE;
        String count = String.valueOf(MESSAGES);
        try (Program first = start(hosts.a(), Shim.environment(), jdk, JGroupsNode.class,
                List.of("one", hosts.a().address(), count)).awaitReady();
                Program other = start(hosts.b(), second, jdk, JGroupsNode.class,
                        List.of("two", hosts.b().address(), count))) {
            first.awaitLine("received " + 3 * MESSAGES + " wrong 0");
            other.awaitLine("received " + 3 * MESSAGES + " wrong 0");
            for (Program program : both ? List.of(first, other) : List.of(first)) {
                Statistics.assertReceived(program, 2 * MESSAGES);
                // Those to the group loop back to the sender, a member itself: they are the kernel's.
                Statistics.assertSent(program, MESSAGES);
            }
            other.end();
            first.end();
        }
    }

    private static Program start(Host host, Map<String, String> environment, Jdk jdk, Class<?> program,
            List<String> arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(jdk.java(), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC",
                "-XX:ActiveProcessorCount=2", "-Djava.net.preferIPv4Stack=true"));
        if (jdk.feature() > 17) {
            command.addAll(List.of("--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"));
        }
        command.addAll(List.of("-cp", System.getProperty("surefire.test.class.path",
                System.getProperty("java.class.path")), program.getName()));
        command.addAll(arguments);
        return Program.start(host, environment, command);
    }
}
