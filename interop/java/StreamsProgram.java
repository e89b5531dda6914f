import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;

/**
 * One instance of a Kafka Streams application that counts the records of a topic by key, in all and per day.
 * The options input=TOPIC and output=TOPIC name its topics, all others are settings of Streams. Records pass a
 * repartition topic, and each count has a changelog. The running counts of KEY go to the output as KEY and KEY@day.
 * Each change of its state and of the number of its tasks is a line, such as "RUNNING 6".
 */
public class StreamsProgram {
    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String arg : args) {
            int at = arg.indexOf('=');
            options.put(arg.substring(0, at), arg.substring(at + 1));
        }
        KafkaStreams streams = streams(options.remove("input"), options.remove("output"), options);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
        streams.start();
        String told = "";
        while (true) {
            String line = streams.state() + " " + tasks(streams);
            if (!line.equals(told)) {
                System.out.println(line);
                told = line;
            }
            Thread.sleep(50);
        }
    }

    private static KafkaStreams streams(String input, String output, Map<String, String> options) {
        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, String> records =
            builder.<String, String>stream(input).groupBy((key, value) -> key, Grouped.as("keys"));
        records.count(Materialized.as("total"))
            .toStream().mapValues(String::valueOf).to(output);
        records.windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofDays(1))).count(Materialized.as("daily"))
            .toStream().map((day, count) -> KeyValue.pair(day.key() + "@day", String.valueOf(count))).to(output);
        Properties settings = new Properties();
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.putAll(options);
        return new KafkaStreams(builder.build(), settings);
    }

    private static long tasks(KafkaStreams streams) {
        return streams.metadataForLocalThreads().stream().mapToLong(thread -> thread.activeTasks().size()).sum();
    }
}
