package marketdata;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class OptionsTest {
    private static Options parse(String... args) {
        return Options.parse(List.of(args), Set.of("count", "spin", "loop", "peer"));
    }

    @Test
    void valuesAndFlags() {
        Options options = parse("--spin", "--count", "7", "--loop", "false");
        assertTrue(options.flag("spin"));
        assertFalse(options.flag("loop"));
        assertTrue(options.has("loop"));
        assertEquals(7, options.number("count", 1));
        assertEquals(7_000_000_000L, options.seconds("count", 1));
    }

    @Test
    void addresses() {
        assertEquals(7001, parse("--peer", "10.77.0.2:7001").endpoint("peer", null).getPort());
        assertTrue(parse("--peer", "7001").endpoint("peer", null).getAddress().isAnyLocalAddress());
    }

    @Test
    void mistakesAreErrors() {
        assertThrows(Options.UsageException.class, () -> parse("--cuont", "7"));
        assertThrows(Options.UsageException.class, () -> parse("7"));
        assertThrows(Options.UsageException.class, () -> parse("--count", "x").number("count", 1));
        assertThrows(Options.UsageException.class, () -> parse("--peer", "10.77.0.2:x").endpoint("peer", null));
        assertThrows(Options.UsageException.class, () -> parse().endpoint("peer", null));
    }
}
