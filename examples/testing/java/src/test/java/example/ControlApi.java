package example;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A process {@code kohort serve --dev --control}, and requests to its control API. */
final class ControlApi implements AutoCloseable {
    private static final Pattern CONTROL = Pattern.compile(" control=(\\S+)");
    private static final ObjectMapper JSON = new ObjectMapper();

    private final HttpClient http = HttpClient.newHttpClient();
    private final Process process;
    private final String control;

    /** Starts the command {@code kohort}, which is found by the PATH. */
    ControlApi() throws IOException {
        process = new ProcessBuilder(
                        "kohort", "serve", "--dev", "--memory",
                        "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")
                .redirectErrorStream(true)
                .start();
        Runtime.getRuntime().addShutdownHook(new Thread(process::destroy));
        BufferedReader log = process.inputReader();
        control = addressIn(log);
        Thread reader = new Thread(() -> skip(log));
        reader.setDaemon(true);
        reader.start();
    }

    private static void skip(BufferedReader log) {
        try {
            while (log.readLine() != null) {}
        } catch (IOException error) {
            // The process has ended.
        }
    }

    private static String addressIn(BufferedReader log) throws IOException {
        StringBuilder lines = new StringBuilder();
        for (String line = log.readLine(); line != null; line = log.readLine()) {
            Matcher found = CONTROL.matcher(line);
            if (found.find()) {
                return found.group(1);
            }
            lines.append(line).append('\n');
        }
        throw new IOException("kohort serve ended:\n" + lines);
    }

    /** The result of a verb; its arguments are one JSON object. Throws with the API's error. */
    JsonNode call(String method, String path, Map<String, ?> arguments) {
        try {
            HttpRequest request = HttpRequest.newBuilder(URI.create("http://" + control + path))
                    .method(method, BodyPublishers.ofByteArray(JSON.writeValueAsBytes(arguments)))
                    .build();
            var response = http.send(request, BodyHandlers.ofByteArray());
            JsonNode result = JSON.readTree(response.body());
            if (response.statusCode() != 200) {
                throw new AssertionError(path + ": " + result.get("error").asText());
            }
            return result;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void close() throws InterruptedException {
        process.destroy();
        process.waitFor();
    }
}
