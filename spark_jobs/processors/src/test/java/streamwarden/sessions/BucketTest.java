package streamwarden.sessions;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** A heartbeat each 10 s, a session ends after 25 s of silence. The grid of bucket 0 are the multiples of 10 s. */
class BucketTest {
    private static final Rules RULES = new Rules(10_000, 25_000, 4, true);
    private static final Name ONE = new Name("d-1", "s-1");

    private static final Rules FORGETS = new Rules(10_000, 25_000, 4, false);

    private final Map<Name, Session> active = new LinkedHashMap<>();
    private final List<Output> written = new ArrayList<>();
    private Quiet quiet = new Quiet(RULES);
    private Bucket bucket;

    private Long catchUp(Rules rules, long due, long clock, Reading... readings) {
        bucket = new Bucket(rules, 0, active, quiet, List.of(readings), device -> 0);
        return bucket.catchUp(due, clock, written::add);
    }

    private List<String> rows() {
        return written.stream()
                .map(row -> "%s %d #%d %d+%d".formatted(
                        row.kind(), row.at(), row.number(), row.readings(), row.added()))
                .toList();
    }

    @Test
    void theGridsOfTheBucketsAreSpreadOverAHeartbeat() {
        assertEquals(20_000, RULES.firstPoint(10_001, 0));
        assertEquals(12_500, RULES.firstPoint(10_001, 1));
        assertEquals(17_500, RULES.firstPoint(17_500, 3));
        assertEquals(-7_500, RULES.firstPoint(-10_000, 1));
    }

    @Test
    void aSessionBeatsUntilItHasBeenSilentForLongerThanAllowed() {
        Long next = catchUp(RULES, 10_000, 40_000, new Reading(4_000, ONE, "on"), new Reading(5_000, ONE, "off"));
        assertEquals(
                List.of("HEARTBEAT 10000 #1 2+2", "HEARTBEAT 20000 #1 2+0", "HEARTBEAT 30000 #1 2+0", "END 30000 #1 2+0"),
                rows());
        assertNull(next, "nothing is left to wait for");
        assertTrue(bucket.ended.contains(ONE));
    }

    @Test
    void aReadingBeyondThePointWaits() {
        Long next = catchUp(RULES, 10_000, 10_000, new Reading(4_000, ONE, "on"), new Reading(10_001, ONE, "on"));
        assertEquals(List.of("HEARTBEAT 10000 #1 1+1"), rows());
        assertEquals(20_000, next);
        assertEquals(1, bucket.left().size());
    }

    @Test
    void aSessionThatBeginsAgainInOneBatchHasTheNextNumberAndIsKept() {
        catchUp(RULES, 40_000, 40_000, new Reading(1_000, ONE, "on"), new Reading(36_000, ONE, "on"));
        assertEquals(List.of("END 26000 #1 1+1", "HEARTBEAT 40000 #2 1+1"), rows());
        assertTrue(bucket.ended.isEmpty());
        assertEquals(2, bucket.begun.get("d-1"));
    }

    @Test
    void withoutATtlADeviceIsForgottenWithTheLastOfItsSessions() {
        Name other = new Name("d-2", "s-1");
        catchUp(FORGETS, 10_000, 30_000, new Reading(4_000, ONE, "on"), new Reading(9_000, other, "on"));
        assertEquals(0, bucket.begun.get("d-1"));
        assertEquals(1, bucket.begun.get("d-2"), "it ends after 34 s");
    }

    @Test
    void withReadingsLeftThePointsInBetweenAreLeftOut() {
        Long next = catchUp(RULES, 10_000, 10_000, new Reading(95_000, ONE, "on"));
        assertEquals(List.of(), rows());
        assertEquals(100_000, next);
    }

    @Test
    void aSessionOfTheStoreIsWrittenAgainOnlyIfItChanged() {
        active.put(ONE, new Session(7, 1_000, 9_000, 3, "on"));
        catchUp(RULES, 10_000, 10_000);
        assertEquals(List.of("HEARTBEAT 10000 #7 3+0"), rows());
        assertTrue(!active.get(ONE).changed);
        assertTrue(bucket.renumbered.isEmpty());
    }

    @Test
    void aBucketWhoseSessionsAreAllQuietHasANextPoint() {
        assertNull(catchUp(RULES, 10_000, 10_000));
        quiet.add("d-1");
        assertEquals(20_000, catchUp(RULES, 10_000, 10_000));
    }

    @Test
    void aDeviceOfWhichOneSessionEndsAndAnotherIsQuietIsNotForgotten() {
        quiet = new Quiet(FORGETS);
        quiet.add("d-1");
        for (String device : List.of("d-1", "d-2")) {
            active.put(new Name(device, "s-1"), new Session(1, 1_000, 1_000, 1, "on"));
        }
        catchUp(FORGETS, 40_000, 40_000);
        assertEquals(2, bucket.ended.size());
        assertEquals(Map.of("d-2", 0L), bucket.begun);
    }
}
