import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.WindowStore;

/**
 * One instance of a Kafka Streams application that counts the records of a topic by key and window of time, and
 * writes the count of a window once, after the window is closed (suppress), as KEY@START_MS.
 * The options input=TOPIC and output=TOPIC name its topics, window.ms and grace.ms its windows, all others are
 * settings of Streams. Each change of its state and of the number of its tasks is a line, such as "RUNNING 6".
 */
public class WindowsProgram {
    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String arg : args) {
            int at = arg.indexOf('=');
            options.put(arg.substring(0, at), arg.substring(at + 1));
        }
        KafkaStreams streams = streams(options);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
        streams.start();
        String told = "";
        while (true) {
            String line = streams.state() + " "
                + streams.metadataForLocalThreads().stream().mapToLong(thread -> thread.activeTasks().size()).sum();
            if (!line.equals(told)) {
                System.out.println(line);
                told = line;
            }
            Thread.sleep(50);
        }
    }

    private static KafkaStreams streams(Map<String, String> options) {
        String input = options.remove("input");
        String output = options.remove("output");
        Duration window = Duration.ofMillis(Long.parseLong(options.remove("window.ms")));
        Duration grace = Duration.ofMillis(Long.parseLong(options.remove("grace.ms")));
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(input)
            .groupBy((key, value) -> key, Grouped.with("keys", Serdes.String(), Serdes.String()))
            .windowedBy(TimeWindows.ofSizeAndGrace(window, grace))
            .count(Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("windows")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("final"))
            .toStream()
            .map((key, count) -> KeyValue.pair(key.key() + "@" + key.window().start(), String.valueOf(count)))
            .to(output);
        Properties settings = new Properties();
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.putAll(options);
        return new KafkaStreams(builder.build(), settings);
    }
}
