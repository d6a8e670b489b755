package marketdata;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class HistogramTest {
    @Test
    void emptyIsZero() {
        Histogram histogram = new Histogram();
        assertEquals(0, histogram.percentile(50));
        assertEquals(0, histogram.maximum());
        assertEquals(0, histogram.total());
    }

    @Test
    void smallValuesAreExact() {
        Histogram histogram = new Histogram();
        for (int value = 1; value <= 100; value++) {
            histogram.record(value);
        }
        assertEquals(50, histogram.percentile(50));
        assertEquals(99, histogram.percentile(99));
        assertEquals(100, histogram.percentile(99.9));
        assertEquals(100, histogram.total());
    }

    @Test
    void everyPowerOfTwoAndItsNeighboursFallIntoANarrowBucket() {
        for (int power = 1; power < 63; power++) {
            for (long value : new long[] {(1L << power) - 1, 1L << power, (1L << power) + 1}) {
                Histogram histogram = new Histogram();
                histogram.record(value);
                histogram.record(Long.MAX_VALUE);
                long reported = histogram.percentile(50);
                assertTrue(reported >= value && reported - value <= value / 128, value + " reported as " + reported);
            }
        }
    }

    @Test
    void percentilesMatchSortedSamples() {
        Random random = new Random(77);
        long[] samples = random.longs(10_000, 100, 50_000_000).toArray();
        Histogram histogram = new Histogram();
        for (long sample : samples) {
            histogram.record(sample);
        }
        Arrays.sort(samples);
        for (double percent : new double[] {1, 50, 90, 99, 99.9, 100}) {
            long exact = samples[(int) Math.ceil(samples.length * percent / 100) - 1];
            long reported = histogram.percentile(percent);
            assertTrue(reported >= exact && reported - exact <= exact / 128, percent + " %: " + exact + " " + reported);
        }
    }

    @Test
    void negativeCountsAsZero() {
        Histogram histogram = new Histogram();
        histogram.record(-5);
        assertEquals(1, histogram.total());
        assertEquals(0, histogram.percentile(100));
    }
}
