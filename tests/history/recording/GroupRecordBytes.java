import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordJsonConverters;

/**
 * Writes records of the group coordinator with Kafka's own classes.
 *
 * <p>Each line of the input is {"type", "version", "key", "value"}, with key and value as
 * DumpLogSegments prints them. Each line of the output is the key and the value in hexadecimal.
 */
public class GroupRecordBytes {
    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode record = mapper.readTree(line);
            short type = (short) record.get("type").asInt();
            short version = (short) record.get("version").asInt();
            ApiMessage key =
                    CoordinatorRecordJsonConverters.readRecordKeyFromJson(record.get("key"), type);
            ApiMessage value =
                    CoordinatorRecordJsonConverters.readRecordValueFromJson(
                            record.get("value"), type, version);
            HexFormat hex = HexFormat.of();
            System.out.println(
                    hex.formatHex(MessageUtil.toCoordinatorTypePrefixedBytes(key))
                            + " "
                            + hex.formatHex(MessageUtil.toVersionPrefixedBytes(version, value)));
        }
    }
}
