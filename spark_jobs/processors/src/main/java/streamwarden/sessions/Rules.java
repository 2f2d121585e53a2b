package streamwarden.sessions;

import java.io.Serializable;

/**
 * The rules of the stream.
 *
 * @param heartbeat milliseconds between two heartbeats of a session
 * @param inactive milliseconds of silence after which a session has ended
 * @param buckets number of the groups in which sessions are kept
 * @param remembers whether the number of a device's sessions outlives the last one of them
 */
public record Rules(long heartbeat, long inactive, int buckets, boolean remembers) implements Serializable {

    /** When a session ends that had its last reading then. It is over at a later point of the grid. */
    long end(long last) {
        return last + inactive;
    }

    /** The first point of the bucket's grid at or after a time. Buckets are spread evenly over a heartbeat. */
    long firstPoint(long at, int bucket) {
        long phase = bucket * heartbeat / buckets;
        return at + Math.floorMod(phase - at, heartbeat);
    }
}
