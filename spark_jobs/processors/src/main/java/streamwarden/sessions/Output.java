package streamwarden.sessions;

/** A row to write: a session as it was at a time, Unix milliseconds. */
record Output(
        Name name, String kind, long at, long number, long started, long readings, long added, String state) {

    static final String HEARTBEAT = "HEARTBEAT";
    static final String END = "END";

    static Output of(Name name, String kind, long at, Session session) {
        return new Output(
                name, kind, at, session.number, session.started, session.readings, session.added, session.state);
    }
}
