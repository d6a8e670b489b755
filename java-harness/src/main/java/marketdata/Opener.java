package marketdata;

import java.io.IOException;
import java.nio.channels.DatagramChannel;

/** Makes a channel that is bound and, where wanted, connected or joined to its groups. */
@FunctionalInterface
interface Opener {
    DatagramChannel open() throws IOException;
}
