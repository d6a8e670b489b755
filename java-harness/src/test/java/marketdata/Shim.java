package marketdata;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The library and its statistics tool: {@code SHIM_LIBRARY} and {@code SHIM_STATS}, by default those of the release
 * build. Missing ones fail the tests. {@code -Dshim.enabled=false} runs everything on plain kernel sockets, to develop
 * the programs; it is no test of the library.
 *
 * <p>{@code SHIM_TEST_BACKEND=verbs} runs everything on the verbs device, over the software verbs library in the
 * directory {@code SHIM_TEST_VERBS}.
 */
final class Shim {
    private static final boolean ENABLED = Boolean.parseBoolean(System.getProperty("shim.enabled", "true"));

    private Shim() {
    }

    static boolean enabled() {
        return ENABLED;
    }

    /** The environment that puts the library in front of a program; {@code settings} are names and values in turn. */
    static Map<String, String> environment(String... settings) {
        Map<String, String> environment = new LinkedHashMap<>();
        if (ENABLED && onVerbs()) {
            environment.put("LD_LIBRARY_PATH", file("SHIM_TEST_VERBS", "../target/softverbs").toString());
            environment.put("SHIM_BACKEND", "verbs");
            environment.put("SOFTVERBS_WIRE", "packet");
            environment.put("SOFTVERBS_STRICT", "abort");
        }
        for (int i = 0; i < settings.length; i += 2) {
            environment.put(settings[i], settings[i + 1]);
        }
        if (ENABLED) {
            environment.put("LD_PRELOAD", file("SHIM_LIBRARY", "../target/release/libshim.so").toString());
        }
        return environment;
    }

    /** The device whose rings carry accelerated sockets, as the statistics name it. */
    static String backend() {
        return onVerbs() ? "verbs" : "packet";
    }

    private static boolean onVerbs() {
        return switch (System.getenv().getOrDefault("SHIM_TEST_BACKEND", "packet")) {
            case "packet", "" -> false;
            case "verbs" -> true;
            default -> throw new IllegalStateException("SHIM_TEST_BACKEND: packet or verbs");
        };
    }

    /** The tool that prints a process's statistics. */
    static Path statisticsTool() {
        return file("SHIM_STATS", "../target/release/shim-stats");
    }

    private static Path file(String name, String otherwise) {
        String given = System.getProperty(name, System.getenv().getOrDefault(name, otherwise));
        Path path = Path.of(given).toAbsolutePath().normalize();
        if (!Files.isReadable(path)) {
            throw new IllegalStateException(path + " is missing: cargo build --release, or set " + name);
        }
        return path;
    }
}
