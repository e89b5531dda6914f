import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;

/**
 * Java's assignors as the leader of a group has them: one JSON object per line in, one per line out.
 *
 * In: assignor; topics (name -> for each partition the racks of its replicas); members (member id -> instance id or
 * null, subscription in Base64). Out: assignments (member id -> Base64), and the subscriptions as Java writes them.
 */
public class AssignProgram {
    static final ObjectMapper JSON =
        JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
        }
    }

    static ObjectNode assign(JsonNode input) {
        Map<String, Subscription> subscriptions = new HashMap<>();
        ObjectNode output = JSON.createObjectNode();
        ObjectNode written = output.putObject("subscriptions");
        for (JsonNode member : input.get("members")) {
            Subscription subscription = ConsumerProtocol.deserializeSubscription(decode(member.get("metadata")));
            written.put(member.get("id").asText(), encode(ConsumerProtocol.serializeSubscription(subscription)));
            Subscription read = ConsumerProtocol.deserializeSubscription(decode(member.get("metadata")));
            if (!member.get("instance").isNull()) {
                read.setGroupInstanceId(Optional.of(member.get("instance").asText()));
            }
            subscriptions.put(member.get("id").asText(), read);
        }
        ObjectNode assigned = output.putObject("assignments");
        assignor(input.get("assignor").asText())
            .assign(cluster(input.get("topics")), new GroupSubscription(subscriptions))
            .groupAssignment()
            .forEach((member, of) -> assigned.put(member, encode(ConsumerProtocol.serializeAssignment(of))));
        return output;
    }

    static ConsumerPartitionAssignor assignor(String name) {
        return switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            case "cooperative-sticky" -> new CooperativeStickyAssignor();
            default -> throw new IllegalArgumentException(name);
        };
    }

    static Cluster cluster(JsonNode topics) {
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.properties().forEach(topic -> {
            int index = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                racks.forEach(rack -> replicas.add(new Node(replicas.size(), "host", 9092, rack.asText())));
                Node[] nodes = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), index++, null, nodes, nodes));
            }
        });
        return new Cluster("cluster", List.of(), partitions, Set.of(), Set.of());
    }

    static ByteBuffer decode(JsonNode text) {
        return ByteBuffer.wrap(Base64.getDecoder().decode(text.asText()));
    }

    static String encode(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }
}
