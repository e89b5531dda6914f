package example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

/** Consumers of the group "billing", in the classic protocol. */
@ExtendWith(KafkaExtension.class)
@Timeout(120)
class ConsumerTest {
    private static final Duration POLL = Duration.ofMillis(5);

    static KafkaConsumer<String, String> consumer(Kafka kafka, Map<String, String> more) {
        Properties properties = new Properties();
        properties.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, kafka.bootstrap);
        properties.put(ConsumerConfig.GROUP_ID_CONFIG, "billing");
        properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        properties.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        properties.put(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, "50");
        properties.putAll(more);
        var consumer =
                new KafkaConsumer<>(properties, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of("orders"));
        return consumer;
    }

    @Test
    void anotherMemberTakesOverAfterACrash(Kafka kafka) {
        kafka.topic("orders", 4);
        try (var a = consumer(kafka, Map.of()); var b = consumer(kafka, Map.of())) {
            while (a.assignment().size() < 2 || b.assignment().size() < 2) {
                a.poll(POLL);
                b.poll(POLL);
            }
            kafka.kill(a.groupMetadata().memberId()); // its connection is gone, without a LeaveGroup
            kafka.advance(45); // its session expires now
            JsonNode stable = kafka.waitFor("billing", "Stable", 1, () -> b.poll(POLL));
            assertEquals(4, stable.get("members").get(0).get("assignment").size());
            assertEquals(
                    "session expired",
                    stable.get("rebalances").get(stable.get("rebalances").size() - 1).get("cause").asText());
            kafka.letKilledLeave();
        }
    }

    @Test
    void anOffsetThatDoesNotExistIsResetToTheEarliest(Kafka kafka) {
        kafka.topic("orders", 1);
        kafka.produce("orders", "first", "second");
        kafka.commit("billing", Map.of("orders-0", 99)); // beyond the end
        try (var consumer = consumer(kafka, Map.of())) {
            List<String> read = new ArrayList<>();
            while (read.size() < 2) {
                consumer.poll(POLL).forEach(record -> read.add(record.value()));
            }
            assertEquals(List.of("first", "second"), read);
        }
    }

    @Test
    void aStaticMemberRestartsWithoutARebalance(Kafka kafka) {
        kafka.topic("orders", 4);
        Map<String, String> named = Map.of(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG, "billing-1");
        JsonNode before;
        try (var first = consumer(kafka, named)) {
            while (first.assignment().size() < 4) {
                first.poll(POLL);
            }
            before = kafka.group("billing");
        } // a static member does not leave
        kafka.advance(30); // the deployment takes less than its session timeout
        try (var again = consumer(kafka, named)) {
            while (again.assignment().size() < 4) {
                again.poll(POLL);
            }
            JsonNode after = kafka.group("billing");
            assertNotEquals(memberId(before), memberId(after));
            assertEquals(before.get("generation"), after.get("generation"));
            assertEquals(before.get("rebalances").size(), after.get("rebalances").size());
        }
    }

    @Test
    void aCommitIsRetriedWhileTheCoordinatorLoads(Kafka kafka) {
        kafka.topic("orders", 1);
        kafka.produce("orders", "paid");
        kafka.fail("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS");
        try (var consumer = consumer(kafka, Map.of())) {
            while (consumer.poll(POLL).isEmpty()) {}
            consumer.commitSync();
            assertEquals(1, kafka.group("billing").get("committed").get("orders-0").asInt());
        }
    }

    private static String memberId(JsonNode group) {
        return group.get("members").get(0).get("member_id").asText();
    }
}
