package marketdata;

import java.util.ArrayList;
import java.util.List;

/** One of the two machines of a test: a network namespace and its IPv4 address. */
record Host(String namespace, String address) {
    /** The interface that joins the two hosts, on either of them. */
    static final String INTERFACE = "eth0";

    /** The command line that runs {@code command} on this host, under the pid of the process that is started. */
    List<String> command(List<String> command) {
        List<String> all = new ArrayList<>(List.of("ip", "netns", "exec", namespace));
        all.addAll(command);
        return all;
    }

    /** {@code ADDRESS:PORT} on this host. */
    String at(int port) {
        return address + ":" + port;
    }
}
