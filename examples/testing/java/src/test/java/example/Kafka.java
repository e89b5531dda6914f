package example;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** The Kafka of one test: a broker of its own in the process of a {@link ControlApi}. */
public final class Kafka implements AutoCloseable {
    private static final Duration TIMEOUT = Duration.ofMinutes(1);

    private final ControlApi api;
    private final String path;
    public final String bootstrap;

    Kafka(ControlApi api) {
        this.api = api;
        JsonNode started = api.call("POST", "/brokers", Map.of());
        path = "/brokers/" + started.get("broker").asText();
        bootstrap = started.get("bootstrap").asText();
    }

    public void topic(String name, int partitions) {
        call("POST", "/topics", Map.of("name", name, "partitions", partitions));
    }

    public void produce(String topic, String... values) {
        List<byte[]> bytes = Arrays.stream(values)
                .map(value -> value.getBytes(StandardCharsets.UTF_8))
                .toList();
        call("POST", "/topics/" + topic + "/records", Map.of("values", bytes));
    }

    public void commit(String group, Map<String, Integer> offsets) {
        call("POST", "/groups/" + group + "/commit", Map.of("offsets", offsets));
    }

    public JsonNode group(String group) {
        return call("GET", "/groups/" + group, Map.of());
    }

    /** Calls {@code poll} until the group has this state and number of members. */
    public JsonNode waitFor(String group, String state, int members, Runnable poll) {
        for (long end = System.nanoTime() + TIMEOUT.toNanos(); System.nanoTime() < end; poll.run()) {
            JsonNode read = group(group);
            if (read.get("state").asText().equals(state) && read.get("members").size() == members) {
                return read;
            }
        }
        throw new AssertionError("not reached: " + group(group));
    }

    /** Cuts the connection of a member, now and whenever it connects again. */
    public void kill(String memberId) {
        call("POST", "/kill", Map.of("member_id", memberId));
    }

    /** Lets killed members leave, so that their clients close without waiting. */
    public void letKilledLeave() {
        call("POST", "/let_killed_leave", Map.of());
    }

    /** Lets so much of the broker's time pass now. */
    public void advance(double seconds) {
        call("POST", "/advance", Map.of("seconds", seconds));
    }

    /** Responds to the next request of an API with an error. */
    public void fail(String api, String error) {
        call("POST", "/faults/fail", Map.of("api", api, "error", error));
    }

    /** Fails if no request has met a fault. */
    public void verifyFaults() {
        call("POST", "/faults/verify", Map.of());
    }

    @Override
    public void close() {
        api.call("DELETE", path, Map.of());
    }

    private JsonNode call(String method, String verb, Map<String, ?> arguments) {
        return api.call(method, path + verb, arguments);
    }
}
