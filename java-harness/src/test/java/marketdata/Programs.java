package marketdata;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Starts the Java and the C programs of this project. */
final class Programs {
    /** Plain kernel sockets. */
    static final Map<String, String> NATIVE = Map.of();

    private static final int BUILD_LIMIT_SECONDS = 120;
    private static final Path JAR = Path.of("target/market-data.jar").toAbsolutePath();
    private static final Path C = Path.of("c").toAbsolutePath();
    private static boolean built;

    private Programs() {
    }

    /** A market-data program on a JVM that starts fast, for tests where the version does not matter. */
    static Program java(Host host, Map<String, String> environment, String... arguments) throws IOException {
        return java(host, environment, Jdk.any(), arguments);
    }

    /** The same on the given JDK. */
    static Program java(Host host, Map<String, String> environment, Jdk jdk, String... arguments) throws IOException {
        return java(host, environment, jdk, List.of("-Xshare:auto", "-XX:TieredStopAtLevel=1",
                "-XX:ActiveProcessorCount=2", "-XX:+UseSerialGC"), arguments);
    }

    /** A market-data program on the given JDK with the given options of the JVM. */
    static Program java(Host host, Map<String, String> environment, Jdk jdk, List<String> jvmOptions,
            String... arguments) throws IOException {
        if (!Files.isReadable(JAR)) {
            throw new IllegalStateException(JAR + " is missing: run the tests through mvn");
        }
        List<String> command = new ArrayList<>();
        command.add(jdk.java());
        command.addAll(jvmOptions);
        command.addAll(List.of("-jar", JAR.toString()));
        command.addAll(List.of(arguments));
        return Program.start(host, environment, command);
    }

    /** A C program. */
    static Program c(Host host, Map<String, String> environment, String name, String... arguments)
            throws IOException, InterruptedException {
        return c(host, environment, "plain", name, arguments);
    }

    /** The same built with {@code _FORTIFY_SOURCE=3}, whose calls go to libc's checked twins. */
    static Program fortified(Host host, Map<String, String> environment, String name, String... arguments)
            throws IOException, InterruptedException {
        return c(host, environment, "fortified", name, arguments);
    }

    private static Program c(Host host, Map<String, String> environment, String variant, String name,
            String... arguments) throws IOException, InterruptedException {
        build();
        List<String> command = new ArrayList<>();
        command.add(C.resolve("build").resolve(variant).resolve(name).toString());
        command.addAll(List.of(arguments));
        return Program.start(host, environment, command);
    }

    private static synchronized void build() throws IOException, InterruptedException {
        if (built) {
            return;
        }
        Process make = new ProcessBuilder("make", "-s", "-j2", "-C", C.toString()).inheritIO().start();
        if (!make.waitFor(BUILD_LIMIT_SECONDS, TimeUnit.SECONDS) || make.exitValue() != 0) {
            make.destroyForcibly();
            throw new IllegalStateException("the C programs do not build");
        }
        built = true;
    }
}
