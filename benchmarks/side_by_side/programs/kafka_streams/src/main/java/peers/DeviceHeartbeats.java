package peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.ConsumerRecord;
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

/** `device_heartbeats`: a document for each device, and a store of alarms that stream time rings. */
final class DeviceHeartbeats implements Processor<String, JsonNode, String, JsonNode> {
    private static final String DEVICES = "devices";
    private static final String ALARMS = "alarms";
    private static final long HEARTBEAT = 30_000;
    private static final long INACTIVE = 120_000;
    private static final long LATE = 60_000;

    private ProcessorContext<String, JsonNode> context;
    private KeyValueStore<String, JsonNode> devices;
    private KeyValueStore<String, String> alarms;

    static void define(StreamsBuilder builder, String source, String sink) {
        builder.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(DEVICES), Serdes.String(), Json.SERDE));
        builder.addStateStore(Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(ALARMS), Serdes.String(), Serdes.String()));
        builder.stream(source, Consumed.with(Serdes.String(), Json.SERDE).withTimestampExtractor(DeviceHeartbeats::at))
                .process(DeviceHeartbeats::new, DEVICES, ALARMS)
                .to(sink, Produced.with(Serdes.String(), Json.SERDE));
    }

    private static long at(ConsumerRecord<Object, Object> record, long partitionTime) {
        return Instant.parse(((JsonNode) record.value()).get("event_time").asText()).toEpochMilli();
    }

    @Override
    public void init(ProcessorContext<String, JsonNode> given) {
        context = given;
        devices = given.getStateStore(DEVICES);
        alarms = given.getStateStore(ALARMS);
        given.schedule(Duration.ofMillis(100), PunctuationType.STREAM_TIME, this::ring);
    }

    @Override
    public void process(Record<String, JsonNode> record) {
        JsonNode reading = record.value();
        String name = reading.get("device_id").asText();
        ObjectNode device = (ObjectNode) devices.get(name);
        if (device == null) {
            device = Json.object().put("begun", 0).put("due", Long.MAX_VALUE);
            device.putObject("sessions");
            device.putArray("pending");
        }
        device.withArray("pending").addObject().put("at", record.timestamp())
                .put("session", reading.get("session_id").asText()).put("state", reading.get("state").asText());
        long point = firstPoint(record.timestamp(), name);
        if (point < device.get("due").asLong()) {
            alarms.delete(alarm(device.get("due").asLong(), name));
            alarms.put(alarm(point, name), name);
            device.put("due", point);
        }
        devices.put(name, device);
    }

    private void ring(long streamTime) {
        long clock = streamTime - LATE;
        List<KeyValue<String, String>> due = new ArrayList<>();
        try (KeyValueIterator<String, String> found = alarms.range(null, alarm(clock, "~"))) {
            found.forEachRemaining(due::add);
        }
        for (KeyValue<String, String> each : due) {
            alarms.delete(each.key);
            catchUp(each.value, (ObjectNode) devices.get(each.value), clock);
        }
    }

    private void catchUp(String name, ObjectNode device, long clock) {
        long point = device.get("due").asLong();
        while (point <= clock) {
            beat(name, device, point);
            point = next(name, device, point);
        }
        if (point == Long.MAX_VALUE) {
            devices.delete(name);
        } else {
            devices.put(name, device.put("due", point));
            alarms.put(alarm(point, name), name);
        }
    }

    private static long next(String name, ObjectNode device, long point) {
        if (!device.get("sessions").isEmpty()) {
            return firstPoint(point + 1, name);
        }
        device.put("begun", 0);
        long least = Long.MAX_VALUE;
        for (JsonNode reading : device.get("pending")) {
            least = Math.min(least, reading.get("at").asLong());
        }
        return least == Long.MAX_VALUE ? least : firstPoint(least, name);
    }

    private void beat(String name, ObjectNode device, long point) {
        ObjectNode sessions = (ObjectNode) device.get("sessions");
        Map<String, Integer> added = new HashMap<>();
        ArrayNode left = Json.MAPPER.createArrayNode();
        for (JsonNode reading : device.get("pending")) { // in the order of their times, as the topic has them
            if (reading.get("at").asLong() > point) {
                left.add(reading);
            } else {
                take(name, device, sessions, reading, added);
            }
        }
        device.set("pending", left);
        for (Iterator<Map.Entry<String, JsonNode>> each = sessions.fields(); each.hasNext(); ) {
            Map.Entry<String, JsonNode> entry = each.next();
            long end = entry.getValue().get("last").asLong() + INACTIVE;
            boolean ended = point > end;
            write(name, entry.getKey(), ended ? "END" : "HEARTBEAT", ended ? end : point, entry.getValue(),
                    added.getOrDefault(entry.getKey(), 0));
            if (ended) {
                each.remove();
            }
        }
    }

    private void take(String name, ObjectNode device, ObjectNode sessions, JsonNode reading, Map<String, Integer> added) {
        String id = reading.get("session").asText();
        long at = reading.get("at").asLong();
        ObjectNode session = (ObjectNode) sessions.get(id);
        if (session != null && at > session.get("last").asLong() + INACTIVE) {
            Integer counted = added.remove(id);
            write(name, id, "END", session.get("last").asLong() + INACTIVE, session, counted == null ? 0 : counted);
            session = null;
        }
        if (session == null) {
            long number = device.get("begun").asLong() + 1;
            device.put("begun", number);
            session = Json.object().put("number", number).put("started", at).put("last", at).put("readings", 0);
            sessions.set(id, session);
        }
        session.put("last", Math.max(session.get("last").asLong(), at)).put("state", reading.get("state").asText());
        session.put("readings", session.get("readings").asLong() + 1);
        added.merge(id, 1, Integer::sum);
    }

    private void write(String name, String id, String kind, long at, JsonNode session, int added) {
        ObjectNode row = Json.object().put("device_id", name).put("session_id", id).put("kind", kind).put("at", at);
        row.put("number", session.get("number").asLong()).put("started_at", session.get("started").asLong());
        row.put("readings", session.get("readings").asLong()).put("added", added);
        row.put("state", session.get("state").asText());
        context.forward(new Record<>(name, (JsonNode) row, at));
    }

    private static long firstPoint(long at, String device) {
        CRC32 checksum = new CRC32();
        checksum.update(device.getBytes(StandardCharsets.UTF_8));
        return at + Math.floorMod(checksum.getValue() - at, HEARTBEAT);
    }

    private static String alarm(long at, String device) {
        return String.format("%019d|%s", at, device);
    }
}
