package peers;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;

/** JSON as values of records and of state. */
final class Json {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final Serde<JsonNode> SERDE = Serdes.serdeFrom((topic, node) -> bytes(node), (topic, data) -> node(data));

    private Json() {}

    static ObjectNode object() {
        return MAPPER.createObjectNode();
    }

    private static byte[] bytes(JsonNode node) {
        try {
            return node == null ? null : MAPPER.writeValueAsBytes(node);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static JsonNode node(byte[] data) {
        try {
            return data == null ? null : MAPPER.readTree(data);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
