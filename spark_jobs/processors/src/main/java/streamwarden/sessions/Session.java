package streamwarden.sessions;

/** An active session. Times are Unix milliseconds. */
final class Session {
    /** Counts the sessions of its device. */
    final long number;

    final long started;
    long last;
    long readings;
    String state;

    /** Number of readings since the last row. The state does not keep it, because each point of the grid starts again at 0. */
    long added;

    /** Whether the session differs from what the state store has. */
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
