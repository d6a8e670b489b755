package marketdata;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** A running program on one of the hosts. Every wait is bounded; a failure shows what the program printed. */
final class Program implements AutoCloseable {
    private static final long LIMIT_SECONDS = 30;
    /** Programs closed since the last {@link #evidence()}. */
    private static final List<Program> CLOSED = new ArrayList<>();

    private final String description;
    private final Process process;
    private final List<String> output = new ArrayList<>();
    private final List<String> errors = new ArrayList<>();
    private final Thread outputReader;
    private final Thread errorReader;
    private String statistics = "";

    private Program(Host host, Map<String, String> environment, List<String> command) throws IOException {
        List<String> arguments = new ArrayList<>(List.of("env"));
        // Through env(1), so that neither ip(8) nor env itself is preloaded.
        environment.forEach((name, value) -> arguments.add(name + "=" + value));
        arguments.addAll(command);
        description = String.join(" ", arguments);
        ProcessBuilder builder = new ProcessBuilder(host.command(arguments));
        // What this test run was told, SHIM_LIBRARY for one, is not for the programs.
        builder.environment().keySet().removeIf(name -> name.matches("LD_PRELOAD|(SHIM|VMA|SOFTVERBS)_.*|JAVA_TOOL_OPTIONS"));
        process = builder.start();
        outputReader = collect(process.getInputStream(), output);
        errorReader = collect(process.getErrorStream(), errors);
    }

    /** Starts any command. */
    static Program start(Host host, Map<String, String> environment, List<String> command) throws IOException {
        return new Program(host, environment, command);
    }

    /** The process id, which is the program's own: the commands before it replace themselves. */
    long pid() {
        return process.pid();
    }

    /** Waits until the program has its sockets. */
    Program awaitReady() throws InterruptedException {
        await("READY"::equals);
        return this;
    }

    /** Waits for the program's result; with {@code --linger} it lives on. */
    Result awaitResult() throws InterruptedException {
        return Result.parse(await(line -> line.startsWith(Result.PREFIX)));
    }

    /** Waits for a line of a program that is not one of this project. */
    void awaitLine(String line) throws InterruptedException {
        await(line::equals);
    }

    /** Waits for the result, then for the end, which must be a success. */
    Result finish() throws InterruptedException, IOException {
        Result result = awaitResult();
        end();
        return result;
    }

    /** Closes the program's stdin, which ends {@code --linger}, and waits for a successful end. */
    void end() throws InterruptedException, IOException {
        process.getOutputStream().close();
        assertEquals(0, exitStatus(), this::report);
    }

    /** Waits for the end. */
    int exitStatus() throws InterruptedException {
        if (!process.waitFor(LIMIT_SECONDS, TimeUnit.SECONDS)) {
            throw new AssertionError("does not end: " + report());
        }
        outputReader.join();
        errorReader.join();
        return process.exitValue();
    }

    /** SIGKILL; returns when the process is gone. */
    void kill() {
        process.destroyForcibly().onExit().orTimeout(LIMIT_SECONDS, TimeUnit.SECONDS).join();
    }

    /** What was printed to stdout so far. */
    String output() {
        return text(output);
    }

    /** What was printed to stderr so far. */
    String errors() {
        return text(errors);
    }

    @Override
    public void close() {
        if (process.isAlive()) {
            statistics = Statistics.text(this);
        }
        kill();
        synchronized (CLOSED) {
            CLOSED.add(this);
        }
    }

    /** What the programs of one test printed, and what the library counted for those that still ran at its end. */
    static String evidence() {
        synchronized (CLOSED) {
            StringBuilder text = new StringBuilder();
            for (Program program : CLOSED) {
                text.append(program.report()).append("--- statistics\n").append(program.statistics).append('\n');
            }
            CLOSED.clear();
            return text.toString();
        }
    }

    private String await(Predicate<String> wanted) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_SECONDS);
        synchronized (output) {
            int looked = 0;
            while (true) {
                for (; looked < output.size(); looked++) {
                    if (wanted.test(output.get(looked))) {
                        return output.get(looked);
                    }
                }
                long left = TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime());
                if (left <= 0 || !outputReader.isAlive()) {
                    throw new AssertionError((left <= 0 ? "silent: " : "ended early: ") + report());
                }
                output.wait(Math.min(left, 100));
            }
        }
    }

    private String report() {
        return description + "\n--- stdout\n" + output() + "--- stderr\n" + errors();
    }

    private static String text(List<String> lines) {
        synchronized (lines) {
            StringBuilder text = new StringBuilder();
            lines.forEach(line -> text.append(line).append('\n'));
            return text.toString();
        }
    }

    private static Thread collect(InputStream stream, List<String> lines) {
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))) {
                for (String line = in.readLine(); line != null; line = in.readLine()) {
                    synchronized (lines) {
                        lines.add(line);
                        lines.notifyAll();
                    }
                }
            } catch (IOException killed) {
                // The stream of a killed process ends like this.
                return;
            }
        }, "output");
        reader.setDaemon(true);
        reader.start();
        return reader;
    }
}
