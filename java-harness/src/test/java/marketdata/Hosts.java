package marketdata;

import java.io.IOException;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.extension.ExtensionContext.Store.CloseableResource;

/**
 * Two hosts on one machine: network namespaces joined by a veth pair, with a multicast route. Needs root. Removed by
 * {@link #close}, also when the JVM is ended by a signal.
 */
final class Hosts implements CloseableResource, AutoCloseable {
    private static final int MTU = 1500;
    private static final int LIMIT_SECONDS = 10;

    private final Host a;
    private final Host b;
    private final AtomicBoolean closed = new AtomicBoolean();
    private final Thread cleaner = new Thread(this::removeOnce, "remove-hosts");

    Hosts() throws IOException, InterruptedException {
        long pid = ProcessHandle.current().pid();
        a = new Host("java-" + pid + "-a", "10.77.0.1");
        b = new Host("java-" + pid + "-b", "10.77.0.2");
        Runtime.getRuntime().addShutdownHook(cleaner);
        run("ip", "netns", "add", a.namespace());
        run("ip", "netns", "add", b.namespace());
        run("ip", "link", "add", Host.INTERFACE, "mtu", String.valueOf(MTU), "netns", a.namespace(), "type", "veth",
                "peer", "name", Host.INTERFACE, "mtu", String.valueOf(MTU), "netns", b.namespace());
        setUp(a);
        setUp(b);
    }

    /** The host of publishers and pings. */
    Host a() {
        return a;
    }

    /** The host of subscribers and pongs. */
    Host b() {
        return b;
    }

    @Override
    public void close() {
        removeOnce();
        Runtime.getRuntime().removeShutdownHook(cleaner);
    }

    private static void setUp(Host host) throws IOException, InterruptedException {
        run("ip", "-n", host.namespace(), "link", "set", "lo", "up");
        run("ip", "-n", host.namespace(), "address", "add", host.address() + "/24", "dev", Host.INTERFACE);
        run("ip", "-n", host.namespace(), "link", "set", Host.INTERFACE, "up");
        run("ip", "-n", host.namespace(), "route", "add", "224.0.0.0/4", "dev", Host.INTERFACE);
    }

    private void removeOnce() {
        if (!closed.compareAndSet(false, true)) {
            return;
        }
        for (Host host : new Host[] {a, b}) {
            try {
                // A program that outlives a broken-off test would keep the namespace alive without its name.
                run("ip", "netns", "pids", host.namespace()).lines().map(Long::valueOf).map(ProcessHandle::of)
                        .flatMap(Optional::stream).forEach(ProcessHandle::destroyForcibly);
                run("ip", "netns", "delete", host.namespace());
            } catch (IOException | InterruptedException failed) {
                System.err.println("not removed: " + failed.getMessage());
            }
        }
    }

    private static String run(String... command) throws IOException, InterruptedException {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes());
        if (!process.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS) || process.exitValue() != 0) {
            process.destroyForcibly();
            throw new IOException(String.join(" ", command) + ": " + output.strip());
        }
        return output;
    }
}
