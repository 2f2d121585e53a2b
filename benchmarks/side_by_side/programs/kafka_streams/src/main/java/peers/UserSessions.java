package peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** `user_sessions`: an open session for each id, and a store of alarms that is looked through each second. */
final class UserSessions implements Processor<String, JsonNode, String, JsonNode> {
    private static final String SESSIONS = "sessions";
    private static final String ALARMS = "alarms";
    private static final Map<String, Long> TIMEOUTS = Map.of("web", 1_800_000L, "kiosk", 600_000L);
    private static final long ANY_CLIENT = 60_000L;

    private ProcessorContext<String, JsonNode> context;
    private KeyValueStore<String, JsonNode> sessions;
    private KeyValueStore<String, String> alarms;

    static void define(StreamsBuilder builder, String source, String sink) {
        builder.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(SESSIONS), Serdes.String(), Json.SERDE));
        builder.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(ALARMS), Serdes.String(), Serdes.String()));
        builder.stream(source, Consumed.with(Serdes.String(), Json.SERDE))
                .process(UserSessions::new, SESSIONS, ALARMS)
                .to(sink, Produced.with(Serdes.String(), Json.SERDE));
    }

    @Override
    public void init(ProcessorContext<String, JsonNode> given) {
        context = given;
        sessions = given.getStateStore(SESSIONS);
        alarms = given.getStateStore(ALARMS);
        given.schedule(Duration.ofSeconds(1), PunctuationType.WALL_CLOCK_TIME, this::ring);
    }

    @Override
    public void process(Record<String, JsonNode> record) {
        long now = context.currentSystemTimeMs();
        JsonNode event = record.value();
        String user = event.get("id").asText();
        ObjectNode session = (ObjectNode) sessions.get(user);
        if (session == null) {
            session = Json.object().put("began", now).put("alarm", now + timeout(user));
            session.putArray("data");
            alarms.put(alarm(now + timeout(user), user), user);
        }
        session.put("last", now).withArray("data").add(event.get("data").asText());
        if (event.get("is_last").asBoolean(false)) {
            alarms.delete(alarm(session.get("alarm").asLong(), user));
            end(user, session, now, "LAST");
        } else {
            sessions.put(user, session);
        }
    }

    /** An alarm stays where it is while events push the end away: when it rings, it is moved on. */
    private void ring(long now) {
        List<KeyValue<String, String>> due = new ArrayList<>();
        try (KeyValueIterator<String, String> found = alarms.range(null, alarm(now, "~"))) {
            found.forEachRemaining(due::add);
        }
        for (KeyValue<String, String> each : due) {
            alarms.delete(each.key);
            ObjectNode session = (ObjectNode) sessions.get(each.value);
            long end = session.get("last").asLong() + timeout(each.value);
            if (now >= end) {
                end(each.value, session, end, "TIMEOUT");
            } else {
                sessions.put(each.value, session.put("alarm", end));
                alarms.put(alarm(end, each.value), each.value);
            }
        }
    }

    private void end(String user, ObjectNode session, long ended, String reason) {
        sessions.delete(user);
        ArrayNode data = session.withArray("data");
        ObjectNode row = Json.object().put("id", user).put("client", client(user)).put("reason", reason);
        row.put("started_at", session.get("began").asLong()).put("ended_at", ended).put("events", data.size());
        row.set("data", data);
        context.forward(new Record<>(user, (JsonNode) row, context.currentSystemTimeMs()));
    }

    private static String alarm(long at, String user) {
        return String.format("%015d|%s", at, user);
    }

    private static String client(String user) {
        return user.split(":", 2)[0];
    }

    private static long timeout(String user) {
        return TIMEOUTS.getOrDefault(client(user), ANY_CLIENT);
    }
}
