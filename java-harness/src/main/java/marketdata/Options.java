package marketdata;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.SocketException;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Command-line options of the form {@code --name value}; {@code --name} without a value is a flag. */
final class Options {
    /** The command line is wrong; the message says how. */
    static final class UsageException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        UsageException(String message) {
            super(message);
        }
    }

    private static final String FLAG = "true";

    private final Map<String, String> values;

    private Options(Map<String, String> values) {
        this.values = values;
    }

    /** Reads the arguments; a name outside {@code known} is an error, so that a typing mistake is never ignored. */
    static Options parse(List<String> args, Set<String> known) {
        Map<String, String> values = new HashMap<>();
        for (int i = 0; i < args.size(); i++) {
            String arg = args.get(i);
            String name = arg.startsWith("--") ? arg.substring(2) : "";
            if (!known.contains(name)) {
                throw new UsageException("unknown option " + arg);
            }
            boolean hasValue = i + 1 < args.size() && !args.get(i + 1).startsWith("--");
            values.put(name, hasValue ? args.get(++i) : FLAG);
        }
        return new Options(values);
    }

    boolean has(String name) {
        return values.containsKey(name);
    }

    /** True for {@code --name} and {@code --name true}. */
    boolean flag(String name) {
        return FLAG.equals(values.get(name));
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        String text = values.get(name);
        if (text == null) {
            return otherwise;
        }
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException notANumber) {
            throw new UsageException("--" + name + " needs a whole number, not " + text);
        }
    }

    /** A duration that is given in seconds, in nanoseconds. */
    long seconds(String name, int otherwise) {
        return number(name, otherwise) * 1_000_000_000L;
    }

    /** {@code ADDRESS:PORT}, or {@code PORT} alone for the wildcard address. */
    InetSocketAddress endpoint(String name, String otherwise) {
        String text = values.getOrDefault(name, otherwise);
        if (text == null) {
            throw new UsageException("--" + name + " ADDRESS:PORT is needed");
        }
        int colon = text.lastIndexOf(':');
        try {
            int port = Integer.parseInt(text.substring(colon + 1));
            return colon < 0 ? new InetSocketAddress(port)
                    : new InetSocketAddress(InetAddress.getByName(text.substring(0, colon)), port);
        } catch (IllegalArgumentException | UnknownHostException bad) {
            throw new UsageException("--" + name + " needs ADDRESS:PORT, not " + text);
        }
    }

    /** Addresses separated by commas. */
    List<InetAddress> addresses(String name, String otherwise) {
        List<InetAddress> addresses = new ArrayList<>();
        for (String text : values.getOrDefault(name, otherwise).split(",")) {
            try {
                addresses.add(InetAddress.getByName(text));
            } catch (UnknownHostException bad) {
                throw new UsageException("--" + name + " needs addresses, not " + text);
            }
        }
        return addresses;
    }

    /** The interface of that name or with that address; without the option the first one that does multicast. */
    NetworkInterface networkInterface(String name) throws SocketException {
        String text = values.get(name);
        if (text == null) {
            return NetworkInterface.networkInterfaces().filter(Options::carriesMulticast).findFirst()
                    .orElseThrow(() -> new UsageException("no multicast interface; name one with --" + name));
        }
        NetworkInterface found = NetworkInterface.getByName(text);
        try {
            found = found == null ? NetworkInterface.getByInetAddress(InetAddress.getByName(text)) : found;
        } catch (UnknownHostException notAnAddress) {
            found = null;
        }
        if (found == null) {
            throw new UsageException("--" + name + ": there is no interface " + text);
        }
        return found;
    }

    private static boolean carriesMulticast(NetworkInterface candidate) {
        try {
            return candidate.isUp() && candidate.supportsMulticast() && !candidate.isLoopback();
        } catch (SocketException gone) {
            return false;
        }
    }
}
