package streamwarden.sessions;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoder;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.streaming.ExpiredTimerInfo;
import org.apache.spark.sql.streaming.ListState;
import org.apache.spark.sql.streaming.MapState;
import org.apache.spark.sql.streaming.OutputMode;
import org.apache.spark.sql.streaming.StatefulProcessor;
import org.apache.spark.sql.streaming.StatefulProcessorHandle;
import org.apache.spark.sql.streaming.TTLConfig;
import org.apache.spark.sql.streaming.TimeMode;
import org.apache.spark.sql.streaming.TimerValues;
import org.apache.spark.sql.streaming.ValueState;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A heartbeat of each active session at each point of its bucket's grid, and a row when it has ended.
 *
 * <p>The key is a bucket of devices, not a device: one timer and one call of a bucket serve thousands of sessions. State
 * of a bucket: {@code sessions}, a map from device and session; {@code pending}, the list of readings since the last
 * point; {@code begun}, how many sessions each device has begun, with a TTL if there is one; {@code due}, the value of
 * the armed timer.
 */
public final class Heartbeats extends StatefulProcessor<Integer, Row, Row> {
    private static final Encoder<Row> NAME = encoder("device_id STRING, session_id STRING");
    private static final Encoder<Row> SESSION =
            encoder("number BIGINT, started_ms BIGINT, last_ms BIGINT, readings BIGINT, state STRING");
    private static final Encoder<Row> READING =
            encoder("at_ms BIGINT, device_id STRING, session_id STRING, state STRING");
    private static final Encoder<Row> OUTPUT = encoder(
            "device_id STRING, session_id STRING, kind STRING, at_ms BIGINT, number BIGINT, started_ms BIGINT, "
                    + "readings BIGINT, added BIGINT, state STRING");

    private static final Comparator<Row> PLACE = Comparator.<Row>comparingLong(row -> row.getAs("written_ms"))
            .thenComparing(row -> row.<String>getAs("place"));

    private static final Comparator<Reading> TIME = Comparator.comparingLong(Reading::at)
            .thenComparing(reading -> reading.name().session())
            .thenComparing(Reading::state);

    private final Rules rules;
    private final Duration remember;
    private final boolean byEvent;

    private transient MapState<Row, Row> sessions;
    private transient ListState<Row> pending;
    private transient MapState<String, Long> begun;
    private transient ValueState<Long> due;

    private Heartbeats(Rules rules, Duration remember, boolean byEvent) {
        this.rules = rules;
        this.remember = remember;
        this.byEvent = byEvent;
    }

    /**
     * The rows of a stream of readings.
     *
     * @param readings {@code bucket INT, device_id, session_id, state}, and by the events' time {@code at_ms BIGINT}, by
     *     the clock {@code written_ms BIGINT, place STRING}
     * @param remember milliseconds for which the number of a device's sessions is kept; 0: until none is active
     */
    public static Dataset<Row> over(
            Dataset<Row> readings, int buckets, long heartbeat, long inactive, long remember, boolean byEvent) {
        Rules rules = new Rules(heartbeat, inactive, buckets, remember > 0);
        TimeMode mode = byEvent ? TimeMode.EventTime() : TimeMode.ProcessingTime();
        return readings.groupByKey((MapFunction<Row, Integer>) row -> row.getAs("bucket"), Encoders.INT())
                .transformWithState(
                        new Heartbeats(rules, Duration.ofMillis(remember), byEvent), mode, OutputMode.Append(), OUTPUT);
    }

    @Override
    public void init(OutputMode outputMode, TimeMode timeMode) {
        StatefulProcessorHandle handle = getHandle();
        TTLConfig ttl = rules.remembers() ? TTLConfig.apply(remember) : TTLConfig.NONE();
        sessions = handle.getMapState("sessions", NAME, SESSION, TTLConfig.NONE());
        pending = handle.getListState("pending", READING, TTLConfig.NONE());
        begun = handle.getMapState("begun", Encoders.STRING(), Encoders.LONG(), ttl);
        due = handle.getValueState("due", Encoders.LONG(), TTLConfig.NONE());
    }

    /** All readings of a bucket in a batch: they wait for the next point of the grid. */
    @Override
    public Iterator<Row> handleInputRows(Integer bucket, Iterator<Row> rows, TimerValues times) {
        List<Row> found = new ArrayList<>(CollectionConverters.asJava(rows.toSeq()));
        if (!byEvent) {
            found.sort(PLACE); // stable: lines stay in their order
        }
        long now = byEvent ? 0 : times.getCurrentProcessingTimeInMs();
        long earliest = Long.MAX_VALUE;
        Row[] readings = new Row[found.size()];
        for (int i = 0; i < readings.length; i++) {
            Row row = found.get(i);
            long at = byEvent ? row.<Long>getAs("at_ms") : now;
            earliest = Math.min(earliest, at);
            readings[i] =
                    RowFactory.create(at, row.getAs("device_id"), row.getAs("session_id"), row.getAs("state"));
        }
        pending.appendList(readings);
        arm(rules.firstPoint(earliest, bucket));
        return Iterator.<Row>empty();
    }

    /** The clock has reached the bucket's next point. */
    @Override
    public Iterator<Row> handleExpiredTimer(Integer number, TimerValues times, ExpiredTimerInfo expired) {
        long clock = byEvent ? times.getCurrentWatermarkInMs() : times.getCurrentProcessingTimeInMs();
        long point = expired.getExpiryTimeInMs();
        List<Reading> readings = readings();
        List<Row> written = new ArrayList<>();
        Quiet quiet = new Quiet(rules);
        boolean once = point + rules.heartbeat() > clock;
        Map<Name, Session> active = once ? active(named(readings), point, quiet, written) : active();
        Bucket bucket = new Bucket(rules, number, active, quiet, readings, this::sessionsOf);
        Long next = bucket.catchUp(point, clock, output -> written.add(row(output)));
        keep(bucket, active, readings.size());
        due.clear();
        if (next != null) {
            arm(next);
        }
        return CollectionConverters.asScala(written.iterator());
    }

    /** One timer of a bucket: the earliest. */
    private void arm(long point) {
        Long armed = due.get();
        if (armed != null && armed <= point) {
            return;
        }
        if (armed != null) {
            getHandle().deleteTimer(armed);
        }
        getHandle().registerTimer(point);
        due.update(point);
    }

    private List<Reading> readings() {
        List<Reading> found = new ArrayList<>();
        Iterator<Row> stored = pending.get();
        while (stored.hasNext()) {
            Row row = stored.next();
            found.add(new Reading(row.getLong(0), new Name(row.getString(1), row.getString(2)), row.getString(3)));
        }
        if (byEvent) {
            found.sort(TIME); // they came in any order
        }
        return found;
    }

    private static Set<Name> named(List<Reading> readings) {
        return readings.stream().map(Reading::name).collect(Collectors.toSet());
    }

    private Map<Name, Session> active() {
        Map<Name, Session> found = new LinkedHashMap<>();
        Iterator<Tuple2<Row, Row>> stored = sessions.iterator();
        while (stored.hasNext()) {
            Tuple2<Row, Row> entry = stored.next();
            found.put(name(entry._1()), session(entry._2()));
        }
        return found;
    }

    /**
     * The sessions of which a reading has come, and those that end. Each other one has a heartbeat and nothing else: at
     * millions of sessions, most of them, so its row is made of its state, and no object of ours.
     */
    private Map<Name, Session> active(Set<Name> named, long point, Quiet quiet, List<Row> written) {
        Map<Name, Session> found = new LinkedHashMap<>();
        Iterator<Tuple2<Row, Row>> stored = sessions.iterator();
        while (stored.hasNext()) {
            Tuple2<Row, Row> entry = stored.next();
            Row key = entry._1();
            Row value = entry._2();
            boolean said = !named.isEmpty() && named.contains(name(key));
            if (said || point > rules.end(value.getLong(2))) {
                found.put(name(key), session(value));
            } else {
                quiet.add(key.getString(0));
                written.add(heartbeat(key, value, point));
            }
        }
        return found;
    }

    private static Row heartbeat(Row key, Row value, long point) {
        return RowFactory.create(
                key.get(0),
                key.get(1),
                Output.HEARTBEAT,
                point,
                value.get(0),
                value.get(1),
                value.get(3),
                0L, // no reading came
                value.get(4));
    }

    private static Name name(Row key) {
        return new Name(key.getString(0), key.getString(1));
    }

    private static Session session(Row value) {
        return new Session(
                value.getLong(0), value.getLong(1), value.getLong(2), value.getLong(3), value.getString(4));
    }

    private long sessionsOf(String device) {
        return begun.containsKey(device) ? begun.getValue(device) : 0;
    }

    /** Writes what the points of the grid have changed. */
    private void keep(Bucket bucket, Map<Name, Session> active, int waited) {
        active.forEach((name, session) -> {
            if (session.changed) {
                sessions.updateValue(key(name), value(session));
            }
        });
        bucket.ended.forEach(name -> sessions.removeKey(key(name)));
        List<Reading> left = bucket.left();
        if (left.isEmpty()) {
            pending.clear();
        } else if (left.size() < waited) {
            pending.put(left.stream().map(Heartbeats::value).toArray(Row[]::new));
        }
        for (String device : bucket.renumbered) { // each update puts the expiry off
            long number = bucket.begun.get(device);
            if (number == 0) {
                begun.removeKey(device);
            } else {
                begun.updateValue(device, number);
            }
        }
    }

    private static Row key(Name name) {
        return RowFactory.create(name.device(), name.session());
    }

    private static Row value(Session session) {
        return RowFactory.create(session.number, session.started, session.last, session.readings, session.state);
    }

    private static Row value(Reading reading) {
        return RowFactory.create(reading.at(), reading.name().device(), reading.name().session(), reading.state());
    }

    private static Row row(Output output) {
        return RowFactory.create(
                output.name().device(),
                output.name().session(),
                output.kind(),
                output.at(),
                output.number(),
                output.started(),
                output.readings(),
                output.added(),
                output.state());
    }

    private static Encoder<Row> encoder(String columns) {
        return Encoders.row(StructType.fromDDL(columns));
    }
}
