package marketdata;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.HashMap;
import java.util.Map;

/** The {@code RESULT name=number ...} line of a program. */
record Result(String line, Map<String, Long> numbers) {
    static final String PREFIX = "RESULT ";

    static Result parse(String line) {
        Map<String, Long> numbers = new HashMap<>();
        for (String pair : line.substring(PREFIX.length()).split(" ")) {
            int equals = pair.indexOf('=');
            numbers.put(pair.substring(0, equals), Long.valueOf(pair.substring(equals + 1)));
        }
        return new Result(line, Map.copyOf(numbers));
    }

    long get(String name) {
        Long number = numbers.get(name);
        if (number == null) {
            throw new AssertionError("no " + name + " in " + line);
        }
        return number;
    }

    /** Each of {@code expected} messages was received once, undamaged. */
    void assertComplete(long expected) {
        assertEquals(expected, get("received"), line);
        assertClean();
    }

    /** Each of {@code expected} messages was received once, undamaged and in the order of sending. */
    void assertCompleteInOrder(long expected) {
        assertComplete(expected);
        assertEquals(0, get("reordered"), line);
    }

    /** Nothing lost, nothing twice, nothing damaged, whatever the number. */
    void assertClean() {
        assertEquals(0, get("lost"), line);
        assertEquals(0, get("duplicates"), line);
        assertEquals(0, get("corrupt"), line);
    }
}
