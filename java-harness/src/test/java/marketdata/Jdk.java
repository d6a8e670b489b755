package marketdata;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/** One of the installed JDKs that the programs are run on. */
record Jdk(int feature, Path home) {
    private static final List<Integer> WANTED = List.of(17, 25);
    private static final Path INSTALLED = Path.of("/usr/lib/jvm");
    private static final List<Jdk> FOUND = discover();

    /**
     * The JDKs 17 and 25, as far as they are there: {@code JAVA17_HOME}, {@code JAVA25_HOME}, else /usr/lib/jvm. A
     * version in the environment's {@code REQUIRE_JDKS} that is missing is a failure, and so is having none at all.
     */
    static List<Jdk> all() {
        for (String required : System.getenv().getOrDefault("REQUIRE_JDKS", "").split("\\s+")) {
            if (!required.isEmpty() && FOUND.stream().noneMatch(jdk -> jdk.feature == Integer.parseInt(required))) {
                throw new IllegalStateException("REQUIRE_JDKS names " + required + ", found only " + FOUND);
            }
        }
        if (FOUND.isEmpty()) {
            throw new IllegalStateException("no JDK of " + WANTED + " under " + INSTALLED);
        }
        return FOUND;
    }

    /** The JDK for tests where the version does not matter. */
    static Jdk any() {
        return all().get(0);
    }

    /** The newest JDK, for tests that need not run on each. */
    static Jdk newest() {
        return all().get(all().size() - 1);
    }

    String java() {
        return home.resolve("bin/java").toString();
    }

    @Override
    public String toString() {
        return "JDK " + feature;
    }

    private static List<Jdk> discover() {
        Map<Integer, Jdk> found = new TreeMap<>();
        List<Path> candidates = new ArrayList<>();
        for (int feature : WANTED) {
            String home = System.getenv("JAVA" + feature + "_HOME");
            if (home != null) {
                candidates.add(Path.of(home));
            }
        }
        if (Files.isDirectory(INSTALLED)) {
            try (Stream<Path> installed = Files.list(INSTALLED)) {
                // Distributions add links to the same JDK under other names.
                installed.filter(home -> !Files.isSymbolicLink(home)).sorted().forEach(candidates::add);
            } catch (IOException unreadable) {
                throw new UncheckedIOException(unreadable);
            }
        }
        for (Path home : candidates) {
            int feature = featureOf(home);
            if (WANTED.contains(feature)) {
                found.putIfAbsent(feature, new Jdk(feature, home));
            }
        }
        found.values().forEach(jdk -> System.out.println("JDK " + jdk.feature + ": " + jdk.home));
        return List.copyOf(found.values());
    }

    /** Reads the file {@code release} that every JDK has; 0 where there is none. */
    private static int featureOf(Path home) {
        Path release = home.resolve("release");
        if (!Files.isReadable(release) || !Files.isExecutable(home.resolve("bin/java"))) {
            return 0;
        }
        try (Stream<String> lines = Files.lines(release)) {
            return lines.filter(line -> line.startsWith("JAVA_VERSION=")).findFirst()
                    .map(line -> Integer.parseInt(line.replaceAll("^JAVA_VERSION=\"(\\d+).*$", "$1"))).orElse(0);
        } catch (IOException unreadable) {
            return 0;
        }
    }
}
