package peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.WindowStore;

/** `flight_departures`: windows of an hour that begin at a quarter of an hour, written when they are closed. */
final class FlightDepartures {
    private static final Duration HOUR = Duration.ofHours(1);
    private static final TimeWindows WINDOWS =
            TimeWindows.ofSizeAndGrace(HOUR, HOUR.multipliedBy(2)).advanceBy(Duration.ofMinutes(15));
    private static final Serde<Sums> SUMS = Serdes.serdeFrom((topic, sums) -> sums.bytes(), (topic, data) -> Sums.of(data));

    private FlightDepartures() {}

    static void define(StreamsBuilder builder, String source, String sink) {
        builder.stream(source, Consumed.with(Serdes.String(), Json.SERDE).withTimestampExtractor(FlightDepartures::at))
                .groupByKey(Grouped.with(Serdes.String(), Json.SERDE))
                .windowedBy(WINDOWS)
                .aggregate(
                        () -> new Sums(0, 0, 0),
                        (key, flight, sums) -> sums.with(flight),
                        Materialized.<String, Sums, WindowStore<Bytes, byte[]>>as("sums")
                                .withKeySerde(Serdes.String())
                                .withValueSerde(SUMS)
                                .withCachingDisabled())
                // EmitStrategy.onWindowClose() looks for closed windows once a second of the clock; this at each record.
                .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()))
                .toStream((window, sums) -> window.key() + "@" + window.window().start())
                .mapValues((key, sums) -> row(key, sums))
                .to(sink, Produced.with(Serdes.String(), Json.SERDE));
    }

    private static long at(ConsumerRecord<Object, Object> record, long partitionTime) {
        return Instant.parse(((JsonNode) record.value()).get("event_time").asText()).toEpochMilli();
    }

    private static JsonNode row(String key, Sums sums) {
        String[] parts = key.split("[|@]");
        long start = Long.parseLong(parts[2]);
        ObjectNode row = Json.object().put("window_start", start).put("window_end", start + HOUR.toMillis());
        row.put("origin", parts[0]).put("carrier", parts[1]).put("flights", sums.flights());
        row.put("departures", sums.departures()).put("cancellations", sums.flights() - sums.departures());
        return row.put("delay_minutes", sums.delay());
    }

    /** What a window holds. */
    record Sums(long flights, long departures, long delay) {
        Sums with(JsonNode flight) {
            return new Sums(
                    flights + 1,
                    departures + (flight.get("departed_at").isNull() ? 0 : 1),
                    delay + flight.get("dep_delay").asLong(0));
        }

        byte[] bytes() {
            return ByteBuffer.allocate(24).putLong(flights).putLong(departures).putLong(delay).array();
        }

        static Sums of(byte[] data) {
            if (data == null) {
                return null;
            }
            ByteBuffer read = ByteBuffer.wrap(data);
            return new Sums(read.getLong(), read.getLong(), read.getLong());
        }
    }
}
