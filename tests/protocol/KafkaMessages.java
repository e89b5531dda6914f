import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Reads a line of JSON per message, [class, version, fields or null], and writes the bytes that
 * Apache Kafka's own class has for it, in hexadecimal. null: the message without any values.
 */
public class KafkaMessages {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        for (String line : new String(System.in.readAllBytes(), "UTF-8").split("\n")) {
            JsonNode message = mapper.readTree(line);
            String name = "org.apache.kafka.common.message." + message.get(0).asText() + "Data";
            short version = (short) message.get(1).asInt();
            ByteBuffer buffer =
                MessageUtil.toByteBufferAccessor(data(name, version, message.get(2)), version).buffer();
            System.out.println(HexFormat.of().formatHex(buffer.array(), 0, buffer.limit()));
        }
    }

    private static ApiMessage data(String name, short version, JsonNode fields) throws Exception {
        if (fields.isNull()) {
            return (ApiMessage) Class.forName(name).getConstructor().newInstance();
        }
        return (ApiMessage) Class.forName(name + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class)
            .invoke(null, fields, version);
    }
}
