import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Copies a topic to another exactly once, from the last checkpoint on. Arguments: bootstrap servers,
 * the topics, the directory of the checkpoints.
 */
public class FlinkProgram {
    public static void main(String[] args) throws Exception {
        Path checkpoints = Path.of(args[3]);
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.dir", checkpoints.toUri().toString());
        settings.setString("execution.checkpointing.interval", "500 ms");
        last(checkpoints).ifPresent(path -> settings.setString("execution.state-recovery.path", path.toUri().toString()));
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        environment.setParallelism(2);
        KafkaSource<String> source = KafkaSource.<String>builder()
            .setBootstrapServers(args[0])
            .setTopics(args[1])
            .setGroupId(args[1])
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        KafkaSink<String> sink = KafkaSink.<String>builder()
            .setBootstrapServers(args[0])
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(args[2])
            .setProperty("transaction.timeout.ms", "60000")
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic(args[2])
                .setValueSerializationSchema(new SimpleStringSchema())
                .build())
            .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "source").uid("source").sinkTo(sink).uid("sink");
        environment.execute();
    }

    /** The last complete checkpoint of all jobs, if there is one. */
    private static Optional<Path> last(Path checkpoints) throws IOException {
        try (Stream<Path> files = Files.walk(checkpoints)) {
            return files.filter(file -> file.endsWith("_metadata"))
                .max(Comparator.comparing(file -> file.toFile().lastModified()))
                .map(Path::getParent);
        }
    }
}
