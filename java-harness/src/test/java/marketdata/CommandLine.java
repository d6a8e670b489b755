package marketdata;

import java.util.ArrayList;
import java.util.List;

/** Puts the words of a command line together. */
final class CommandLine {
    private CommandLine() {
    }

    /** Strings, arrays of strings and numbers, one after the other; empty strings are left out. */
    static String[] of(Object... parts) {
        List<String> words = new ArrayList<>();
        for (Object part : parts) {
            if (part instanceof String[] several) {
                words.addAll(List.of(several));
            } else if (!part.toString().isEmpty()) {
                words.add(part.toString());
            }
        }
        return words.toArray(String[]::new);
    }
}
