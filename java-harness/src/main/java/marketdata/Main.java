package marketdata;

import java.util.Arrays;
import java.util.List;

/**
 * Entry point of {@code market-data.jar}: the first argument names the program, the rest are its options.
 *
 * <p>Exit status: 0 when the program ran to its end, 1 when it failed, 2 when the command line is wrong.
 */
public final class Main {
    private static final String USAGE = """
            usage: java -jar market-data.jar publish|subscribe|ping|pong|threads [--option value]...
              publish    --group G[,G] --port P --interface I --rate PER-SECOND --count N --size BYTES --ttl N
                         [--loop true|false] [--api channel|socket] [--source-port P] [--connected]
              subscribe  --group G[,G] --port P --interface I --count N --timeout SECONDS
                         [--api channel|socket|blocking-channel] [--source ADDRESS] [--per-group]
              ping       --peer ADDRESS:PORT --count N --warm-up N --size BYTES --reply-timeout MILLISECONDS
                         [--bind ADDRESS:PORT] [--api channel|socket|selector] [--nonblocking] [--connected]
              pong       --bind ADDRESS:PORT --timeout SECONDS [--api channel|socket|selector] [--nonblocking]
              threads    --peer ADDRESS:PORT --threads N --count N --size BYTES --timeout SECONDS
                         [--api channel|socket|selector]
            every program: [--linger SECONDS] keeps the sockets open after the RESULT line until stdin is closed
            """;

    private Main() {
    }

    /** Runs one program. */
    public static void main(String[] args) {
        System.exit(run(args));
    }

    private static int run(String[] args) {
        if (args.length == 0) {
            System.err.print(USAGE);
            return 2;
        }
        List<String> rest = Arrays.asList(args).subList(1, args.length);
        try {
            switch (args[0]) {
                case "publish" -> new Publish(Options.parse(rest, Publish.OPTIONS)).run();
                case "subscribe" -> new Subscribe(Options.parse(rest, Subscribe.OPTIONS)).run();
                case "ping" -> new Ping(Options.parse(rest, Ping.OPTIONS)).run();
                case "pong" -> new Pong(Options.parse(rest, Pong.OPTIONS)).run();
                case "threads" -> new Threads(Options.parse(rest, Threads.OPTIONS)).run();
                default -> throw new Options.UsageException("unknown program " + args[0]);
            }
            return 0;
        } catch (Options.UsageException wrong) {
            System.err.println("market-data: " + wrong.getMessage());
            System.err.print(USAGE);
            return 2;
        } catch (Exception failed) {
            System.err.println("market-data " + args[0] + " failed:");
            failed.printStackTrace();
            return 1;
        }
    }
}
