package marketdata;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.function.ToLongFunction;

/** What the statistics tool says about a live process: the proof that its sockets were accelerated. */
final class Statistics {
    private static final int LIMIT_SECONDS = 10;
    /** A first datagram may take the kernel's way, while a neighbour is resolved for example; most must not. */
    private static final double LEAST_SHARE = 0.9;

    private final JsonArray sockets;
    private final JsonArray rings;

    private Statistics(JsonArray sockets, JsonArray rings) {
        this.sockets = sockets;
        this.rings = rings;
    }

    /** The engine delivered nearly all of {@code datagrams} to a socket of the program. */
    static void assertReceived(Program program, long datagrams) throws IOException, InterruptedException {
        if (Shim.enabled()) {
            Statistics statistics = of(program);
            statistics.assertShare("rx", datagrams);
            statistics.assertRings();
        }
    }

    /** The engine sent nearly all of {@code datagrams} from a socket of the program. */
    static void assertSent(Program program, long datagrams) throws IOException, InterruptedException {
        if (Shim.enabled()) {
            Statistics statistics = of(program);
            statistics.assertShare("tx", datagrams);
            statistics.assertRings();
        }
    }

    static Statistics of(Program program) throws IOException, InterruptedException {
        Process tool = tool(program);
        String output = new String(tool.getInputStream().readAllBytes());
        if (!tool.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS) || tool.exitValue() != 0) {
            tool.destroyForcibly();
            throw new AssertionError("no statistics of process " + program.pid() + ": " + output
                    + "\n--- its stderr\n" + program.errors());
        }
        return parse(output);
    }

    /** What the tool prints for a program; of one without the library, that there is nothing. */
    static String text(Program program) {
        if (!Shim.enabled()) {
            return "";
        }
        try {
            return new String(tool(program).getInputStream().readAllBytes());
        } catch (IOException missing) {
            return missing.toString();
        }
    }

    private static Process tool(Program program) throws IOException {
        return new ProcessBuilder(Shim.statisticsTool().toString(), "-p", String.valueOf(program.pid()), "-c", "1",
                "--json").redirectError(ProcessBuilder.Redirect.DISCARD).start();
    }

    static Statistics parse(String json) {
        JsonObject document = JsonParser.parseString(json).getAsJsonObject();
        return new Statistics(document.getAsJsonArray("sockets"), document.getAsJsonArray("rings"));
    }

    /** {@code direction} is rx or tx. */
    void assertShare(String direction, long datagrams) {
        long byEngine = sum(socket -> packets(socket, direction));
        assertTrue(byEngine >= datagrams * LEAST_SHARE,
                () -> "of " + datagrams + " datagrams the engine's " + direction + " counts " + byEngine + ": " + sockets);
    }

    /** There are rings, and all are of the device that this run is about. */
    private void assertRings() {
        assertTrue(!rings.isEmpty(), "no rings");
        for (JsonElement ring : rings) {
            String backend = ring.getAsJsonObject().get("backend").getAsString();
            assertTrue(backend.equals(Shim.backend()), () -> "a ring of " + backend + ": " + rings);
        }
    }

    private long sum(ToLongFunction<JsonObject> of) {
        long sum = 0;
        for (JsonElement element : sockets) {
            JsonObject socket = element.getAsJsonObject();
            if (socket.get("accelerated").getAsBoolean()) {
                sum += of.applyAsLong(socket);
            }
        }
        return sum;
    }

    private static long packets(JsonObject socket, String direction) {
        return socket.getAsJsonObject(direction).get("packets").getAsLong();
    }
}
