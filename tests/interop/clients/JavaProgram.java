import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Reader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;

/** Apache Kafka's own client as a group member or a producer; see lines.py. */
public class JavaProgram {
    private static final String DESERIALIZER = "org.apache.kafka.common.serialization.StringDeserializer";
    private static final String SERIALIZER = "org.apache.kafka.common.serialization.StringSerializer";

    public static void main(String[] args) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String arg : Arrays.copyOfRange(args, 1, args.length)) {
            int at = arg.indexOf('=');
            options.put(arg.substring(0, at), arg.substring(at + 1));
        }
        if (args[0].equals("produce")) {
            System.exit(produce(options));
        }
        new Member(options).run();
    }

    private static Properties settings(Map<String, String> options) {
        Properties settings = security(options);
        settings.put("bootstrap.servers", options.get("bootstrap"));
        settings.put("reconnect.backoff.max.ms", "500");
        settings.put("key.deserializer", DESERIALIZER);
        settings.put("value.deserializer", DESERIALIZER);
        settings.put("key.serializer", SERIALIZER);
        settings.put("value.serializer", SERIALIZER);
        return settings;
    }

    private static Properties security(Map<String, String> options) {
        Properties settings = new Properties();
        if (options.containsKey("security")) {
            try (Reader file = Files.newBufferedReader(Path.of(options.get("security")))) {
                settings.load(file);
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
            System.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls",
                settings.getProperty("sasl.oauthbearer.token.endpoint.url", ""));
        }
        return settings;
    }

    /** 0 if every line of stdin was acknowledged. */
    private static int produce(Map<String, String> options) throws Exception {
        Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
        for (String codec : options.get("codec").split(",")) {
            Properties settings = settings(options);
            settings.put("compression.type", codec);
            settings.put("linger.ms", "5");
            producers.put(options.get("topic").replace("{}", codec), new KafkaProducer<>(settings));
        }
        AtomicInteger failures = new AtomicInteger();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split("\t", 2);
            producers.forEach((topic, producer) ->
                producer.send(new ProducerRecord<>(topic, parts[0], parts[1]), (metadata, error) -> {
                    if (error != null && failures.incrementAndGet() <= 3) {
                        System.err.println(error);
                    }
                }));
        }
        producers.values().forEach(KafkaProducer::close);
        return failures.get() == 0 ? 0 : 1;
    }

    private static synchronized void say(String event, String fields) {
        System.out.println("{\"event\": \"" + event + "\", \"at\": " + System.nanoTime() + fields + "}");
    }

    private static String quoted(Object value) {
        return value == null ? "null" : "\"" + value.toString().replace("\\", "\\\\").replace("\"", "'") + "\"";
    }

    private static String list(Collection<String> items) {
        return "[" + String.join(", ", items) + "]";
    }

    private static final class Member implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        private final Map<TopicPartition, OffsetAndMetadata> pending = new HashMap<>();
        private final CountDownLatch closed = new CountDownLatch(1);
        private volatile boolean leave = false;
        private int untilStall;
        private final long stallMs;

        Member(Map<String, String> options) {
            Properties settings = settings(options);
            untilStall = Integer.parseInt(options.getOrDefault("stall_after", "0"));
            stallMs = Long.parseLong(options.getOrDefault("stall", "0"));
            settings.put("max.poll.interval.ms", options.getOrDefault("poll_interval", "300000"));
            settings.put("group.id", options.get("group"));
            settings.put("client.id", options.get("client"));
            if (options.containsKey("protocol")) {
                settings.put("group.protocol", options.get("protocol"));
            } else {
                settings.put("partition.assignment.strategy", assignor(options.get("assignor")));
                settings.put("session.timeout.ms", options.get("session"));
                settings.put("heartbeat.interval.ms", options.get("heartbeat"));
            }
            if (options.containsKey("instance")) {
                settings.put("group.instance.id", options.get("instance"));
            }
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", "false");
            settings.put("fetch.max.wait.ms", "200");
            consumer = new KafkaConsumer<>(settings);
            consumer.subscribe(List.of(options.get("topics").split(",")), this);
            Runtime.getRuntime().addShutdownHook(new Thread(this::leaveInGoodOrder));
        }

        private static String assignor(String name) {
            return "org.apache.kafka.clients.consumer." + Map.of(
                "range", "RangeAssignor",
                "roundrobin", "RoundRobinAssignor",
                "sticky", "StickyAssignor",
                "cooperative-sticky", "CooperativeStickyAssignor").get(name);
        }

        private void leaveInGoodOrder() {
            leave = true;
            consumer.wakeup();
            try {
                closed.await();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }

        private void sayOwned(Collection<TopicPartition> without) {
            say("owns", ", \"partitions\": " + list(consumer.assignment().stream()
                .filter(owned -> !without.contains(owned)).map(JavaProgram::quoted).sorted().collect(Collectors.toList()))
                + ", \"member\": " + quoted(consumer.groupMetadata().memberId())
                + ", \"generation\": " + consumer.groupMetadata().generationId());
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> added) {
            sayOwned(List.of());
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
            commit();
            onPartitionsLost(revoked);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> lost) {
            pending.keySet().removeAll(lost);
            sayOwned(lost);
        }

        private void commit() {
            if (pending.isEmpty()) {
                return;
            }
            try {
                consumer.commitSync(pending, Duration.ofSeconds(10));
            } catch (WakeupException asked) {
                return;
            } catch (KafkaException error) {
                say("failed", ", \"what\": " + quoted("commit: " + error));
                return;
            }
            say("committed", ", \"offsets\": {" + pending.entrySet().stream()
                .map(entry -> quoted(entry.getKey()) + ": " + entry.getValue().offset())
                .collect(Collectors.joining(", ")) + "}");
            pending.clear();
        }

        private void process(TopicPartition partition, List<ConsumerRecord<String, String>> batch) {
            List<String> offsets = batch.stream().map(r -> Long.toString(r.offset())).collect(Collectors.toList());
            List<String> values = batch.stream().map(r -> quoted(r.value())).collect(Collectors.toList());
            say("records", ", \"partition\": " + quoted(partition)
                + ", \"offsets\": " + list(offsets) + ", \"values\": " + list(values));
            pending.put(partition, new OffsetAndMetadata(batch.get(batch.size() - 1).offset() + 1));
        }

        private void stall(int records) throws InterruptedException {
            if (untilStall > 0) {
                untilStall -= records;
                if (untilStall <= 0) {
                    Thread.sleep(stallMs);
                }
            }
        }

        void run() throws InterruptedException {
            try {
                while (!leave) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                    records.partitions().forEach(partition -> process(partition, records.records(partition)));
                    commit();
                    stall(records.count());
                }
            } catch (WakeupException asked) {
                commit();
            } finally {
                consumer.close();
                say("left", "");
                closed.countDown();
            }
        }
    }
}
