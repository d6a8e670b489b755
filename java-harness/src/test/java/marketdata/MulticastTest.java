package marketdata;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Every way to receive and to send multicast in Java and in C, natively and under the shim. */
@ExtendWith(OnTwoHosts.class)
@Timeout(60)
class MulticastTest {
    private static final int COUNT = 500;
    private static final String TWO_GROUPS = "239.77.0.1,239.77.0.2";

    private static Map<String, String> shim() {
        return Shim.environment("VMA_SPEC", "latency");
    }

    private static String[] subscriberArguments(int count, Object... more) {
        return CommandLine.of("--interface", Host.INTERFACE, "--count", count, "--timeout", 15, "--linger", 20,
                CommandLine.of(more));
    }

    private static String[] publisherArguments(int rate, Object... more) {
        return CommandLine.of("--interface", Host.INTERFACE, "--count", COUNT, "--rate", rate, "--linger", 20,
                CommandLine.of(more));
    }

    @ParameterizedTest(name = "{0} {1}")
    @CsvSource({"channel,''", "channel,--per-group", "socket,''", "blocking-channel,''"})
    void javaSubscriberOfTwoGroups(String api, String option, Hosts hosts) throws Exception {
        subscribeToTwoGroups(Programs.NATIVE, Jdk.any(), api, option, hosts);
        for (Jdk jdk : Jdk.all()) {
            subscribeToTwoGroups(shim(), jdk, api, option, hosts);
        }
    }

    private static void subscribeToTwoGroups(Map<String, String> environment, Jdk jdk, String api, String option,
            Hosts hosts) throws Exception {
        int expected = 2 * COUNT;
        try (Program subscriber = Programs.java(hosts.b(), environment, jdk, CommandLine.of("subscribe",
                subscriberArguments(expected, "--group", TWO_GROUPS, "--api", api, option))).awaitReady();
                Program publisher = Programs.c(hosts.a(), Programs.NATIVE, "publisher",
                        publisherArguments(1000, "--group", TWO_GROUPS))) {
            subscriber.awaitResult().assertCompleteInOrder(expected);
            if (!environment.isEmpty()) {
                Statistics.assertReceived(subscriber, expected);
            }
            subscriber.end();
            publisher.finish();
        }
    }

    @ParameterizedTest(name = "publish --api {0} {1}")
    @CsvSource({"channel,''", "channel,--connected", "socket,''"})
    void javaPublisher(String api, String option, Hosts hosts) throws Exception {
        for (Map<String, String> environment : List.of(Programs.NATIVE, shim())) {
            String[] arguments = CommandLine.of("publish", publisherArguments(2000, "--api", api, option));
            try (Program subscriber = Programs.c(hosts.b(), Programs.NATIVE, "subscriber",
                    subscriberArguments(COUNT)).awaitReady();
                    Program publisher = Programs.java(hosts.a(), environment, arguments)) {
                subscriber.awaitResult().assertCompleteInOrder(COUNT);
                publisher.awaitResult();
                if (!environment.isEmpty()) {
                    Statistics.assertSent(publisher, COUNT);
                }
                publisher.end();
                subscriber.end();
            }
        }
    }

    @ParameterizedTest(name = "{0} and {1}")
    @CsvSource({"recvfrom,sendto", "recvmsg,sendmsg", "recvmmsg,sendmmsg", "read,send", "recv,write", "poll,sendto",
            "select,sendmsg", "epoll,sendmmsg", "epoll-et,send", "epoll-oneshot,write"})
    void everyCallInC(String receive, String send, Hosts hosts) throws Exception {
        String[] subscriberArguments = subscriberArguments(COUNT, "--api", receive);
        String[] publisherArguments = publisherArguments(2000, "--api", send, "--batch", 4);
        for (Map<String, String> environment : List.of(Programs.NATIVE, shim())) {
            try (Program subscriber = Programs.fortified(hosts.b(), environment, "subscriber", subscriberArguments)
                    .awaitReady();
                    Program publisher = Programs.c(hosts.a(), environment, "publisher", publisherArguments)) {
                subscriber.awaitResult().assertCompleteInOrder(COUNT);
                publisher.awaitResult();
                if (!environment.isEmpty()) {
                    Statistics.assertReceived(subscriber, COUNT);
                    Statistics.assertSent(publisher, COUNT);
                }
                publisher.end();
                subscriber.end();
            }
        }
    }

    @ParameterizedTest(name = "{0}")
    @CsvSource({"poll", "select", "epoll", "epoll-et", "epoll-oneshot"})
    void severalSocketsInOneWait(String receive, Hosts hosts) throws Exception {
        int expected = 2 * COUNT;
        try (Program subscriber = Programs.c(hosts.b(), shim(), "subscriber",
                subscriberArguments(expected, "--group", TWO_GROUPS, "--api", receive)).awaitReady();
                Program publisher = Programs.c(hosts.a(), Programs.NATIVE, "publisher",
                        publisherArguments(1000, "--group", TWO_GROUPS))) {
            subscriber.awaitResult().assertCompleteInOrder(expected);
            Statistics.assertReceived(subscriber, expected);
            subscriber.end();
            publisher.finish();
        }
    }

    /** The same group from a second, unwanted source must not come through. */
    @ParameterizedTest(name = "connected={0}")
    @CsvSource({"false", "true"})
    void onlyTheWantedSource(boolean connected, Hosts hosts) throws Exception {
        String[] arguments = connected ? subscriberArguments(COUNT, "--connect", hosts.a().at(7100))
                : subscriberArguments(COUNT, "--source", hosts.a().address());
        try (Program subscriber = Programs.c(hosts.b(), shim(), "subscriber", arguments).awaitReady();
                Program unwanted = Programs.c(hosts.b(), Programs.NATIVE, "publisher",
                        publisherArguments(2000, "--stream", "9"));
                Program wanted = Programs.c(hosts.a(), Programs.NATIVE, "publisher",
                        publisherArguments(2000, "--source-port", "7100"))) {
            subscriber.awaitResult().assertCompleteInOrder(COUNT);
            Statistics.assertReceived(subscriber, COUNT);
            subscriber.end();
            unwanted.finish();
            wanted.finish();
        }
    }
}
