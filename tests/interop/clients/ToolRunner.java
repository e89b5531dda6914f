import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Apache Kafka's command line tools one after the other in one JVM, which saves a second for each.
 * A line of stdin is a tool's main class and its arguments, split by tabs; what the tool printed comes back, then END.
 */
public class ToolRunner {
    private static final class Ended extends RuntimeException {
        private static final long serialVersionUID = 1L;
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        Exit.setExitProcedure((status, message) -> {
            throw new Ended();
        });
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream stream = new PrintStream(printed, true, StandardCharsets.UTF_8);
            System.setOut(stream);
            System.setErr(stream);
            run(words[0], Arrays.copyOfRange(words, 1, words.length), stream);
            out.println(printed.toString(StandardCharsets.UTF_8));
            out.println("END");
            out.flush();
        }
    }

    private static void run(String tool, String[] args, PrintStream stream) {
        try {
            Class.forName(tool).getMethod("main", String[].class).invoke(null, (Object) args);
        } catch (java.lang.reflect.InvocationTargetException error) {
            if (!(error.getCause() instanceof Ended)) {
                error.getCause().printStackTrace(stream);
            }
        } catch (ReflectiveOperationException error) {
            error.printStackTrace(stream);
        }
    }
}
