package marketdata;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

/** Subscribers under the shim and a plain one, same host, same group: each gets every datagram once. */
@ExtendWith(OnTwoHosts.class)
@Timeout(60)
class SameHostTest {
    private static final int COUNT = 2000;
    private static final int MIDWAY_MILLIS = 500;
    private static final int NOTICED_MILLIS = 400;

    private static Map<String, String> shim() {
        // Two spinning processes, a plain one and a publisher on few cores: leave some time to the others.
        return Shim.environment("VMA_THREAD_MODE", "3");
    }

    private static String[] arguments(Object... more) {
        return CommandLine.of("--interface", Host.INTERFACE, "--timeout", 20, "--linger", 20, CommandLine.of(more));
    }

    private static Program publish(Hosts hosts) throws Exception {
        if (Shim.backend().equals("verbs")) {
            // A card takes datagrams from plain programs until these are noticed.
            Thread.sleep(NOTICED_MILLIS);
        }
        return Programs.c(hosts.a(), Programs.NATIVE, "publisher", "--interface", Host.INTERFACE, "--count",
                String.valueOf(COUNT), "--rate", "1000");
    }

    @Test
    void twoAcceleratedAndOnePlain(Hosts hosts) throws Exception {
        String[] arguments = CommandLine.of("subscribe", arguments("--count", COUNT));
        try (Program first = Programs.java(hosts.b(), shim(), arguments).awaitReady();
                Program second = Programs.java(hosts.b(), shim(), arguments).awaitReady();
                Program plain = Programs.java(hosts.b(), Programs.NATIVE, arguments).awaitReady();
                Program publisher = publish(hosts)) {
            for (Program subscriber : List.of(first, second, plain)) {
                subscriber.awaitResult().assertCompleteInOrder(COUNT);
            }
            Statistics.assertReceived(first, COUNT);
            Statistics.assertReceived(second, COUNT);
            for (Program subscriber : List.of(first, second, plain)) {
                subscriber.end();
            }
            publisher.finish();
        }
    }

    /** While datagrams flow one accelerated and one plain subscriber are killed, and one of each starts. */
    @Test
    void killedAndStartedMidway(Hosts hosts) throws Exception {
        String[] whole = CommandLine.of("subscribe", arguments("--count", COUNT));
        try (Program staying = Programs.java(hosts.b(), shim(), whole).awaitReady();
                Program stayingPlain = Programs.java(hosts.b(), Programs.NATIVE, whole).awaitReady();
                Program killed = Programs.java(hosts.b(), shim(), whole).awaitReady();
                Program killedPlain = Programs.java(hosts.b(), Programs.NATIVE, whole).awaitReady();
                Program publisher = publish(hosts)) {
            Thread.sleep(MIDWAY_MILLIS);
            killed.kill();
            killedPlain.kill();
            try (Program late = Programs.c(hosts.b(), shim(), "subscriber", arguments());
                    Program latePlain = Programs.c(hosts.b(), Programs.NATIVE, "subscriber", arguments())) {
                staying.awaitResult().assertCompleteInOrder(COUNT);
                stayingPlain.awaitResult().assertCompleteInOrder(COUNT);
                late.awaitResult().assertClean();
                latePlain.awaitResult().assertClean();
                Statistics.assertReceived(staying, COUNT);
                Statistics.assertReceived(late, late.awaitResult().get("received"));
                for (Program subscriber : List.of(staying, stayingPlain, late, latePlain)) {
                    subscriber.end();
                }
            }
            publisher.finish();
        }
    }
}
