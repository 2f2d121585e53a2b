package peers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;

/**
 * Runs one job. Arguments: job, servers, source, sink, folder for state, threads, seconds between commits, and a file to
 * which the mean duration of the newest commits (ms) is appended each second.
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        switch (args[0]) {
            case "flight_departures" -> FlightDepartures.define(builder, args[2], args[3]);
            case "user_sessions" -> UserSessions.define(builder, args[2], args[3]);
            case "device_heartbeats" -> DeviceHeartbeats.define(builder, args[2], args[3]);
            default -> throw new IllegalArgumentException("no such job: " + args[0]);
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), settings(args));
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        while (streams.state() != KafkaStreams.State.ERROR) {
            Thread.sleep(1000);
            report(streams, Path.of(args[7]));
        }
        System.exit(1);
    }

    private static Properties settings(String[] args) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[2]);
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, Integer.parseInt(args[5]));
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000L * Integer.parseInt(args[6]));
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        // A static member takes its place again at once; another one waits until the broker has given up the dead one.
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG), args[2]);
        return settings;
    }

    private static void report(KafkaStreams streams, Path file) throws IOException {
        double sum = 0;
        int count = 0;
        for (Metric metric : streams.metrics().values()) {
            if (metric.metricName().name().equals("commit-latency-avg") && metric.metricValue() instanceof Double mean
                    && !mean.isNaN()) {
                sum += mean;
                count++;
            }
        }
        if (count > 0) {
            Files.writeString(file, sum / count + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }
}
