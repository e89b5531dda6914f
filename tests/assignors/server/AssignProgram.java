import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;

/**
 * The assignors of Kafka's server: one JSON object per line in, one per line out.
 *
 * In: assignor; homogeneous; topics (list of id, name, partitions, racks of each partition); members (list of id,
 * instance, rack, names, target), in the order in which they are handed to the assignor; writes (member ids, each
 * after + or -), what was done to the table of members; updated and replaced, member ids or null; repeat, how often to
 * compute. Out: targets (member id -> list of topic id and partitions), in the order of the record; table, the order of
 * the table; order, that of the assignor's input; nanoseconds, the least time.
 */
public class AssignProgram {
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
        }
    }

    record Topics(Map<String, Uuid> ids, Map<Uuid, JsonNode> byId) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid id) {
            return byId.containsKey(id) ? byId.get(id).get("partitions").asInt() : -1;
        }

        public Set<String> racksForPartition(Uuid id, int partition) {
            return Set.of(byId.get(id).get("racks").get(partition).asText());
        }
    }

    /** What TopicIds is in the server: a set of names, seen as the ids of those that exist. */
    static class TopicIds extends java.util.AbstractSet<Uuid> {
        final Set<String> names;
        final Topics topics;

        TopicIds(Set<String> names, Topics topics) {
            this.names = names;
            this.topics = topics;
        }

        public int size() {
            return names.size();
        }

        public boolean contains(Object id) {
            return topics.byId.containsKey(id) && names.contains(topics.byId.get(id).get("name").asText());
        }

        public java.util.Iterator<Uuid> iterator() {
            return names.stream().map(topics.ids::get).filter(id -> id != null).iterator();
        }
    }

    static ObjectNode assign(JsonNode input) {
        Topics topics = new Topics(new HashMap<>(), new HashMap<>());
        for (JsonNode topic : input.get("topics")) {
            Uuid id = Uuid.fromString(topic.get("id").asText());
            topics.ids.put(topic.get("name").asText(), id);
            topics.byId.put(id, topic);
        }
        ObjectNode output = JSON.createObjectNode();
        TimelineHashMap<String, String> table = new TimelineHashMap<>(new SnapshotRegistry(new LogContext()), 0);
        for (JsonNode write : input.get("writes")) {
            String id = write.asText().substring(1);
            if (write.asText().startsWith("+")) {
                table.put(id, id);
            } else {
                table.remove(id);
            }
        }
        ArrayNode order = output.putArray("table");
        table.keySet().forEach(order::add);

        Map<String, JsonNode> given = new LinkedHashMap<>();
        input.get("members").forEach(member -> given.put(member.get("id").asText(), member));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        table.keySet().forEach(id -> members.put(id, spec(given.get(id), topics, owners)));
        if (!input.get("updated").isNull()) {
            String updated = input.get("updated").asText();
            members.put(updated, spec(given.get(updated), topics, owners));
        }
        if (!input.get("replaced").isNull()) {
            members.remove(input.get("replaced").asText());
        }
        ArrayNode handed = output.putArray("order");
        members.keySet().forEach(handed::add);

        GroupSpecImpl group = new GroupSpecImpl(
            Collections.unmodifiableMap(members),
            input.get("homogeneous").asBoolean() ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS,
            owners);
        ConsumerGroupPartitionAssignor assignor =
            input.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        var assigned = assignor.assign(group, topics).members();
        long least = Long.MAX_VALUE;
        for (int round = 0; round < input.get("repeat").asInt(); round++) {
            long start = System.nanoTime();
            assignor.assign(group, topics);
            least = Math.min(least, System.nanoTime() - start);
        }
        output.put("nanoseconds", least);
        ObjectNode targets = output.putObject("targets");
        for (String id : members.keySet()) {
            ArrayNode target = targets.putArray(id);
            if (assigned.containsKey(id)) {
                assigned.get(id).partitions().forEach((topic, partitions) -> {
                    ArrayNode pair = target.addArray().add(topic.toString());
                    ArrayNode numbers = pair.addArray();
                    partitions.forEach(numbers::add);
                });
            }
        }
        return output;
    }

    static MemberSubscriptionAndAssignmentImpl spec(JsonNode member, Topics topics, Map<Uuid, Map<Integer, String>> owners) {
        if (member == null) {
            return null;
        }
        String id = member.get("id").asText();
        List<ConsumerGroupTargetAssignmentMemberValue.TopicPartition> record = new ArrayList<>();
        for (JsonNode pair : member.get("target")) {
            List<Integer> partitions = new ArrayList<>();
            pair.get(1).forEach(partition -> partitions.add(partition.asInt()));
            Uuid topic = Uuid.fromString(pair.get(0).asText());
            record.add(new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
                .setTopicId(topic)
                .setPartitions(partitions));
            partitions.forEach(partition -> owners.computeIfAbsent(topic, key -> new HashMap<>()).put(partition, id));
        }
        List<String> names = new ArrayList<>();
        member.get("names").forEach(name -> names.add(name.asText()));
        return new MemberSubscriptionAndAssignmentImpl(
            Optional.of(member.get("rack").asText()),
            member.get("instance").isNull() ? Optional.empty() : Optional.of(member.get("instance").asText()),
            new TopicIds(new HashSet<>(names), topics),
            Assignment.fromRecord(new ConsumerGroupTargetAssignmentMemberValue().setTopicPartitions(record)));
    }
}
