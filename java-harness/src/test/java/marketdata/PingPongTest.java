package marketdata;

import java.util.Map;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Unicast ping and pong with the shim at either end, at both and at none. */
@ExtendWith(OnTwoHosts.class)
@Timeout(60)
class PingPongTest {
    private static final int PORT = 7001;
    private static final int PING_PORT = 7100;
    private static final int WARM_UP = 50;
    private static final int COUNT = 500;

    private static Map<String, String> environment(boolean shim) {
        return shim ? Shim.environment("VMA_SPEC", "latency") : Programs.NATIVE;
    }

    private static String[] pingArguments(Hosts hosts, Object... more) {
        return CommandLine.of("--peer", hosts.b().at(PORT), "--warm-up", WARM_UP, "--count", COUNT, "--linger", 20,
                CommandLine.of(more));
    }

    private static String[] pongArguments(Hosts hosts, Object... more) {
        return CommandLine.of("--bind", hosts.b().at(PORT), "--linger", 20, CommandLine.of(more));
    }

    private static void check(Program ping, boolean pingShim, Program pong, boolean pongShim) throws Exception {
        ping.awaitResult().assertCompleteInOrder(WARM_UP + COUNT);
        pong.awaitResult();
        if (pingShim) {
            Statistics.assertReceived(ping, COUNT);
            Statistics.assertSent(ping, COUNT);
        }
        if (pongShim) {
            Statistics.assertReceived(pong, COUNT);
            Statistics.assertSent(pong, COUNT);
        }
        ping.end();
        pong.end();
    }

    @ParameterizedTest(name = "ping shim={0}, pong shim={1}, {2}")
    @CsvSource({"false,false,channel", "true,false,channel", "false,true,channel", "true,true,selector",
            "true,true,socket"})
    void java(boolean pingShim, boolean pongShim, String api, Hosts hosts) throws Exception {
        try (Program pong = Programs.java(hosts.b(), environment(pongShim),
                CommandLine.of("pong", pongArguments(hosts, "--api", api))).awaitReady();
                Program ping = Programs.java(hosts.a(), environment(pingShim),
                        CommandLine.of("ping", pingArguments(hosts, "--api", api)))) {
            check(ping, pingShim, pong, pongShim);
        }
    }

    @ParameterizedTest(name = "{0} {1}")
    @CsvSource({"channel,--connected", "channel,--nonblocking", "selector,--nonblocking", "socket,--connected"})
    void javaPingWithOption(String api, String option, Hosts hosts) throws Exception {
        try (Program pong = Programs.c(hosts.b(), Programs.NATIVE, "pong", pongArguments(hosts)).awaitReady();
                Program ping = Programs.java(hosts.a(), environment(true),
                        CommandLine.of("ping", pingArguments(hosts, "--api", api, option)))) {
            check(ping, true, pong, false);
        }
    }

    @ParameterizedTest(name = "ping shim={0}, pong shim={1}, {2}, {3}")
    @CsvSource({"false,false,recvfrom,sendto", "true,false,recvfrom,sendto", "false,true,recvfrom,sendto",
            "true,true,recvmsg,sendmsg", "true,true,recvmmsg,sendmmsg", "true,true,recv,send", "true,true,read,write",
            "true,true,poll,sendto", "true,true,select,sendto", "true,true,epoll,sendto", "true,true,epoll-et,sendto",
            "true,true,epoll-oneshot,sendto"})
    void c(boolean pingShim, boolean pongShim, String receive, String send, Hosts hosts) throws Exception {
        String[] apis = {"--api", receive, "--send-api", send};
        try (Program pong = Programs.fortified(hosts.b(), environment(pongShim), "pong",
                pongArguments(hosts, "--connect", hosts.a().at(PING_PORT), apis)).awaitReady();
                Program ping = Programs.fortified(hosts.a(), environment(pingShim), "ping",
                        pingArguments(hosts, "--bind", hosts.a().at(PING_PORT), apis))) {
            check(ping, pingShim, pong, pongShim);
        }
    }

    /** Datagrams up to what one frame holds, and larger ones, which travel as fragments. */
    @ParameterizedTest(name = "{0} bytes")
    @ValueSource(ints = {32, 1472, 1473, 9000})
    void sizes(int size, Hosts hosts) throws Exception {
        boolean oneFrame = size <= 1472;
        try (Program pong = Programs.c(hosts.b(), environment(true), "pong", pongArguments(hosts)).awaitReady();
                Program ping = Programs.c(hosts.a(), environment(true), "ping",
                        pingArguments(hosts, "--size", size))) {
            check(ping, oneFrame, pong, oneFrame);
        }
    }
}
