package streamwarden.sessions;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.ToLongFunction;

/**
 * The sessions of some devices, and what the points of their common grid do to them. It knows neither Spark nor a clock.
 */
final class Bucket {
    private final Rules rules;
    private final int number;
    private final Map<Name, Session> active;
    private final Quiet quiet;
    private final ArrayDeque<Reading> waiting;
    private final ToLongFunction<String> known;

    /** Device to the number of sessions that it has begun, for the devices that were looked up or have changed. */
    final Map<String, Long> begun = new HashMap<>();

    /** Devices whose number of sessions differs from the one in the state store. */
    final Set<String> renumbered = new HashSet<>();

    /** Sessions that were active before and have ended. */
    final Set<Name> ended = new HashSet<>();

    /**
     * @param active the sessions, which change
     * @param quiet the other sessions, which are told already
     * @param readings those since the last point of the grid, in the order in which they count
     * @param known how many sessions a device has begun, as the state store has it
     */
    Bucket(
            Rules rules,
            int number,
            Map<Name, Session> active,
            Quiet quiet,
            List<Reading> readings,
            ToLongFunction<String> known) {
        this.rules = rules;
        this.number = number;
        this.active = active;
        this.quiet = quiet;
        this.waiting = new ArrayDeque<>(readings);
        this.known = known;
    }

    /** Each point of the grid from {@code due} to {@code clock}. Returns the next one, null if nothing is left. */
    Long catchUp(long due, long clock, Consumer<Output> write) {
        Long point = due;
        while (point != null && point <= clock) { // Spark fires a timer of this very millisecond
            beat(point, write);
            point = next(point);
        }
        return point;
    }

    List<Reading> left() {
        return new ArrayList<>(waiting);
    }

    private Long next(long point) {
        if (!active.isEmpty() || !quiet.isEmpty()) {
            return point + rules.heartbeat();
        }
        return waiting.isEmpty() ? null : rules.firstPoint(waiting.peek().at(), number);
    }

    private void beat(long point, Consumer<Output> write) {
        while (!waiting.isEmpty() && waiting.peek().at() <= point) {
            read(waiting.poll(), write);
        }
        Set<String> alive = rules.remembers() ? null : new HashSet<>();
        Set<String> silent = new HashSet<>();
        active.entrySet().removeIf(entry -> {
            Name name = entry.getKey();
            if (tell(name, entry.getValue(), point, write)) {
                silent.add(name.device());
                return true;
            }
            if (alive != null) {
                alive.add(name.device());
            }
            return false;
        });
        if (alive != null) {
            silent.removeAll(alive);
            silent.removeAll(quiet.devices);
            silent.forEach(this::forget);
        }
    }

    /** Writes the session's row at a point of the grid; returns whether it has ended. */
    private boolean tell(Name name, Session session, long point, Consumer<Output> write) {
        long end = rules.end(session.last);
        boolean over = point > end;
        write.accept(Output.of(name, over ? Output.END : Output.HEARTBEAT, over ? end : point, session));
        session.added = 0;
        if (over) {
            ended.add(name);
        }
        return over;
    }

    private void read(Reading reading, Consumer<Output> write) {
        Name name = reading.name();
        Session session = active.get(name);
        if (session != null && reading.at() > rules.end(session.last)) {
            write.accept(Output.of(name, Output.END, rules.end(session.last), session));
            session = null;
        }
        if (session == null) {
            session = new Session(number(name.device()), reading.at(), reading.at(), 0, "");
            active.put(name, session);
            ended.remove(name);
        }
        session.take(reading);
    }

    /** The number of the device's next session. */
    private long number(String device) {
        long next = begun.computeIfAbsent(device, known::applyAsLong) + 1;
        begun.put(device, next);
        renumbered.add(device);
        return next;
    }

    private void forget(String device) {
        begun.put(device, 0L);
        renumbered.add(device);
    }
}
