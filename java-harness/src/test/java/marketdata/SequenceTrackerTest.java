package marketdata;

import static marketdata.SequenceTracker.Arrival.DUPLICATE;
import static marketdata.SequenceTracker.Arrival.NEXT;
import static marketdata.SequenceTracker.Arrival.REORDERED;
import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class SequenceTrackerTest {
    private final SequenceTracker tracker = new SequenceTracker();

    @Test
    void inOrderIsClean() {
        for (int sequence = 0; sequence < 1000; sequence++) {
            assertEquals(NEXT, tracker.record(sequence));
        }
        assertEquals(1000, tracker.distinct());
        assertEquals(0, tracker.missing() + tracker.duplicates() + tracker.reordered());
    }

    @Test
    void aHoleIsMissingUntilItIsFilled() {
        tracker.record(5);
        tracker.record(8);
        assertEquals(2, tracker.missing());
        assertEquals(REORDERED, tracker.record(6));
        assertEquals(1, tracker.missing());
        assertEquals(1, tracker.reordered());
    }

    @Test
    void aSecondCopyIsADuplicateEvenWhenLate() {
        tracker.record(1);
        tracker.record(2);
        assertEquals(DUPLICATE, tracker.record(1));
        assertEquals(1, tracker.duplicates());
        assertEquals(2, tracker.distinct());
        assertEquals(0, tracker.reordered());
    }

    @Test
    void aLateStartIsNoLoss() {
        tracker.record(500);
        tracker.record(501);
        assertEquals(0, tracker.missing());
    }
}
