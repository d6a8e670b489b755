package marketdata;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** A JVM that opens no UDP socket prints the same with the library in front of it. */
@ExtendWith(OnTwoHosts.class)
@Timeout(30)
class OtherProgramsTest {
    static Stream<Jdk> jdks() {
        return Jdk.all().stream();
    }

    @ParameterizedTest
    @MethodSource("jdks")
    void javaVersionOnStdout(Jdk jdk, Hosts hosts) throws Exception {
        List<String> command = List.of(jdk.java(), "--version");
        try (Program plain = Program.start(hosts.a(), Programs.NATIVE, command);
                Program shimmed = Program.start(hosts.a(), Shim.environment(), command)) {
            assertEquals(plain.exitStatus(), shimmed.exitStatus(), shimmed::errors);
            assertTrue(plain.output().contains(String.valueOf(jdk.feature())), plain.output());
            assertEquals(plain.output(), shimmed.output());
        }
    }

    /** This one writes to stderr, where the banner comes first. */
    @ParameterizedTest
    @MethodSource("jdks")
    void javaVersionOnStderr(Jdk jdk, Hosts hosts) throws Exception {
        List<String> command = List.of(jdk.java(), "-version");
        try (Program plain = Program.start(hosts.a(), Programs.NATIVE, command);
                Program shimmed = Program.start(hosts.a(), Shim.environment(), command)) {
            assertEquals(plain.exitStatus(), shimmed.exitStatus(), shimmed::errors);
            assertTrue(plain.errors().contains("version"), plain.errors());
            assertTrue(shimmed.errors().endsWith(plain.errors()), shimmed.errors());
            assertEquals("", shimmed.output());
        }
    }
}
