package streamwarden.sessions;

/** An active session. Times are Unix milliseconds. */
final class Session {
    /** Counts the sessions of its device. */
    final long number;

    final long started;
    long last;
    long readings;
    String state;

    /** Readings since the last row. They are not part of the state: with each point of the grid they are counted anew. */
    long added;

    /** Whether the state store has another value of it. */
    boolean changed;

    Session(long number, long started, long last, long readings, String state) {
        this.number = number;
        this.started = started;
        this.last = last;
        this.readings = readings;
        this.state = state;
    }

    void take(Reading reading) {
        last = Math.max(last, reading.at());
        readings++;
        added++;
        state = reading.state();
        changed = true;
    }
}
